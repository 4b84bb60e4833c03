package rratelimiter

import (
	"context"

	"github.com/redisson-go/rratelimiter/internal/engine"
)

// OnExpired calls f whenever the limiter has expired, with the name of its hash
// in Redis (Redisson's ExpiredObjectListener), until stop is called or the Client
// is closed. When OnExpired returns, the subscription is in force. One goroutine
// makes all calls of f; several events during one call lead to one more call.
// Events during which the connection to Redis is lost are missed.
//
// The server must send keyspace notifications, E and x in its setting
// notify-keyspace-events; otherwise the error is an ErrNoNotifications. A server
// whose settings cannot be read is trusted to send them. On a cluster OnExpired
// listens to every master. Other errors are ErrInvalidArgument for a nil f,
// ErrClosed, and ErrNoAnswer.
func (l *RateLimiter) OnExpired(ctx context.Context, f func(name string)) (stop func(), err error) {
	return l.listen(ctx, engine.Event{Name: "expired", Class: 'x'}, f)
}

// OnDeleted is OnExpired for a limiter that was deleted, by Delete or any other
// command that removes its hash (Redisson's DeletedObjectListener). The server
// must have E and g in notify-keyspace-events.
func (l *RateLimiter) OnDeleted(ctx context.Context, f func(name string)) (stop func(), err error) {
	return l.listen(ctx, engine.Event{Name: "del", Class: 'g'}, f)
}

func (l *RateLimiter) listen(
	ctx context.Context, event engine.Event, f func(string),
) (stop func(), err error) {
	k := l.limiter.Load()
	if err := k.Usable(ctx); err != nil {
		return nil, err
	}
	if f == nil {
		return nil, k.Named(engine.Invalid("f", "nil", "be a function"))
	}
	return k.Listen(ctx, event, f)
}
