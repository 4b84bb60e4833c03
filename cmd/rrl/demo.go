package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"strings"
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

// demo runs the demo on the server that args name.
func demo(ctx context.Context, args []string, stdout io.Writer) error {
	s, err := chooseServer(args)
	if errors.Is(err, flag.ErrHelp) {
		return put(stdout, usage)
	}
	if err != nil {
		return fmt.Errorf("demo: %w; %w", err, errUsage)
	}
	defer s.close()
	late := fmt.Errorf("the demo was not done within %v", longest)
	ctx, cancel := context.WithTimeoutCause(ctx, longest, late)
	defer cancel()
	if err := s.ping(ctx); err != nil {
		return err
	}
	return demoOn(ctx, s, stdout)
}

// chooseServer returns the server that args name, the embedded one if they name
// none.
func chooseServer(args []string) (*server, error) {
	var address *string
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // run prints the error
	flags.Func("redis", "", func(value string) error {
		address = &value
		return nil
	})
	switch err := flags.Parse(args); {
	case err != nil:
		return nil, err
	case flags.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case address == nil:
		return embedded(), nil
	}
	opts, err := parseAddress(*address)
	if err != nil {
		return nil, err
	}
	return remote(opts), nil
}

// parseAddress reads the value of --redis: host:port, or a URL. The error does not
// show the address, for it may hold a password.
func parseAddress(address string) (*redis.Options, error) {
	const want = "--redis must be HOST:PORT, as in localhost:6379, or a URL, as in redis://localhost:6379/0"
	if address == "" {
		return nil, fmt.Errorf("%s; it is empty", want)
	}
	if !strings.Contains(address, "://") && !strings.HasPrefix(address, "unix:") {
		address = "redis://" + address
	}
	opts, err := redis.ParseURL(address)
	if malformed, ok := errors.AsType[*url.Error](err); ok {
		err = malformed.Err
	}
	if err != nil {
		return nil, fmt.Errorf("%s; %w", want, err)
	}
	return opts, nil
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
