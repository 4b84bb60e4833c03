package rratelimiter

import (
	"context"

	"github.com/redisson-go/rratelimiter/internal/engine"
	"github.com/redisson-go/rratelimiter/internal/failure"
)

// Delete removes the limiter, and reports whether there was anything to remove
// (RRateLimiter.delete). It removes the permits that all clients share and those of this
// Client; permits that other clients have taken from a PerClient limit expire with their
// own time to live. After a network error the limiter may have been removed.
func (l *RateLimiter) Delete(ctx context.Context) (bool, error) { return l.limiter.Load().Delete(ctx) }

// Exists reports whether the limiter's hash exists (RRateLimiter.isExists).
func (l *RateLimiter) Exists(ctx context.Context) (bool, error) { return l.limiter.Load().Exists(ctx) }

// Rename gives the limiter a new name, keeps the permits that are out, and replaces any
// limiter of that name (RRateLimiter.rename, which moves only the hash). This RateLimiter
// then has the new name. Other RateLimiters keep the old name and get ErrNotInitialized,
// as may concurrent calls of this one. Permits that other clients have taken from a
// PerClient limit stay under the old name. Permits that a request takes for a caller which
// leaves before its reply come back an interval later, if Rename comes in between.
//
// Errors are ErrNotInitialized if there is no limiter, and ErrInvalidArgument for an
// empty name or, on a cluster or a Ring, a name in another slot (give both the same
// {tag}). After a network error the limiter may have been renamed.
func (l *RateLimiter) Rename(ctx context.Context, newName string) error {
	return l.limiter.Load().Rename(ctx, newName, l.limiter.Store)
}

// OnExpired calls f whenever the limiter has expired, with the name of its hash in Redis
// (Redisson's ExpiredObjectListener), until stop is called or the Client is closed. When
// OnExpired returns, the subscription is active. One goroutine makes all calls of f;
// several events during a call lead to one more call. Events that occur while the
// connection to Redis is lost are missed.
//
// The server must send keyspace notifications, E and x in its setting
// notify-keyspace-events; otherwise the error is an ErrNoNotifications. If its settings
// cannot be read, the server is trusted to send them. On a cluster OnExpired listens to
// every master. Other errors are ErrInvalidArgument for a nil f, ErrClosed, and
// ErrNoAnswer.
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
		return nil, k.Named(failure.Invalid("f", "nil", "be a function"))
	}
	return k.Listen(ctx, event, f)
}
