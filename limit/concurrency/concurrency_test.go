package concurrency_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/concurrency"
	"github.com/redisson-go/rratelimiter/limit/limittest"
)

func TestForms(t *testing.T) {
	formtest.Run(t, formtest.Suite{
		New: func(most int64, lease time.Duration) formtest.Algorithm {
			return concurrency.Limit{Most: most, Lease: lease}
		},
		Kind: limittest.SlidingLog, Worst: 1,
	})
}

// A grant that is returned is that grant, not an older one, whose caller may be dead.
func TestReturnedGrantsAreTheirOwn(t *testing.T) {
	formtest.EachForm(t, formtest.Of(concurrency.Limit{Most: 10, Lease: time.Hour}),
		func(t *testing.T, l limit.Releaser) {
			b := formtest.Borrow(t, l)
			b.Take(4, true)
			time.Sleep(30 * time.Minute)
			b.Back(5, b.Take(6, true)) // one stays
			b.Take(6, false)
			time.Sleep(30 * time.Minute)
			b.Take(9, true)
			b.Take(1, false)
		})
}

func TestBounds(t *testing.T) {
	for field, l := range map[string]concurrency.Limit{
		"Most is 0":             {Lease: time.Second},
		"Most is -1":            {Most: -1, Lease: time.Second},
		"Most is 1099511627777": {Most: 1<<40 + 1, Lease: time.Second},
		"Lease is 0s":           {Most: 1},
		"Lease is 999.999µs":    {Most: 1, Lease: time.Millisecond - 1},
		"Lease is 87840h0m1s":   {Most: 1, Lease: 3660*24*time.Hour + time.Second},
	} {
		_, memory := l.LeasesInMemory()
		_, memoryKeyed := l.LeasesInMemoryKeyed()
		_, redis := l.LeasesOnRedis(nil, "name")
		_, redisKeyed := l.LeasesOnRedisKeyed(nil, "name")
		for _, err := range []error{memory, memoryKeyed, redis, redisKeyed} {
			if !errors.Is(err, limit.ErrInvalidArgument) || !strings.Contains(err.Error(), field) {
				t.Errorf("%+v: %v", l, err)
			}
		}
	}
}

// pools are the forms of one limit of leases.
var pools = map[string]func(t *testing.T, l concurrency.Limit) pool{
	"memory": func(t *testing.T, l concurrency.Limit) pool {
		return redistest.Must(l.LeasesInMemory())(t)
	},
	"memory, keyed": func(t *testing.T, l concurrency.Limit) pool {
		return ofKey{redistest.Must(l.LeasesInMemoryKeyed())(t), "key"}
	},
	"Redis": func(t *testing.T, l concurrency.Limit) pool {
		return redistest.Must(l.LeasesOnRedis(redistest.MiniClient(t, redistest.Mini(t)), "name"))(t)
	},
	"Redis, keyed": func(t *testing.T, l concurrency.Limit) pool {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		return ofKey{redistest.Must(l.LeasesOnRedisKeyed(rdb, "name"))(t), "key"}
	},
}

// A pool is a limit of leases.
type pool interface {
	limit.Releaser
	Acquire(ctx context.Context, n int64) (*concurrency.Lease, error)
	TryAcquire(ctx context.Context, n int64) (*concurrency.Lease, bool, error)
}

// ofKey is the pool of one key.
type ofKey struct {
	leases *concurrency.KeyedLeases
	key    string
}

func (o ofKey) Allow(ctx context.Context, n int64) (limit.Result, error) {
	return o.leases.Allow(ctx, o.key, n)
}

func (o ofKey) Release(ctx context.Context, n int64) error { return o.leases.Release(ctx, o.key, n) }

func (o ofKey) Acquire(ctx context.Context, n int64) (*concurrency.Lease, error) {
	return o.leases.Acquire(ctx, o.key, n)
}

func (o ofKey) TryAcquire(ctx context.Context, n int64) (*concurrency.Lease, bool, error) {
	return o.leases.TryAcquire(ctx, o.key, n)
}

// each runs a spec on each pool of a limit, in a bubble.
func each(t *testing.T, l concurrency.Limit, spec func(t *testing.T, p pool)) {
	t.Helper()
	for name, of := range pools {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { spec(t, of(t, l)) })
		})
	}
}

// takes expects TryAcquire to grant n permits, or not.
func takes(t *testing.T, p pool, n int64, want bool) *concurrency.Lease {
	t.Helper()
	lease, ok, err := p.TryAcquire(t.Context(), n)
	if err != nil || ok != want || (lease != nil) != want {
		t.Errorf("TryAcquire(%d): %v %v %v, want %v", n, lease, ok, err, want)
	}
	return lease
}

