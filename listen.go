package rratelimiter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// OnExpired calls f whenever the limiter has expired, with the name of its hash
// in Redis (Redisson's ExpiredObjectListener), until stop is called or the
// Client is closed. It listens from when it returns. A goroutine of its own calls
// f, one call after another; several events during a call of f are one more call.
// Events during which the connection to Redis is lost are missed.
//
// The server must send keyspace notifications, E and x in its setting
// notify-keyspace-events; otherwise the error is an ErrNoNotifications. A server
// that does not let its settings be read is trusted to send them. On a cluster
// every master is listened to. Other errors are ErrInvalidArgument for a nil f,
// ErrClosed, and ErrNoAnswer.
func (l *RateLimiter) OnExpired(ctx context.Context, f func(name string)) (stop func(), err error) {
	return l.listen(ctx, keyEvent{"expired", 'x'}, f)
}

// OnDeleted is OnExpired for a limiter that was deleted, by Delete or any other
// command that removes its hash (Redisson's DeletedObjectListener). The server
// must have E and g in notify-keyspace-events.
func (l *RateLimiter) OnDeleted(ctx context.Context, f func(name string)) (stop func(), err error) {
	return l.listen(ctx, keyEvent{"del", 'g'}, f)
}

// A keyEvent is what a server tells of a key, and the letter of its class in the
// setting notify-keyspace-events.
type keyEvent struct {
	name  string
	class byte
}

func (l *RateLimiter) listen(ctx context.Context, event keyEvent, f func(string)) (stop func(), err error) {
	k := l.keys.Load()
	if err := k.usable(ctx); err != nil {
		return nil, err
	}
	if f == nil {
		return nil, k.named(invalid("f", "nil", "be a function"))
	}
	c, name := k.client, k.Hash
	if _, err := within(ctx, k, func(ctx context.Context) (bool, error) {
		err := k.notifies(ctx, event)
		return err == nil, err
	}); err != nil {
		return nil, err
	}
	// The channel of the event, not that of the key: it needs no more of the
	// server's settings than Redisson does.
	channel := fmt.Sprintf("__keyevent@%d__:%s", c.runner.DB, event.name)
	events, end := c.hub.Events(channel, name)
	stopped := make(chan struct{})
	stop = sync.OnceFunc(func() {
		end()
		close(stopped)
	})
	if err := c.hub.Confirmed(ctx, channel); err != nil {
		stop()
		if c.closed() {
			err = ErrClosed
		}
		return nil, k.named(err)
	}
	running := c.goBackground(func(ctx context.Context) {
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
func (k *limiterKeys) notifies(ctx context.Context, event keyEvent) error {
	const setting = "notify-keyspace-events"
	check := func(ctx context.Context, rdb redis.Cmdable) error {
		settings, err := rdb.ConfigGet(ctx, setting).Result()
		if redisx.Answered(err) {
			return nil // it does not say
		}
		flags, told := settings[setting]
		on := strings.Contains(flags, "E") && strings.ContainsAny(flags, "A"+string(event.class))
		if err == nil && told && !on {
			err = fmt.Errorf("%w: %s is %q, must contain E and %c (or A) for %q",
				ErrNoNotifications, setting, flags, event.class, k.name)
		}
		return err
	}
	runner := &k.client.runner
	if !runner.Known() {
		return fmt.Errorf("rratelimiter: listening for %q on a %T: %w",
			k.name, k.client.rdb, errors.ErrUnsupported)
	}
	return runner.EachServer(ctx, check)
}
