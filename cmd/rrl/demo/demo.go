// Package demo shows what the rate limiter does: four callers share five permits per
// second. It prints what each of them gets and when, and what Redis holds at the end.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

const (
	// The limit is small enough that a reader can count along, in permits and in
	// seconds.
	rate     = 5
	interval = time.Second

	// longest bounds the demo, which takes half of it on a server that is well.
	// cleanUp is the time to delete the limiter after that.
	longest = 8 * time.Second
	cleanUp = time.Second

	// lifetime bounds what is left in Redis if this process is killed.
	lifetime = time.Minute
)

// Run runs the demo on a Redis, and on an embedded one if rdb is nil. where is what the
// demo calls it. rdb must use RESP2, whose replies have the order and form that redis-cli
// shows.
func Run(ctx context.Context, rdb redis.UniversalClient, where string, stdout io.Writer) error {
	s := remote(rdb, where)
	if rdb == nil {
		s = embedded()
	}
	defer s.close()
	late := fmt.Errorf("the demo was not done within %v", longest)
	ctx, cancel := context.WithTimeoutCause(ctx, longest, late)
	defer cancel()
	return demoOn(ctx, s, stdout)
}

// demoOn makes a limiter, plays the scene with it, shows its keys in Redis, and
// deletes it.
func demoOn(ctx context.Context, s *server, stdout io.Writer) (err error) {
	client := rratelimiter.New(s.rdb, rratelimiter.WithGoOnly())
	defer client.Close()
	limiter := client.RateLimiter(s.name)
	if err := create(ctx, limiter); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove(ctx, limiter)) }()

	page, callers := newPage(stdout), scene()
	page.printf("%d permits per second, shared by %d callers, on %s.\n\n", rate, len(callers), s.where)
	log, err := newTimeline(ctx, s.rdb, limiter, page)
	if err != nil {
		return err
	}
	if err := log.play(ctx, callers); err != nil {
		return err
	}
	if err := showKeys(ctx, s, log); err != nil {
		return err
	}
	return log.sumUp(callers)
}

// create sets the rate of a new limiter. It sets a lifetime, too: if this process
// is killed, the hash expires, and value and permits with it.
func create(ctx context.Context, limiter *rratelimiter.RateLimiter) error {
	fresh, err := limiter.TrySetRate(ctx, rratelimiter.Overall, rate, interval)
	if err != nil {
		return err
	}
	if !fresh {
		return fmt.Errorf("there is a limiter called %q already", limiter.Name())
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
