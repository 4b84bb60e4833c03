package concurrency_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/concurrency"
)

// pools are the ways in which one key of leases is had.
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

// A pool is one limit of leases.
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

// takes expects that permits are there, or not.
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
	if err := lease.Release(t.Context()); !errors.Is(err, want) {
		t.Errorf("Release: %v, want %v", err, want)
	}
}

// There are never more than Most out, and what is given back is there again, once.
func TestRelease(t *testing.T) {
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

// A lease that is over gives nothing back, and says so. Its permits have others.
func TestExpiry(t *testing.T) {
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
		if err := old.Extend(t.Context()); !errors.Is(err, concurrency.ErrExpired) {
			t.Errorf("Extend: %v", err)
		}
		returns(t, old, concurrency.ErrExpired)
		takes(t, p, 1, false)
		returns(t, old, nil) // it is known
		returns(t, other, nil)
		takes(t, p, 5, true)
	})
}

// A lease that is extended lasts on.
func TestExtend(t *testing.T) {
	each(t, concurrency.Limit{Most: 2, Lease: time.Minute}, func(t *testing.T, p pool) {
		lease := takes(t, p, 1, true)
		takes(t, p, 1, true)
		for range 5 {
			time.Sleep(59 * time.Second)
			if err := lease.Extend(t.Context()); err != nil {
				t.Errorf("Extend: %v", err)
			}
			if left := time.Until(lease.Expires()); left != time.Minute {
				t.Errorf("it is over after %v", left)
			}
		}
		takes(t, p, 2, false)
		returns(t, takes(t, p, 1, true), nil)
		returns(t, lease, nil)
		if err := lease.Extend(t.Context()); !errors.Is(err, concurrency.ErrExpired) {
			t.Errorf("Extend of what was given back: %v", err)
		}
		takes(t, p, 2, true)
	})
}

// Release of a limit.Releaser does not touch a Lease, and Allow counts with leases.
func TestAllowBesideLeases(t *testing.T) {
	each(t, concurrency.Limit{Most: 5, Lease: time.Minute}, func(t *testing.T, p pool) {
		lease := takes(t, p, 2, true)
		for _, want := range []int64{1, 0} {
			if r, err := p.Allow(t.Context(), 2); err != nil || r.Allowed != (want == 1) {
				t.Errorf("Allow: %+v %v", r, err)
			}
		}
		for range 2 {
			if err := p.Release(t.Context(), 5); err != nil {
				t.Error(err)
			}
		}
		takes(t, p, 4, false)
		takes(t, p, 3, true)
		returns(t, lease, nil)
		takes(t, p, 2, true)
	})
}

// Who waits has its permits when others give theirs back, or their leases are over.
func TestAcquireWaits(t *testing.T) {
	each(t, concurrency.Limit{Most: 3, Lease: 3 * time.Second}, func(t *testing.T, p pool) {
		start := time.Now()
		lease := takes(t, p, 3, true)
		time.AfterFunc(time.Second, func() { returns(t, lease, nil) })
		for _, want := range []time.Duration{time.Second, 4 * time.Second} {
			if _, err := p.Acquire(t.Context(), 2); err != nil {
				t.Error(err)
			}
			if d := time.Since(start).Truncate(time.Microsecond); d != want {
				t.Errorf("served after %v, want %v", d, want)
			}
		}
	})
}

// Callers are served in order: who wants much is not passed.
func TestOrder(t *testing.T) {
	each(t, concurrency.Limit{Most: 3, Lease: time.Minute}, func(t *testing.T, p pool) {
		one, _ := takes(t, p, 1, true), takes(t, p, 2, true)
		order := make(chan int64, 3)
		var callers sync.WaitGroup
		for _, n := range []int64{3, 1, 2} {
			callers.Go(func() {
				lease, err := p.Acquire(t.Context(), n)
				if err != nil {
					t.Error(err)
					return
				}
				order <- n
				time.Sleep(time.Second)
				returns(t, lease, nil)
			})
			synctest.Wait()
			if n == 3 {
				returns(t, one, nil) // there is one, and it is not for those who come later
			}
		}
		takes(t, p, 2, false)
		takes(t, p, 1, true) // who does not wait takes what is there
		if got := fmt.Sprint(<-order, <-order, <-order); got != "3 1 2" {
			t.Errorf("served: %s", got)
		}
		callers.Wait()
	})
}

// The end of a context ends the wait, and nothing is kept. The next is served.
func TestAcquireEnds(t *testing.T) {
	each(t, concurrency.Limit{Most: 3, Lease: time.Minute}, func(t *testing.T, p pool) {
		lease := takes(t, p, 2, true)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ended := make(chan error, 2)
		for range 2 { // the first in line, and another
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
			if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Acquire: %v", err)
			}
		}
		if err := <-next; err != nil {
			t.Errorf("the next: %v", err)
		}
		returns(t, lease, nil)
		takes(t, p, 2, true)
	})
}

// What cannot be is refused before anything is taken.
func TestArguments(t *testing.T) {
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
			for range 2 { // once while nobody waits, once while somebody does
				if _, err := p.Acquire(spec.ctx, spec.n); !errors.Is(err, spec.want) {
					t.Errorf("Acquire(%d): %v", spec.n, err)
				}
				if _, ok, err := p.TryAcquire(spec.ctx, spec.n); ok || !errors.Is(err, spec.want) {
					t.Errorf("TryAcquire(%d): %v %v", spec.n, ok, err)
				}
			}
		}
		lease := takes(t, p, 3, true)
		if err := lease.Release(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("Release: %v", err)
		}
		if err := lease.Extend(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("Extend: %v", err)
		}
		takes(t, p, 1, false)
	})
}

// Keys do not know of each other, and an empty one is none.
func TestKeys(t *testing.T) {
	leases := redistest.Must(concurrency.Limit{Most: 1, Lease: time.Minute}.LeasesInMemoryKeyed())(t)
	takes(t, ofKey{leases, "one"}, 1, true)
	takes(t, ofKey{leases, "other"}, 1, true)
	takes(t, ofKey{leases, "one"}, 1, false)
	_, one := leases.Acquire(t.Context(), "", 1)
	_, _, other := leases.TryAcquire(t.Context(), "", 1)
	for _, err := range []error{one, other} {
		if !errors.Is(err, limit.ErrInvalidArgument) {
			t.Errorf("an empty key: %v", err)
		}
	}
}

// The state of a key that nobody uses is dropped, with the leases that are over. These
// have no part in the next state: they are over, and change nothing.
func TestLeaseOfDroppedKey(t *testing.T) {
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
					if err := call(old, t.Context()); !errors.Is(err, concurrency.ErrExpired) {
						t.Errorf("%v, and the lease is over", err)
					}
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

// The clock of WithClock is that of the leases.
func TestClock(t *testing.T) {
	now := time.Unix(1e9, 0)
	clock := limit.WithClock(func() time.Time { return now })
	leases := redistest.Must(concurrency.Limit{Most: 1, Lease: time.Minute}.LeasesInMemory(clock))(t)
	lease := takes(t, leases, 1, true)
	if ends := lease.Expires(); !ends.Equal(now.Add(time.Minute)) {
		t.Errorf("it expires at %v", ends)
	}
	now = now.Add(-time.Hour) // set back: it starves for a lease at most
	takes(t, leases, 1, false)
	now = now.Add(time.Minute)
	takes(t, leases, 1, true)
	returns(t, lease, concurrency.ErrExpired)
}