// returns expects an error of Release.
func returns(t *testing.T, lease *concurrency.Lease, want error) {
	t.Helper()
	formtest.Fails(t, want, lease.Release(t.Context()))
}

// Most permits are out at most, and a released lease gives its permits back, once.
func TestReleaseGivesPermitsBackOnce(t *testing.T) {
	each(t, concurrency.Limit{Most: 5, Lease: time.Minute}, func(t *testing.T, p pool) {
		one := takes(t, p, 3, true)
		takes(t, p, 3, false)
		takes(t, p, 2, true)
		takes(t, p, 1, false)
		returns(t, one, nil)
		returns(t, one, nil)
		takes(t, p, 3, true)
		returns(t, one, nil)
		takes(t, p, 1, false)
	})
}

// A lease that has ended gives nothing back, and reports it: other callers have its permits.
func TestAnEndedLeaseGivesNothingBack(t *testing.T) {
	each(t, concurrency.Limit{Most: 5, Lease: time.Minute}, func(t *testing.T, p pool) {
		start := time.Now()
		old := takes(t, p, 5, true)
		if ends := old.Expires(); !ends.Equal(start.Add(time.Minute)) {
			t.Errorf("it expires at %v", ends)
		}
		time.Sleep(time.Minute - time.Microsecond)
		takes(t, p, 1, false)
		time.Sleep(time.Microsecond)
		other := takes(t, p, 5, true)
		formtest.Fails(t, concurrency.ErrExpired, old.Extend(t.Context()))
		returns(t, old, concurrency.ErrExpired)
		takes(t, p, 1, false)
		returns(t, old, nil) // reported once
		returns(t, other, nil)
		takes(t, p, 5, true)
	})
}

func TestAnExtendedLeaseLasts(t *testing.T) {
	each(t, concurrency.Limit{Most: 2, Lease: time.Minute}, func(t *testing.T, p pool) {
		lease := takes(t, p, 1, true)
		takes(t, p, 1, true)
		for range 5 {
			time.Sleep(59 * time.Second)
			redistest.NoError(t, lease.Extend(t.Context()))
			if left := time.Until(lease.Expires()); left != time.Minute {
				t.Errorf("it ends after %v", left)
			}
		}
		takes(t, p, 2, false)
		returns(t, takes(t, p, 1, true), nil)
		returns(t, lease, nil)
		formtest.Fails(t, concurrency.ErrExpired, lease.Extend(t.Context()))
		takes(t, p, 2, true)
	})
}

// Allow and leases count together, and Release of a limit.Releaser leaves leases alone.
func TestAllowCountsWithLeases(t *testing.T) {
	each(t, concurrency.Limit{Most: 5, Lease: time.Minute}, func(t *testing.T, p pool) {
		lease := takes(t, p, 2, true)
		formtest.Allow(t, p, 2, true)
		formtest.Allow(t, p, 2, false)
		for range 2 {
			redistest.NoError(t, p.Release(t.Context(), 5))
		}
		takes(t, p, 4, false)
		takes(t, p, 3, true)
		returns(t, lease, nil)
		takes(t, p, 2, true)
	})
}

// Acquire waits until permits are released, or their leases end.
func TestAcquireWaitsForPermits(t *testing.T) {
	each(t, concurrency.Limit{Most: 3, Lease: 3 * time.Second}, func(t *testing.T, p pool) {
		start := time.Now()
		lease := takes(t, p, 3, true)
		time.AfterFunc(time.Second, func() { returns(t, lease, nil) })
		for _, want := range []time.Duration{time.Second, 4 * time.Second} {
			redistest.Must(p.Acquire(t.Context(), 2))(t)
			if d := time.Since(start).Truncate(time.Microsecond); d != want {
				t.Errorf("served after %v, want %v", d, want)
			}
		}
	})
}

// Callers are served in order, also one that wants many permits.
func TestCallersAreServedInOrder(t *testing.T) {
	each(t, concurrency.Limit{Most: 3, Lease: time.Minute}, func(t *testing.T, p pool) {
		one, _ := takes(t, p, 1, true), takes(t, p, 2, true)
		order := make(chan int, 3)
		var callers sync.WaitGroup
		for i, n := range []int64{3, 1, 3} { // no two of them fit at once
			callers.Go(func() {
				lease, err := p.Acquire(t.Context(), n)
				if err != nil {
					t.Error(err)
					return
				}
				order <- i
				time.Sleep(time.Second)
				returns(t, lease, nil)
			})
			synctest.Wait()
			if i == 0 {
				returns(t, one, nil) // a permit, but not for later callers
			}
		}
		takes(t, p, 2, false)
		takes(t, p, 1, true) // TryAcquire does not stand in line
		if got := fmt.Sprint(<-order, <-order, <-order); got != "0 1 2" {
			t.Errorf("served: %s", got)
		}
		callers.Wait()
	})
}

