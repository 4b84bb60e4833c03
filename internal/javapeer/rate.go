package javapeer

import (
	"context"
	"encoding/json"
	"time"
)

// The types of a limiter, as in RateType.
const (
	Overall   = "OVERALL"
	PerClient = "PER_CLIENT"
)

// rateArgs are the arguments that all methods with a rate have. Without keepAlive
// the peer calls the method that every release has.
func rateArgs(typ string, rate int64, interval, keepAlive time.Duration) args {
	a := args{"type": typ, "rate": rate, "interval": interval.Milliseconds()}
	if keepAlive != 0 {
		a["keepAlive"] = keepAlive.Milliseconds()
	}
	return a
}

// TrySetRate is trySetRate(type, rate, interval, unit). With a keepAlive other
// than 0 it is the method that takes one, since 3.37.0.
func (l *Limiter) TrySetRate(
	ctx context.Context, typ string, rate int64, interval, keepAlive time.Duration,
) (bool, error) {
	return ask[bool](ctx, l, "trySetRate", rateArgs(typ, rate, interval, keepAlive))
}

// SetRate is setRate(type, rate, interval, unit); for keepAlive see TrySetRate.
func (l *Limiter) SetRate(
	ctx context.Context, typ string, rate int64, interval, keepAlive time.Duration,
) error {
	return l.do(ctx, "setRate", rateArgs(typ, rate, interval, keepAlive))
}

// RateArgs are the arguments of Java's RateLimiterArgs, since 4.4.0.
type RateArgs struct {
	Type                string
	Rate                int64
	Interval, KeepAlive time.Duration // KeepAlive 0: none
	KeepState           bool
}

func (r RateArgs) args() args {
	a := rateArgs(r.Type, r.Rate, r.Interval, r.KeepAlive)
	a["keepState"] = r.KeepState
	return a
}

// SetRateArgs is setRate(RateLimiterArgs).
func (l *Limiter) SetRateArgs(ctx context.Context, r RateArgs) error {
	return l.do(ctx, "setRate", r.args())
}

// UpdateRate is updateRate(RateLimiterArgs).
func (l *Limiter) UpdateRate(ctx context.Context, r RateArgs) (bool, error) {
	return ask[bool](ctx, l, "updateRate", r.args())
}

// Config is a RateLimiterConfig.
type Config struct {
	Type     string
	Rate     int64
	Interval time.Duration
}

// UnmarshalJSON decodes the answer to a getConfig.
func (c *Config) UnmarshalJSON(text []byte) error {
	var got struct {
		Type           string
		Rate, Interval int64
	}
	err := json.Unmarshal(text, &got)
	*c = Config{got.Type, got.Rate, time.Duration(got.Interval) * time.Millisecond}
	return err
}

// Config is getConfig().
func (l *Limiter) Config(ctx context.Context) (Config, error) {
	return ask[Config](ctx, l, "getConfig", nil)
}
