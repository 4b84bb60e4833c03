package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// ReadRate returns what is set for a limiter.
func ReadRate(ctx context.Context, l *Limiter) (Rate, error) {
	return within(ctx, l, func(ctx context.Context) (Rate, error) {
		get := func(rdb redis.Cmdable) ([]any, error) {
			return rdb.HMGet(ctx, l.Hash, wire.Rate, wire.Interval, wire.Type, wire.KeepAlive).Result()
		}
		fields, err := redisx.OnMaster(ctx, &l.engine.config.Runner, l.Hash, get)
		if err != nil {
			return Rate{}, translated(l, wire.Overall, err)
		}
		return parseRate(l.Hash, fields)
	})
}

// parseRate reads the fields rate, interval, type and keepAliveTime of a hash.
func parseRate(hash string, fields []any) (rate Rate, err error) {
	var numbers [4]int64
	for i, name := range [...]string{wire.Rate, wire.Interval, wire.Type, wire.KeepAlive} {
		text, set := fields[i].(string)
		if !set && name == wire.KeepAlive {
			break // Redisson before 3.38.0 does not write it
		} else if !set {
			return rate, notInitialized()
		}
		if numbers[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return rate, badField(hash, name, fmt.Sprintf("%.40q", text), "be an integer")
		}
	}
	if typ := numbers[2]; typ != wire.Overall && typ != wire.PerClient {
		return rate, badField(hash, wire.Type, fmt.Sprintf(`"%d"`, typ), "be 0 (OVERALL) or 1 (PER_CLIENT)")
	}
	every, keep := wire.Milliseconds(numbers[1]), wire.Milliseconds(numbers[3])
	return Rate{int(numbers[2]), numbers[0], every, keep}, nil
}

// Exists reports whether a limiter is there, by its hash.
func Exists(ctx context.Context, l *Limiter) (bool, error) {
	return within(ctx, l, func(ctx context.Context) (bool, error) {
		n, err := l.exists(ctx, l.Hash)
		return n > 0, translated(l, wire.Overall, err)
	})
}

// TimeToLive returns how long a limiter has to live, as PTTL has it.
func TimeToLive(ctx context.Context, l *Limiter) (time.Duration, error) {
	return within(ctx, l, func(ctx context.Context) (time.Duration, error) {
		ask := func(rdb redis.Cmdable) (time.Duration, error) { return rdb.PTTL(ctx, l.Hash).Result() }
		ttl, err := redisx.OnMaster(ctx, &l.engine.config.Runner, l.Hash, ask)
		return ttl, translated(l, wire.Overall, err)
	})
}

// ExpireTime returns when a limiter ends; the zero Time when it does not.
func ExpireTime(ctx context.Context, l *Limiter) (time.Time, error) {
	return within(ctx, l, func(ctx context.Context) (time.Time, error) {
		ask := func(rdb redis.Cmdable) (time.Duration, error) { return rdb.PExpireTime(ctx, l.Hash).Result() }
		at, err := redisx.OnMaster(ctx, &l.engine.config.Runner, l.Hash, ask)
		switch {
		case redis.HasErrorPrefix(err, "unknown command"):
			before := "rratelimiter: ExpireTime of "
			return time.Time{}, &Error{before: before, detail: " needs Redis 7.0", cause: err}
		case err != nil || at < 0:
			return time.Time{}, translated(l, wire.Overall, err)
		}
		return time.UnixMilli(at.Milliseconds()), nil
	})
}

// An Event is what a server tells of a key, and the letter of its class in the
// setting notify-keyspace-events.
type Event struct {
	Name  string
	Class byte
}

// Listen calls f with the name of the hash, at each event of a limiter, until stop is called or the Engine
// is closed.
func Listen(ctx context.Context, l *Limiter, event Event, f func(string)) (stop func(), err error) {
	e, name := l.engine, l.Hash
	if _, err := within(ctx, l, func(ctx context.Context) (bool, error) {
		err := notifies(ctx, &e.config.Runner, event)
		return err == nil, err
	}); err != nil {
		return nil, err
	}
	// The channel of the event, not that of the key: it needs no more of the
	// server's settings than Redisson does.
	channel := fmt.Sprintf("__keyevent@%d__:%s", e.config.Runner.DB, event.Name)
	events, end := e.config.Hub.Events(channel, name)
	stopped := make(chan struct{})
	stop = sync.OnceFunc(func() {
		end()
		close(stopped)
	})
	if err := e.config.Hub.Confirmed(ctx, channel); err != nil {
		stop()
		if e.closed() {
			err = ErrClosed
		}
		return nil, l.Named(err)
	}
	running := e.Go(func(ctx context.Context) {
		defer stop()
		for {
			select {
			case <-events:
				f(name)
			case <-stopped:
				return
			case <-ctx.Done():
				return
			}
		}
	})
	if !running {
		stop()
		return nil, ErrClosed
	}
	return stop, nil
}

// notifies returns an error unless all servers tell of an event.
func notifies(ctx context.Context, runner *redisx.Runner, event Event) error {
	const setting = "notify-keyspace-events"
	check := func(ctx context.Context, rdb redis.Cmdable) error {
		settings, err := rdb.ConfigGet(ctx, setting).Result()
		if redisx.Answered(err) {
			return nil // it does not say
		}
		flags, told := settings[setting]
		on := strings.Contains(flags, "E") && strings.ContainsAny(flags, "A"+string(event.Class))
		if err == nil && told && !on {
			before := fmt.Sprintf("%v: %s is %q, must contain E and %c (or A) for ",
				ErrNoNotifications, setting, flags, event.Class)
			return &Error{kind: ErrNoNotifications, before: before}
		}
		return err
	}
	if !runner.Known() {
		detail := " on a " + runner.Client()
		return &Error{before: "rratelimiter: listening for ", detail: detail, cause: errors.ErrUnsupported}
	}
	return runner.EachServer(ctx, check)
}