// The end of a context ends the wait and takes nothing. The next caller is served.
func TestTheEndOfAContextEndsAcquire(t *testing.T) {
	each(t, concurrency.Limit{Most: 3, Lease: time.Minute}, func(t *testing.T, p pool) {
		lease := takes(t, p, 2, true)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ended := make(chan error, 2)
		for range 2 { // the first caller in line, and the second
			go func() {
				_, err := p.Acquire(short, 3)
				ended <- err
			}()
		}
		synctest.Wait()
		next := make(chan error, 1)
		go func() {
			_, err := p.Acquire(t.Context(), 1)
			next <- err
		}()
		for range 2 {
			formtest.Fails(t, context.DeadlineExceeded, <-ended)
		}
		redistest.NoError(t, <-next)
		returns(t, lease, nil)
		takes(t, p, 2, true)
	})
}

// Invalid arguments are errors, and take nothing.
func TestInvalidArgumentsTakeNothing(t *testing.T) {
	each(t, concurrency.Limit{Most: 3, Lease: time.Minute}, func(t *testing.T, p pool) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for _, spec := range []struct {
			ctx  context.Context
			n    int64
			want error
		}{
			{t.Context(), 0, limit.ErrInvalidArgument},
			{t.Context(), math.MinInt64, limit.ErrInvalidArgument},
			{t.Context(), 4, limit.ErrPermitsExceedRate},
			{t.Context(), math.MaxInt64, limit.ErrPermitsExceedRate},
			{ended, 1, context.Canceled},
		} {
			for range 2 {
				_, err := p.Acquire(spec.ctx, spec.n)
				formtest.Fails(t, spec.want, err)
				_, ok, err := p.TryAcquire(spec.ctx, spec.n)
				if formtest.Fails(t, spec.want, err); ok {
					t.Errorf("TryAcquire(%d) grants", spec.n)
				}
			}
		}
		lease := takes(t, p, 3, true)
		formtest.Fails(t, context.Canceled, lease.Release(ended))
		formtest.Fails(t, context.Canceled, lease.Extend(ended))
		takes(t, p, 1, false)
	})
}

// Each key has its own limit, and an empty key is an error.
func TestEachKeyHasALimit(t *testing.T) {
	leases := redistest.Must(concurrency.Limit{Most: 1, Lease: time.Minute}.LeasesInMemoryKeyed())(t)
	takes(t, ofKey{leases, "one"}, 1, true)
	takes(t, ofKey{leases, "other"}, 1, true)
	takes(t, ofKey{leases, "one"}, 1, false)
	_, err := leases.Acquire(t.Context(), "", 1)
	formtest.Fails(t, limit.ErrInvalidArgument, err)
	_, _, err = leases.TryAcquire(t.Context(), "", 1)
	formtest.Fails(t, limit.ErrInvalidArgument, err)
}

// A lease that was dropped with the state of its key has ended, and does not change the next state.
func TestALeaseOfADroppedKeyHasEnded(t *testing.T) {
	for what, call := range map[string]func(*concurrency.Lease, context.Context) error{
		"Release": (*concurrency.Lease).Release, "Extend": (*concurrency.Lease).Extend,
	} {
		for _, others := range []int64{0, 1, 2} {
			t.Run(fmt.Sprint(what, " beside ", others), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := concurrency.Limit{Most: 2, Lease: time.Minute}
					leases := redistest.Must(l.LeasesInMemoryKeyed())(t)
					p, other := ofKey{leases, "key"}, ofKey{leases, "other"}
					old := takes(t, p, 2, true)
					for range 4 {
						time.Sleep(50 * time.Second)
						takes(t, other, 1, true)
						time.Sleep(time.Minute)
					}
					for range others {
						takes(t, p, 1, true)
					}
					formtest.Fails(t, concurrency.ErrExpired, call(old, t.Context()))
					if others < 2 {
						takes(t, p, 2-others, true)
					}
					takes(t, p, 1, false)
					time.Sleep(time.Minute)
					takes(t, p, 2, true)
				})
			})
		}
	}
}

func TestLeasesGoByTheClockOfTheOption(t *testing.T) {
	now := time.Unix(1e9, 0)
	clock := limit.WithClock(func() time.Time { return now })
	leases := redistest.Must(concurrency.Limit{Most: 1, Lease: time.Minute}.LeasesInMemory(clock))(t)
	lease := takes(t, leases, 1, true)
	if ends := lease.Expires(); !ends.Equal(now.Add(time.Minute)) {
		t.Errorf("it expires at %v", ends)
	}
	now = now.Add(-time.Hour) // set back: no permit comes for a lease at most
	takes(t, leases, 1, false)
	now = now.Add(time.Minute)
	takes(t, leases, 1, true)
	returns(t, lease, concurrency.ErrExpired)
}
