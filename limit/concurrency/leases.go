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

// A Leases is the limiter of a Limit: one limit, or with For one limit for each key. It is safe for
// concurrent use. Acquire takes its permits for a [Lease]; Allow takes them as for any [limit.Limiter]. It is
// a limit.Releaser, a limit.Peeker and a limit.Keyed. Calls of the zero Leases panic.
type Leases struct {
	form, each *pooled // of this limit, and of those by key
	key        string
}

// pooled is the form that Allow uses, and the pool of the leases.
type pooled struct {
	form.Form
	pool *pool
}

// Return implements form.Form.
func (p *pooled) Return(ctx context.Context, key string, n int64, d form.Decision) error {
	defer p.pool.lines.wake(key)
	return p.Form.Return(ctx, key, n, d)
}

// InMemory returns a limiter in this process. When a key has not been used for the time of a lease, one of
// the next calls drops its limit. The error is a limit.ErrInvalidArgument if a field is out of its bounds.
func (l Limit) InMemory(opts ...limit.Option) (Leases, error) {
	forms, err := form.InMemory(l.rule, opts)
	if err != nil {
		return Leases{}, err
	}
	of := func(f form.Form, keyed bool) *pooled { return &pooled{f, l.pool(l.memory(f), opts, keyed)} }
	return Leases{of(forms.One, false), of(forms.Each, true), ""}, nil
}

// OnRedis returns a limiter shared by all that use its name, of 1 to 1,024 bytes. Its Redis key is
// {name}:concurrency, or {name:key}:concurrency for a key of For, a sorted set that Redis drops when all
// leases have ended. Times are those of the server. A lost reply is an error, and may cost permits until
// their lease ends. The error is that of InMemory, also for a nil rdb or an unusable name.
//
// Waiting callers are served in order within a process, but not among processes: the first caller in each
// line asks again when a lease ends, and until then within 5 ms at first, later every 100 to 200 ms. So a
// process that has just given a lease back often gets the next one, and another may wait many times longer
// than its turn.
func (l Limit) OnRedis(rdb redis.UniversalClient, name string) (Leases, error) {
	forms, err := form.OnRedis(l.rule, rdb, name)
	if err != nil {
		return Leases{}, err
	}
	conn, err := form.Connect(rdb, name)
	remote := &remote{l.fixed(), conn, name, newSerial('-')}
	of := func(f form.Form, keyed bool) *pooled {
		var of store = remote
		if local := form.Local(f); local != nil {
			of = hosted{remote, l.memory(local)}
		}
		return &pooled{f, l.pool(of, nil, keyed)}
	}
	return Leases{of(forms.One, false), of(forms.Each, true), ""}, err
}

// For returns the limit of a key of 1 to 1,024 bytes. With another key each call is a
// limit.ErrInvalidArgument.
func (l Leases) For(key string) Leases { return Leases{l.each, l.each, key} }

// Allow takes n permits if they are there, for the time of a lease.
func (l Leases) Allow(ctx context.Context, n int64) (limit.Result, error) {
	return l.form.Allow(ctx, l.key, n)
}

// Acquire waits for n permits and takes them. Callers of one process are served in order: those that want
// few permits do not overtake those that want many. The error is limit.ErrInvalidArgument or
// limit.ErrPermitsExceedRate as for Allow, that of ctx if it has ended, or that of Redis. Permits that
// Redis granted without a reply are given back as soon as Redis replies again. If the request reaches Redis
// even later, its permits are out until the lease ends.
func (l Leases) Acquire(ctx context.Context, n int64) (*Lease, error) {
	return l.form.pool.acquire(ctx, l.key, n)
}

// TryAcquire takes n permits if they are there now, even while other callers wait. Otherwise it returns
// false and no Lease. Errors are those of Acquire.
func (l Leases) TryAcquire(ctx context.Context, n int64) (*Lease, bool, error) {
	return l.form.pool.tryAcquire(ctx, l.key, n)
}

// TryReserve is Allow for permits that are given back exactly. Settle takes the number of permits still in
// use, at most n, and gives back the rest; Cancel gives back all. Permits whose lease has ended are not given
// back. A Settle with more than n is a [limit.ErrInvalidArgument].
func (l Leases) TryReserve(ctx context.Context, n int64) (*limit.Reservation, limit.Result, error) {
	return form.TryReserve(ctx, l.form, l.key, n, n)
}

// Release gives back n permits of Allow. To give back the permits of a Lease, release the Lease.
func (l Leases) Release(ctx context.Context, n int64) error {
	defer l.form.pool.lines.wake(l.key)
	return l.form.Release(ctx, l.key, n)
}

// Peek returns the numbers without taking anything ([limit.Peeker]).
func (l Leases) Peek(ctx context.Context) (limit.Result, error) { return l.form.Peek(ctx, l.key) }

var (
	_ limit.Releaser      = Leases{}
	_ limit.Peeker        = Leases{}
	_ limit.Keyed[Leases] = Leases{}
)

// fixed returns the numbers of a checked Limit.
func (l Limit) fixed() form.Numbers {
	numbers, _ := l.numbers()
	return numbers
}

// memory returns the store of a limiter in memory.
func (l Limit) memory(limiter form.Form) memory {
	return memory{boundOf(l.fixed()), limiter.(form.Opened[state])}
}

func (l Limit) pool(store store, opts []limit.Option, keyed bool) *pool {
	p := &pool{Numbers: l.fixed(), store: store, keyed: keyed, now: time.Now}
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
