package concurrency

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/limit"
)

// ErrExpired says that a lease was over before it was given back or extended. What was done under
// it may have been done while others had the permits.
var ErrExpired = errors.New("rratelimiter: the lease has expired")

// A Leases is a limit whose permits are taken for a [Lease] each. It is safe for
// concurrent use. It is also a limit.Releaser, of the same permits.
type Leases struct {
	limit.Releaser
	pool *pool
}

// LeasesInMemory returns the limit of this process.
func (l Limit) LeasesInMemory(opts ...limit.Option) (*Leases, error) {
	limiter, err := l.InMemory(opts...)
	if err != nil {
		return nil, err
	}
	return &Leases{limiter, l.pool(l.memory(limiter), opts)}, nil
}

// LeasesOnRedis returns the limit that all share who use its name, as OnRedis does.
// Callers that wait are served in order within a process. Among processes they have no
// order: of each, the first in line asks again when a lease is over, and as long as there
// is none, after 5 ms at first, then seldomer, at last every 100 to 200 ms.
func (l Limit) LeasesOnRedis(rdb redis.UniversalClient, name string) (*Leases, error) {
	limiter, err := l.OnRedis(rdb, name)
	if err != nil {
		return nil, err
	}
	return &Leases{limiter, l.pool(newRemote(l.fixed(), rdb, name), nil)}, nil
}

// Acquire takes n permits, and waits until they are there. Callers of one process are
// served in order, so one that wants much is not passed by others that want little. The
// error is ErrInvalidArgument or ErrPermitsExceedRate as for Allow, that of ctx if it has
// ended, or that of Redis. What Redis has granted without a reply is given back, as soon as
// Redis replies again. A request that comes to Redis later than that is out until its lease
// is over.
func (l *Leases) Acquire(ctx context.Context, n int64) (*Lease, error) {
	return l.pool.acquire(ctx, "", n)
}

// TryAcquire takes n permits if they are there now, also while others wait. Otherwise it
// returns false and no Lease. Errors are those of Acquire.
func (l *Leases) TryAcquire(ctx context.Context, n int64) (*Lease, bool, error) {
	return l.pool.tryAcquire(ctx, "", n)
}

// Release is that of a limit.Releaser: it gives back permits of Allow. Those of a Lease
// come back by its own Release.
func (l *Leases) Release(ctx context.Context, n int64) error {
	defer l.pool.lines.wake("")
	return l.Releaser.Release(ctx, n)
}

// A KeyedLeases has a limit for each key, as [Leases]. It is a limit.KeyedReleaser, too.
type KeyedLeases struct {
	limit.KeyedReleaser
	pool *pool
}

// LeasesInMemoryKeyed is LeasesInMemory with a limit for each key.
func (l Limit) LeasesInMemoryKeyed(opts ...limit.Option) (*KeyedLeases, error) {
	limiter, err := l.InMemoryKeyed(opts...)
	if err != nil {
		return nil, err
	}
	return &KeyedLeases{limiter, l.pool(l.memory(limiter), opts)}, nil
}

// LeasesOnRedisKeyed is LeasesOnRedis with a limit for each key, under
// {name:key}:concurrency.
func (l Limit) LeasesOnRedisKeyed(rdb redis.UniversalClient, name string) (*KeyedLeases, error) {
	limiter, err := l.OnRedisKeyed(rdb, name)
	if err != nil {
		return nil, err
	}
	return &KeyedLeases{limiter, l.pool(newRemote(l.fixed(), rdb, name), nil)}, nil
}

// Acquire is that of Leases, for the limit of key, 1 to 1,024 bytes.
func (l *KeyedLeases) Acquire(ctx context.Context, key string, n int64) (*Lease, error) {
	if err := form.Usable("the key", key); err != nil {
		return nil, err
	}
	return l.pool.acquire(ctx, key, n)
}

// TryAcquire is that of Leases, for the limit of key.
func (l *KeyedLeases) TryAcquire(ctx context.Context, key string, n int64) (*Lease, bool, error) {
	if err := form.Usable("the key", key); err != nil {
		return nil, false, err
	}
	return l.pool.tryAcquire(ctx, key, n)
}

// Release is that of a limit.KeyedReleaser: it gives back permits of Allow.
func (l *KeyedLeases) Release(ctx context.Context, key string, n int64) error {
	defer l.pool.lines.wake(key)
	return l.KeyedReleaser.Release(ctx, key, n)
}

// fixed returns the numbers of a Limit that is known to be right.
func (l Limit) fixed() form.Numbers {
	numbers, _ := l.numbers()
	return numbers
}

// memory returns the store of a limiter in memory.
func (l Limit) memory(limiter any) store {
	return memory{bound{l.Most, micros(l.fixed().Interval)}, limiter.(form.Opened[state])}
}

func (l Limit) pool(store store, opts []limit.Option) *pool {
	p := &pool{Numbers: l.fixed(), store: store, now: time.Now}
	if set := limit.SettingsOf(opts); set.Now != nil {
		p.now = set.Now
	}
	return p
}

// A Lease is permits that are out until it is given back or over. It is safe for
// concurrent use.
type Lease struct {
	pool    *pool
	key     string
	permits permits

	calls sync.Mutex // held during a call, so that Release follows what Extend has done
	ended bool       // guarded by calls: it was given back
	tried bool       // guarded by calls: a Release has failed, and may have been done

	mu      sync.Mutex
	expires time.Time // guarded by mu
}

// Expires returns when the lease is over, by the clock of this machine, or by that of
// limit.WithClock. On Redis it may last a little longer, by the time that the request
// was on its way.
func (l *Lease) Expires() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.expires
}

// Extend has the lease last as long as a new one, from now on. The error is ErrExpired if
// it was over, or given back. After another error it is not known how long it lasts, but
// at least as long as before.
func (l *Lease) Extend(ctx context.Context) error {
	l.calls.Lock()
	defer l.calls.Unlock()
	if err := l.pool.ended(ctx); err != nil {
		return err
	}
	if l.ended {
		return fmt.Errorf("%w: it was given back", ErrExpired)
	}
	expires := l.pool.expires()
	found, err := l.permits.extend(ctx)
	if err != nil {
		return err
	}
	if !found {
		return l.expired()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expires = expires
	return nil
}

// Release gives the permits back. It may be called again: what was given back is not
// given back twice, and the error is nil. The error is ErrExpired if the lease was over.
// After another error it is not known whether they are back; another Release finds out,
// or they come back when the lease is over. The work may have ended because ctx has, so
// give it another one: context.WithoutCancel.
func (l *Lease) Release(ctx context.Context) error {
	l.calls.Lock()
	defer l.calls.Unlock()
	if l.ended {
		return nil
	}
	if err := l.pool.ended(ctx); err != nil {
		return err
	}
	found, unsure, err := l.permits.release(ctx)
	if err != nil {
		l.tried = true
		return err
	}
	l.ended = true
	l.pool.lines.wake(l.key)
	// What an earlier try has given back is not there any more.
	if found || (unsure || l.tried) && l.pool.now().Before(l.Expires()) {
		return nil
	}
	return l.expired()
}

func (l *Lease) expired() error {
	return fmt.Errorf("%w, at %s", ErrExpired, l.Expires().Format(time.RFC3339Nano))
}
