package concurrency

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/semaphore"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/limit"
)

// ErrExpired reports that a lease had ended before it was released or extended. Other callers may have had
// its permits during the work.
var ErrExpired = errors.New("rratelimiter: the lease has expired")

// A Leases is a limit that grants a [Lease] of permits. It is safe for concurrent use. It also implements
// limit.Releaser and limit.Peeker, for the same permits.
type Leases struct {
	limit.Releaser
	pool *pool
}

// LeasesInMemory returns a limit in this process.
func (l Limit) LeasesInMemory(opts ...limit.Option) (*Leases, error) {
	limiter, err := l.InMemory(opts...)
	if err != nil {
		return nil, err
	}
	return &Leases{limiter, l.pool(l.memory(limiter), opts)}, nil
}

// LeasesOnRedis returns a limit shared by all that use its name, as OnRedis does. Waiting callers are served
// in order within a process, but not among processes: the first caller in each line asks again when a lease
// ends, and until then after 5 ms at first, later every 100 to 200 ms. So a process that has just given a
// lease back often gets the next one, and another may wait many times longer than its turn.
func (l Limit) LeasesOnRedis(rdb redis.UniversalClient, name string) (*Leases, error) {
	limiter, err := l.OnRedis(rdb, name)
	if err != nil {
		return nil, err
	}
	return &Leases{limiter, l.pool(newRemote(l.fixed(), rdb, name), nil)}, nil
}

// Acquire waits for n permits and takes them. Callers of one process are served in order: those that want
// few permits do not overtake those that want many. The error is limit.ErrInvalidArgument or
// limit.ErrPermitsExceedRate as for Allow, that of ctx if it has ended, or that of Redis. Permits that
// Redis granted without a reply are given back as soon as Redis replies again. If the request reaches Redis
// even later, its permits are out until the lease ends.
func (l *Leases) Acquire(ctx context.Context, n int64) (*Lease, error) {
	return l.pool.acquire(ctx, "", n)
}

// TryAcquire takes n permits if they are there now, even while other callers wait. Otherwise it returns
// false and no Lease. Errors are those of Acquire.
func (l *Leases) TryAcquire(ctx context.Context, n int64) (*Lease, bool, error) {
	return l.pool.tryAcquire(ctx, "", n)
}

// Release implements limit.Releaser: it gives back permits of Allow. To give back the permits of a Lease,
// release the Lease.
func (l *Leases) Release(ctx context.Context, n int64) error {
	defer l.pool.lines.wake("")
	return l.Releaser.Release(ctx, n)
}

// Peek implements limit.Peeker.
func (l *Leases) Peek(ctx context.Context) (limit.Result, error) {
	return l.Releaser.(limit.Peeker).Peek(ctx)
}

// A KeyedLeases has a limit for each key, like [Leases]. It also implements limit.KeyedReleaser and
// limit.KeyedPeeker.
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

// Acquire is Acquire of Leases, for the limit of key, of 1 to 1,024 bytes.
func (l *KeyedLeases) Acquire(ctx context.Context, key string, n int64) (*Lease, error) {
	if err := form.Usable("the key", key); err != nil {
		return nil, err
	}
	return l.pool.acquire(ctx, key, n)
}

// TryAcquire is TryAcquire of Leases, for the limit of key.
func (l *KeyedLeases) TryAcquire(ctx context.Context, key string, n int64) (*Lease, bool, error) {
	if err := form.Usable("the key", key); err != nil {
		return nil, false, err
	}
	return l.pool.tryAcquire(ctx, key, n)
}

// Release implements limit.KeyedReleaser: it gives back permits of Allow.
func (l *KeyedLeases) Release(ctx context.Context, key string, n int64) error {
	defer l.pool.lines.wake(key)
	return l.KeyedReleaser.Release(ctx, key, n)
}

// Peek implements limit.KeyedPeeker.
func (l *KeyedLeases) Peek(ctx context.Context, key string) (limit.Result, error) {
	return l.KeyedReleaser.(limit.KeyedPeeker).Peek(ctx, key)
}

// fixed returns the numbers of a checked Limit.
func (l Limit) fixed() form.Numbers {
	numbers, _ := l.numbers()
	return numbers
}

// memory returns the store of a limiter in memory.
func (l Limit) memory(limiter any) store {
	return memory{boundOf(l.fixed()), limiter.(form.Opened[state])}
}

func (l Limit) pool(store store, opts []limit.Option) *pool {
	p := &pool{Numbers: l.fixed(), store: store, now: time.Now}
	if set := limit.SettingsOf(opts); set.Now != nil {
		p.now = set.Now
	}
	return p
}

// A Lease holds permits until it is released or ends. It is safe for concurrent use.
type Lease struct {
	pool    *pool
	key     string
	permits permits

	calls *semaphore.Weighted // held during a call, so that Release sees what Extend did
	ended bool                // guarded by calls: it was released
	tried bool                // guarded by calls: a Release failed, and may have been carried out

	mu      sync.Mutex
	expires time.Time // guarded by mu
}

// Expires returns when the lease ends, by the clock of this machine or of limit.WithClock. On Redis it may
// last longer by the time that the request took to arrive.
func (l *Lease) Expires() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.expires
}

// Extend restarts the lease at its full length. The error is ErrExpired if the lease has ended or was
// released. After another error the lease lasts at least as long as before.
func (l *Lease) Extend(ctx context.Context) error {
	if err := l.begin(ctx); err != nil {
		return err
	}
	defer l.calls.Release(1)
	if err := l.pool.ended(ctx); err != nil {
		return err
	}
	if l.ended {
		return fmt.Errorf("%w: it was released", ErrExpired)
	}
	expires := l.pool.expires()
	found, _, err := l.permits.keep(ctx, false)
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

// Release gives the permits back. A second call does nothing and returns nil. The error is ErrExpired if
// the lease had ended. After another error the permits may still be out: call Release again, or they come
// back when the lease ends. The work may have stopped because its ctx ended, so pass
// context.WithoutCancel(ctx).
func (l *Lease) Release(ctx context.Context) error {
	if err := l.begin(ctx); err != nil {
		return err
	}
	defer l.calls.Release(1)
	if l.ended {
		return nil
	}
	if err := l.pool.ended(ctx); err != nil {
		return err
	}
	found, unsure, err := l.permits.keep(ctx, true)
	if err != nil {
		l.tried = true
		return err
	}
	l.ended = true
	l.pool.lines.wake(l.key)
	// An earlier try may have removed the lease.
	if found || (unsure || l.tried) && l.pool.now().Before(l.Expires()) {
		return nil
	}
	return l.expired()
}

// begin waits until no other call is under way, or returns the error of an ended ctx.
func (l *Lease) begin(ctx context.Context) error {
	if l.calls.TryAcquire(1) || l.calls.Acquire(ctx, 1) == nil {
		return nil
	}
	return l.pool.ended(ctx)
}

func (l *Lease) expired() error {
	return fmt.Errorf("%w, at %s", ErrExpired, l.Expires().Format(time.RFC3339Nano))
}
