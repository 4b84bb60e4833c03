package compare

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
)

// A Limiter is what both languages can do with a limiter, in the form of a javapeer.Limiter.
type Limiter interface {
	TrySetRate(ctx context.Context, c rratelimiter.Config) (bool, error)
	SetRate(ctx context.Context, c rratelimiter.Config, keepState bool) error
	UpdateRate(ctx context.Context, c rratelimiter.Config, keepState bool) (bool, error)
	TryAcquire(ctx context.Context, permits int64, timeout time.Duration) (bool, error)
	Acquire(ctx context.Context, permits int64) error
	Release(ctx context.Context, permits int64) error
	AvailablePermits(ctx context.Context) (int64, error)
	Config(ctx context.Context) (rratelimiter.Config, error) // without KeepAlive, which Java does not return
	Delete(ctx context.Context) (bool, error)
	Exists(ctx context.Context) (bool, error)
	Rename(ctx context.Context, newName string) error
	Expire(ctx context.Context, ttl time.Duration) (bool, error)
	ExpireAt(ctx context.Context, t time.Time) (bool, error)
	ExpireIfSet(ctx context.Context, ttl time.Duration) (bool, error)
	ExpireIfNotSet(ctx context.Context, ttl time.Duration) (bool, error)
	ExpireIfGreater(ctx context.Context, ttl time.Duration) (bool, error)
	ExpireIfLess(ctx context.Context, ttl time.Duration) (bool, error)
	ClearExpire(ctx context.Context) (bool, error)
	TimeToLive(ctx context.Context) (ms int64, err error)     // -1: none, -2: no limiter
	ExpireTime(ctx context.Context) (unixMs int64, err error) // below 0: none
}

// Go returns a limiter of this library as a Limiter.
func Go(l *rratelimiter.RateLimiter) Limiter { return goLimiter{l} }

type goLimiter struct{ *rratelimiter.RateLimiter }

func goOptions(c rratelimiter.Config, keepState bool) (opts []rratelimiter.RateOption) {
	if c.KeepAlive != 0 {
		opts = append(opts, rratelimiter.WithKeepAlive(c.KeepAlive))
	}
	if keepState {
		opts = append(opts, rratelimiter.WithKeepState())
	}
	return opts
}

// TrySetRate takes the rate as a Config.
func (l goLimiter) TrySetRate(ctx context.Context, c rratelimiter.Config) (bool, error) {
	return l.RateLimiter.TrySetRate(ctx, c.Type, c.Rate, c.Interval, goOptions(c, false)...)
}

// SetRate takes the rate as a Config.
func (l goLimiter) SetRate(ctx context.Context, c rratelimiter.Config, keepState bool) error {
	return l.RateLimiter.SetRate(ctx, c.Type, c.Rate, c.Interval, goOptions(c, keepState)...)
}

// UpdateRate takes the rate as a Config.
func (l goLimiter) UpdateRate(ctx context.Context, c rratelimiter.Config, keepState bool) (bool, error) {
	return l.RateLimiter.UpdateRate(ctx, c.Type, c.Rate, c.Interval, goOptions(c, keepState)...)
}

// Config leaves KeepAlive out, which Java does not return.
func (l goLimiter) Config(ctx context.Context) (rratelimiter.Config, error) {
	c, err := l.RateLimiter.Config(ctx)
	c.KeepAlive = 0
	return c, err
}

// TimeToLive returns ms, as Java does.
func (l goLimiter) TimeToLive(ctx context.Context) (int64, error) {
	d, err := l.RemainTimeToLive(ctx)
	if d > 0 {
		d /= time.Millisecond
	}
	return int64(d), err
}

// ExpireTime returns Unix ms, as Java does.
func (l goLimiter) ExpireTime(ctx context.Context) (int64, error) {
	t, err := l.RateLimiter.ExpireTime(ctx)
	if t.IsZero() {
		return -1, err
	}
	return t.UnixMilli(), err
}

// The kinds of error that both languages have.
const (
	NotInitialized = "not initialized"
	ExceedsRate    = "exceeds the rate"
	BadArgument    = "bad argument"
)

// ErrorKind returns the kind of an error, the same for both languages, or else
// its text.
func ErrorKind(err error) string {
	var java *javapeer.Error
	switch {
	case err == nil:
		return "none"
	case errors.Is(err, rratelimiter.ErrNotInitialized):
		return NotInitialized
	case errors.Is(err, rratelimiter.ErrPermitsExceedRate):
		return ExceedsRate
	case errors.Is(err, rratelimiter.ErrInvalidArgument):
		return BadArgument
	case !errors.As(err, &java):
		return err.Error()
	}
	// Redisson appends the script, which holds all the texts below.
	message, _, _ := strings.Cut(java.Message, ". channel:")
	switch {
	case strings.Contains(message, "is not initialized"):
		return NotInitialized
	case strings.Contains(message, "not exceed defined rate"): // cannot, or before 3.35.0 could not
		return ExceedsRate
	case strings.HasSuffix(java.Type, "IllegalArgumentException"):
		return BadArgument
	}
	return java.Error()
}
