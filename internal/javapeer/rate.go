package javapeer

import (
	"context"
	"time"

	"github.com/redisson-go/rratelimiter"
)

// rateArgs are the arguments that all methods with a rate have. Without KeepAlive
// the peer calls the method that every release has.
func rateArgs(c rratelimiter.Config) args {
	a := args{"type": c.Type.String(), "rate": c.Rate, "interval": c.Interval.Milliseconds()}
	if c.KeepAlive != 0 {
		a["keepAlive"] = c.KeepAlive.Milliseconds()
	}
	return a
}

// TrySetRate is trySetRate(type, rate, interval, unit). With a KeepAlive it is the method that
// takes one, since 3.37.0.
func (l *Limiter) TrySetRate(ctx context.Context, c rratelimiter.Config) (bool, error) {
	return ask[bool](ctx, l, "trySetRate", rateArgs(c))
}

// SetRate is setRate(type, rate, interval, unit), for KeepAlive see TrySetRate, or
// setRate(RateLimiterArgs) if it keeps the state, since 4.4.0.
func (l *Limiter) SetRate(ctx context.Context, c rratelimiter.Config, keepState bool) error {
	a := rateArgs(c)
	if keepState {
		a["keepState"] = true
	}
	return l.do(ctx, "setRate", a)
}

// UpdateRate is updateRate(RateLimiterArgs), since 4.4.0.
func (l *Limiter) UpdateRate(ctx context.Context, c rratelimiter.Config, keepState bool) (bool, error) {
	a := rateArgs(c)
	a["keepState"] = keepState
	return ask[bool](ctx, l, "updateRate", a)
}

// Config is getConfig(), which does not return KeepAlive.
func (l *Limiter) Config(ctx context.Context) (rratelimiter.Config, error) {
	got, err := ask[struct {
		Type           string
		Rate, Interval int64
	}](ctx, l, "getConfig", nil)
	c := rratelimiter.Config{Rate: got.Rate, Interval: time.Duration(got.Interval) * time.Millisecond}
	if got.Type == rratelimiter.PerClient.String() {
		c.Type = rratelimiter.PerClient
	}
	return c, err
}
