// Package demo shows what the rate limiter does: four callers share five permits per second. It prints
// what each caller gets and when, and what Redis holds at the end.
package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/redisson-go/rratelimiter"
)

const (
	// The limit is small enough that a reader can count along, in permits and in seconds.
	rate     = 5
	interval = time.Second

	// longest bounds the demo, which takes half of it on a server that is well. cleanUp is the time to
	// delete the limiter after that.
	longest = 8 * time.Second
	cleanUp = time.Second

	// lifetime bounds what is left in Redis if this process is killed.
	lifetime = time.Minute
)

// A Demo is what Run needs. The zero value, but for Inspect, runs on an embedded Redis.
type Demo struct {
	Redis redis.UniversalClient // nil for an embedded one
	Where string                // names Redis

	Colours bool   // the terminal shows colours
	Program string // how to call rrl, for the reader

	// Inspect prints what Redis holds of a limiter.
	Inspect func(ctx context.Context, rdb redis.UniversalClient, name string, w io.Writer) error
}

// Run runs the demo, until an error of stdout at the latest. Its limiter on a real Redis has a random name,
// because the demo must not read or delete the keys of another limiter.
func (d Demo) Run(ctx context.Context, stdout io.Writer) error {
	const chance = 8 // random letters: 40 bits
	name := "rrl-demo-" + strings.ToLower(rand.Text()[:chance])
	on := d
	if d.Redis == nil {
		rdb, end := embedded()
		defer end()
		name, on.Redis, on.Where = "demo", rdb, "an embedded miniredis"
	}
	late := fmt.Errorf("the demo did not end within %v", longest)
	ctx, cancel := context.WithTimeoutCause(ctx, longest, late)
	defer cancel()
	return on.play(ctx, name, stdout)
}

// embedded starts a miniredis that is reached through pipes: no port can be in use already, and no
// firewall asks.
func embedded() (rdb *redis.Client, end func()) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true) // otherwise keys never expire
	rdb = redis.NewClient(&redis.Options{
		Addr:   "embedded",
		Dialer: func(context.Context, string, string) (net.Conn, error) { return m.Dial() },

		DisableIdentity: true,
		// Otherwise go-redis looks up the address.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	return rdb, func() {
		_ = rdb.Close() // before the server, or its connections break
		m.Close()
	}
}

// play makes a limiter, plays the scene with it, shows its keys in Redis, and deletes it.
func (d Demo) play(ctx context.Context, name string, stdout io.Writer) (err error) {
	client := rratelimiter.New(d.Redis, rratelimiter.WithGoOnly())
	defer client.Close()
	limiter := client.RateLimiter(name)
	if err := create(ctx, limiter); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove(ctx, limiter)) }()

	callers := scene()
	fmt.Fprintf(stdout, "%d permits per second, shared by %d callers, on %s.\n\n", rate, len(callers),
		d.Where)
	log := newTimeline(limiter, stdout)
	log.colours = d.Colours
	if err := log.play(ctx, callers); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "\nAt %.3f Redis holds, for Go and Java alike:\n\n", time.Since(log.start).Seconds())
	if err := d.Inspect(ctx, d.Redis, name, stdout); err != nil {
		return err
	}
	return log.sumUp(callers, d.Program)
}

// create sets the rate of a new limiter, and a lifetime: if this process is killed, all keys expire.
func create(ctx context.Context, limiter *rratelimiter.RateLimiter) error {
	fresh, err := limiter.TrySetRate(ctx, rratelimiter.Overall, rate, interval)
	if err != nil {
		return err
	}
	if !fresh {
		return fmt.Errorf("a limiter called %q exists already", limiter.Name())
	}
	_, err = limiter.Expire(ctx, lifetime)
	return err
}

// remove deletes the limiter, even if ctx has ended.
func remove(ctx context.Context, limiter *rratelimiter.RateLimiter) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	defer cancel()
	if _, err := limiter.Delete(ctx); err != nil {
		return fmt.Errorf("limiter %q could not be deleted and will expire within a minute: %w",
			limiter.Name(), err)
	}
	return nil
}
