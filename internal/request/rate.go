package request

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A Rate is the configuration of a limiter.
type Rate struct {
	Type                int // wire.Overall or wire.PerClient
	Permits             int64
	Interval, KeepAlive time.Duration // whole ms
}

// A GivenRate is a rate that acquires set.
type GivenRate struct {
	Rate     Rate
	Replaces bool   // another rate that is set
	text     string // for parts/plain.lua
	Argument any    // text, boxed for go-redis
}

// NewGivenRate returns a GivenRate.
func NewGivenRate(rate Rate, replaces bool) *GivenRate {
	text := fmt.Sprintf("%d %d %d %s",
		rate.Permits, rate.Interval.Milliseconds(), rate.KeepAlive.Milliseconds(), flag(replaces))
	return &GivenRate{rate, replaces, text, text}
}

// Text returns the rate as scripts take it (parts/plain.lua): rate, interval, keep alive, and 1
// if it replaces another rate.
//
// It accepts a nil GivenRate, which has none.
func (g *GivenRate) Text() string {
	if g == nil {
		return ""
	}
	return g.text
}

// parseRate reads the fields rate, interval, type and keepAliveTime of a hash.
// Java writes them, so each is checked.
func parseRate(hash string, fields []any) (rate Rate, err error) {
	var numbers [4]int64
	for i, name := range [...]string{wire.Rate, wire.Interval, wire.Type, wire.KeepAlive} {
		text, set := fields[i].(string)
		if !set && name == wire.KeepAlive {
			break // Redisson before 3.38.0 does not write it
		} else if !set {
			return rate, failure.NotInitialized()
		}
		if numbers[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return rate, failure.BadField(hash, name, fmt.Sprintf("%.40q", text), "be an integer")
		}
	}
	if typ := numbers[2]; typ != wire.Overall && typ != wire.PerClient {
		value := fmt.Sprintf(`"%d"`, typ)
		return rate, failure.BadField(hash, wire.Type, value, "be 0 (OVERALL) or 1 (PER_CLIENT)")
	}
	every, keep := wire.Milliseconds(numbers[1]), wire.Milliseconds(numbers[3])
	return Rate{int(numbers[2]), numbers[0], every, keep}, nil
}

// An Event is a keyspace notification, and the letter of its class in the setting
// notify-keyspace-events.
type Event struct {
	Name  string
	Class byte
}

// Notifies returns an error unless all servers send an event. Without the check a
// listener on a server with the default settings would wait for ever.
func (s *Source) Notifies(ctx context.Context, event Event) error {
	runner := &s.Runner
	const setting = "notify-keyspace-events"
	check := func(ctx context.Context, rdb redis.Cmdable) error {
		settings, err := rdb.ConfigGet(ctx, setting).Result()
		if redisx.Answered(err) {
			return nil // the setting is not readable
		}
		flags, told := settings[setting]
		on := strings.Contains(flags, "E") && strings.ContainsAny(flags, "A"+string(event.Class))
		if err == nil && told && !on {
			before := fmt.Sprintf("%v: %s is %q, must contain E and %c (or A) for ",
				failure.ErrNoNotifications, setting, flags, event.Class)
			return &failure.Error{Kind: failure.ErrNoNotifications, Prefix: before}
		}
		return err
	}
	if !runner.Known() {
		detail := " on a " + runner.Client()
		return &failure.Error{
			Prefix: "rratelimiter: listening for ", Detail: detail, Cause: errors.ErrUnsupported,
		}
	}
	return runner.EachServer(ctx, check)
}
