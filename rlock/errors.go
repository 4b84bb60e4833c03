package rlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// The errors of this package. Test with errors.Is: what a method returns wraps one of
// these with the name of the lock. Others are those of package rratelimiter:
// ErrInvalidArgument, ErrBadState, ErrNoAnswer, ErrNotReplicated and ErrClosed.
var (
	// ErrNotHeld: the hold has ended (Redisson's IllegalMonitorStateException: "attempt
	// to unlock lock, not locked by current thread").
	ErrNotHeld = errors.New("rlock: the lock is not held")

	// ErrLost: the hold has ended without an Unlock: its lease has run out, or somebody
	// else has unlocked or deleted the lock. It is an ErrNotHeld, too.
	ErrLost = fmt.Errorf("%w any more: it was lost", ErrNotHeld)
)

// errTimeUp is why a caller leaves whose wait is over.
var errTimeUp = errors.New("rlock: the wait is over")

// invalid returns the error for an argument out of its bounds.
func (k *keys) invalid(argument string, value any, bound string) error {
	return fmt.Errorf("%w of lock %q: %s is %v, must %s", rratelimiter.ErrInvalidArgument, k.name, argument,
		value, bound)
}

// notHeld returns the error of a hold that has ended.
func (h *Hold) notHeld() error {
	if h.unbound() {
		return ErrNotHeld
	}
	return fmt.Errorf("%w: %q by %s", ErrNotHeld, h.keys.name, h.owner)
}

// lost returns the error of a hold that was lost, and how.
func (h *Hold) lost(how string) error {
	return fmt.Errorf("%w: %q by %s: %s", ErrLost, h.keys.name, h.owner, how)
}

// failed returns the error of Redis or the network, in the words of this module.
func (k *keys) failed(err error) error {
	_, unconfirmed := errors.AsType[*redisx.UnconfirmedError](err)
	has := func(code string) bool { return redis.HasErrorPrefix(err, code+" ") }
	switch {
	case err == nil || errors.Is(err, rratelimiter.ErrClosed) || strings.HasPrefix(err.Error(), "rlock: "):
		return err
	case unconfirmed:
		return fmt.Errorf("%w for lock %q: %w", rratelimiter.ErrNotReplicated, k.name, err)
	case has("WRONGTYPE"), redis.HasErrorPrefix(err, "value is not an integer"),
		redis.HasErrorPrefix(err, "increment or decrement would overflow"):
		return fmt.Errorf("%w for lock %q: a key of it holds something else: %w", rratelimiter.ErrBadState,
			k.name, err)
	case redisx.Denied(err):
		return fmt.Errorf("rlock: NOPERM for %q: the Redis user may not run a command of the script, "+
			"which ACL LOG names: %w", k.name, err)
	case k.client.host.Runner.Single && (has("MOVED") || has("ASK")):
		return fmt.Errorf("rlock: the server of %q is part of a cluster, use redis.NewClusterClient: %w",
			k.name, err)
	case !redisx.Answered(err) && !errors.Is(err, redisx.ErrShape):
		return fmt.Errorf("%w for lock %q: %w", rratelimiter.ErrNoAnswer, k.name, err)
	}
	return fmt.Errorf("rlock: %q: %w", k.name, err)
}

// timeUp returns the error of a caller whose wait was over at a time, and to whom Redis has not
// replied. It was asked at another time, which is zero if it was not. A reply that is merely slow
// makes no error.
func (k *keys) timeUp(asked, by time.Time) error {
	const slow = 30 * time.Millisecond
	if silent := by.Sub(asked); !asked.IsZero() && silent >= slow {
		return fmt.Errorf("%w for lock %q in %v, when the wait was over", rratelimiter.ErrNoAnswer, k.name,
			silent.Round(time.Millisecond))
	}
	return errTimeUp
}

// ended returns the error of a caller that has left, or false if its wait is over.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); cause == errTimeUp || errors.Is(cause, rratelimiter.ErrClosed) {
		return cause
	}
	return ctx.Err()
}

// described returns the name, quoted, and what it is mapped to, if to another.
func (k *keys) described() string {
	if k.Hash == k.name || k.Hash == "" {
		return strconv.Quote(k.name)
	}
	return fmt.Sprintf("%q, mapped to %q", k.name, k.Hash)
}

// checkLease returns why a lease cannot be used.
func (k *keys) checkLease(lease time.Duration) error {
	if lease < time.Millisecond || lease > longest {
		return k.invalid("lease", lease, fmt.Sprintf("be at least 1ms and at most %v", longest))
	}
	return nil
}
