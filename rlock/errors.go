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

// The errors of this package. Test with errors.Is: methods wrap them with the name of the lock. All other
// errors are those of package rratelimiter: ErrInvalidArgument, ErrBadState, ErrNoAnswer,
// ErrNotReplicated and ErrClosed.
var (
	// ErrNotHeld: the hold has ended (Redisson's IllegalMonitorStateException: "attempt to unlock lock, not
	// locked by current thread").
	ErrNotHeld = errors.New("rlock: the lock is not held")

	// ErrLost: the hold has ended without an Unlock, because its lease has expired, or the lock was
	// unlocked by force or deleted. It is also an ErrNotHeld.
	ErrLost = fmt.Errorf("%w any more: it was lost", ErrNotHeld)
)

// errTimeUp is the cause of a context whose wait has ended.
var errTimeUp = errors.New("rlock: the wait has ended")

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

// lost returns the error of a hold that was lost, with the cause.
func (h *Hold) lost(how string) error {
	return fmt.Errorf("%w: %q by %s: %s", ErrLost, h.keys.name, h.owner, how)
}

// failed wraps an error of Redis or the network with the sentinel and the name of the lock.
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
		return fmt.Errorf("%w for lock %q: %w", rratelimiter.ErrBadState,
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

// timeUp returns the error of a caller without a reply whose wait ended at by. asked is when its request
// was sent, zero if it was not. A merely slow reply is not an error.
func (k *keys) timeUp(asked, by time.Time) error {
	const slow = 30 * time.Millisecond
	if silent := by.Sub(asked); !asked.IsZero() && silent >= slow {
		return fmt.Errorf("%w for lock %q in %v, when the wait ended", rratelimiter.ErrNoAnswer, k.name,
			silent.Round(time.Millisecond))
	}
	return errTimeUp
}

// ended returns why a caller leaves: errTimeUp at the end of its wait, ErrClosed, or the error of ctx.
func ended(ctx context.Context) error {
	err := ctx.Err() // before the cause, because ctx may end between the two
	if cause := context.Cause(ctx); cause == errTimeUp || errors.Is(cause, rratelimiter.ErrClosed) {
		return cause
	}
	return err
}

// described returns the quoted name, and the mapped name if it differs.
func (k *keys) described() string {
	if k.Hash == k.name || k.Hash == "" {
		return strconv.Quote(k.name)
	}
	return fmt.Sprintf("%q, mapped to %q", k.name, k.Hash)
}

// checkLease returns an error for a lease out of its bounds.
func (k *keys) checkLease(lease time.Duration) error {
	if lease < time.Millisecond || lease > longest {
		return k.invalid("lease", lease, fmt.Sprintf("be at least 1ms and at most %v", longest))
	}
	return nil
}
