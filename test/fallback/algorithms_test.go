package fallback_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/concurrency"
	"github.com/redisson-go/rratelimiter/limit/fixedwindow"
	"github.com/redisson-go/rratelimiter/limit/leakybucket"
	"github.com/redisson-go/rratelimiter/limit/slidingwindow"
	"github.com/redisson-go/rratelimiter/limit/tokenbucket"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// An algorithm makes a limiter of two permits an hour, of a key.
type algorithm func(rdb redis.UniversalClient) (limit.Releaser, error)

// of returns the limiter of a key.
func of[L interface {
	limit.Releaser
	limit.Keyed[L]
}](l L, err error) (limit.Releaser, error) {
	return l.For("a"), err
}

var algorithms = map[string]algorithm{
	"bucket": func(rdb redis.UniversalClient) (limit.Releaser, error) {
		return of(tokenbucket.Bucket{Capacity: 2, Rate: 2, Interval: time.Hour}.OnRedis(rdb, "n"))
	},
	"meter": func(rdb redis.UniversalClient) (limit.Releaser, error) {
		return of(leakybucket.Meter{Capacity: 2, Rate: 2, Interval: time.Hour}.OnRedis(rdb, "n"))
	},
	"window": func(rdb redis.UniversalClient) (limit.Releaser, error) {
		return of(fixedwindow.Window{Rate: 2, Interval: time.Hour}.OnRedis(rdb, "n"))
	},
	"calendar": func(rdb redis.UniversalClient) (limit.Releaser, error) {
		return of(fixedwindow.Calendar{Rate: 2, Unit: fixedwindow.Month}.OnRedis(rdb, "n"))
	},
	"counter": func(rdb redis.UniversalClient) (limit.Releaser, error) {
		return of(slidingwindow.Counter{Rate: 2, Interval: time.Hour}.OnRedis(rdb, "n"))
	},
	"log": func(rdb redis.UniversalClient) (limit.Releaser, error) {
		return of(slidingwindow.Log{Rate: 2, Interval: time.Hour}.OnRedis(rdb, "n"))
	},
	"leases": func(rdb redis.UniversalClient) (limit.Releaser, error) {
		return of(concurrency.Limit{Most: 2, Lease: time.Hour}.OnRedis(rdb, "n"))
	},
}

// told is what an Observer gets.
type told struct{ Observations }

// last expects the last observation.
func (o *told) last(t *testing.T, want limit.Result, err error) {
	t.Helper()
	all := o.All()
	got := all[len(all)-1]
	if got.Policy != "n" || got.Result.Name != "n:a" || got.Permits != 1 || got.Err != err ||
		err == nil && fmt.Sprint(got.Result) != fmt.Sprint(want) {
		t.Errorf("the Observer got %+v; want %+v, %v", got, want, err)
	}
}

// onAlgorithms runs a spec with a limiter of each algorithm on a Client, in fake time, with Redis down.
func onAlgorithms(t *testing.T, fallback rratelimiter.Fallback,
	spec func(l *Limiter, of limit.Releaser, seen *told)) {
	for name, make := range algorithms {
		t.Run(name, func(t *testing.T) {
			seen := &told{}
			Bubble(t, func(l *Limiter) {
				of, err := make(l.Client.Redis().WithFallback(fallback))
				NoError(t, err)
				r, err := of.Allow(l.Context(), 1) // the script is known from here on
				if err != nil || !r.Allowed || r.Degraded || r.Name != "n:a" || r.Policy != "n" {
					t.Fatalf("on Redis: %+v, %v", r, err)
				}
				seen.last(t, r, nil)
				NoError(t, of.Release(l.Context(), 1))
				l.RDB.AddHook(Hook(l.Gate.Process))
				open := l.Gate.Shut()
				defer func() { open(); l.Sleep(time.Hour) }()
				spec(l, of, seen)
			}, rratelimiter.WithBudget(budget), rratelimiter.WithObserver(seen))
		})
	}
}

// A limiter of package limit falls back as its Client does.
func TestAlgorithmsFallBack(t *testing.T) {
	onRedis := func(l *Limiter, f rratelimiter.Fallback) error {
		_, err := algorithms["bucket"](l.Client.Redis().WithFallback(f))
		return err
	}
	Bubble(t, func(l *Limiter) { WantErr(t, onRedis(l, -1), limit.ErrMisconfigured, "fallback is -1") })
	for fallback, wants := range map[rratelimiter.Fallback]string{
		rratelimiter.FallbackError: "error error error",
		rratelimiter.FallbackAllow: "yes yes yes",
		rratelimiter.FallbackDeny:  "no no no",
		rratelimiter.FallbackLocal: "yes yes no",
	} {
		t.Run(wants, func(t *testing.T) {
			onAlgorithms(t, fallback, func(l *Limiter, of limit.Releaser, seen *told) {
				got := ""
				for i := range 3 {
					start := time.Now()
					r, err := of.Allow(l.Context(), 1)
					if took := time.Since(start); took != budget {
						t.Errorf("call %d took %v", i+1, took)
					}
					seen.last(t, r, err)
					switch {
					case errors.Is(err, rratelimiter.ErrNoAnswer):
						got += " error"
					case err != nil || !r.Degraded || r.Limit != 2:
						t.Fatalf("%+v, %v", r, err)
					default:
						got += map[bool]string{true: " yes", false: " no"}[r.Allowed]
					}
				}
				if got != " "+wants {
					t.Errorf("got %s", got)
				}
				if c, ok := of.(limit.Charger); ok {
					local := fallback == rratelimiter.FallbackLocal
					r, err := c.Charge(l.Context(), 1)
					if (err == nil) != local || r.Degraded != local {
						t.Errorf("charged: %+v, %v", r, err)
					}
				}
				start := time.Now() // the circuit is open
				_, _ = of.Allow(l.Context(), 1)
				if took := time.Since(start); took != 0 || !l.Client.Health().Degraded {
					t.Errorf("a call that does not ask took %v, %+v", took, l.Client.Health())
				}
			})
		})
	}
}

// Without Redis 5,000 keys of an algorithm have limits of their own, and further keys share as many.
func TestManyKeysOfAnAlgorithmFallBack(t *testing.T) {
	Bubble(t, func(l *Limiter) {
		of, err := fixedwindow.Window{Rate: 1, Interval: time.Hour}.OnRedis(l.Client.Redis(), "n")
		NoError(t, err)
		l.RDB.AddHook(Hook(l.Gate.Process))
		open := l.Gate.Shut()
		defer func() { open(); l.Sleep(time.Hour) }()
		granted := 0
		for i := range 40_000 {
			r, err := of.For(fmt.Sprint(i)).Allow(l.Context(), 1)
			if NoError(t, err); r.Allowed {
				granted++
			}
		}
		if granted < 9_000 || granted > 10_300 {
			t.Errorf("%d keys are granted", granted)
		}
	}, rratelimiter.WithFallback(rratelimiter.FallbackLocal), rratelimiter.WithBudget(budget))
}

// What FallbackLocal has granted is given back where it was taken, and so is what a lease holds.
func TestAlgorithmsGiveBackLocally(t *testing.T) {
	onAlgorithms(t, rratelimiter.FallbackLocal, func(l *Limiter, of limit.Releaser, _ *told) {
		ctx, yes := l.Context(), 0
		takes := func() {
			t.Helper()
			if r, err := of.Allow(ctx, 2); err != nil || !r.Allowed {
				t.Fatalf("%+v, %v", r, err)
			}
			yes++
		}
		takes()
		NoError(t, of.Release(ctx, 2))
		takes()
		NoError(t, of.Release(ctx, 2))
		switch of := of.(type) {
		case limit.Reserver:
			r, _, err := of.TryReserve(ctx, 2)
			NoError(t, err)
			NoError(t, r.Cancel(ctx))
			takes()
			charged, err := of.(limit.Charger).Charge(ctx, 3)
			if err != nil || charged.Debt != 3 || !charged.Degraded {
				t.Errorf("charged: %+v, %v", charged, err)
			}
		case concurrency.Leases:
			lease, err := of.Acquire(ctx, 2)
			NoError(t, err)
			if peeked, err := of.Peek(ctx); err != nil || peeked.Allowed || !peeked.Degraded {
				t.Errorf("peeked: %+v, %v", peeked, err)
			}
			NoError(t, lease.Release(ctx))
			takes()
		}
	})
}

// While limiting is off, all is granted; when the Client is closed, calls end.
func TestAlgorithmsObeyTheirClient(t *testing.T) {
	onAlgorithms(t, rratelimiter.FallbackError, func(l *Limiter, of limit.Releaser, _ *told) {
		ctx := l.Context()
		l.Client.SetLimiting(false)
		for range 3 {
			if r, err := of.Allow(ctx, 2); err != nil || !r.Allowed || !r.Degraded {
				t.Fatalf("%+v, %v", r, err)
			}
		}
		WantErr(t, of.Release(ctx, 0), limit.ErrInvalidArgument)
		NoError(t, of.Release(ctx, 1))
		l.Client.SetLimiting(true)
		time.AfterFunc(budget/2, func() { _ = l.Client.Close() })
		_, err := of.Allow(ctx, 1)
		WantErr(t, err, rratelimiter.ErrClosed)
		_, err = of.Allow(ctx, 1)
		WantErr(t, err, rratelimiter.ErrClosed)
		WantErr(t, of.Release(ctx, 1), rratelimiter.ErrClosed)
	})
}

// Callers in a line of a Client wait for their turns in this process while Redis is down.
func TestALineFallsBack(t *testing.T) {
	for fallback, want := range map[rratelimiter.Fallback]string{
		rratelimiter.FallbackAllow: "true 250ms, true 250ms, true 250ms",
		rratelimiter.FallbackDeny:  "false 250ms, false 250ms, false 250ms",
		rratelimiter.FallbackLocal: "true 250ms, true 1s, true 1s",
	} {
		t.Run(want, func(t *testing.T) {
			Bubble(t, func(l *Limiter) {
				line, err := leakybucket.Queue{Rate: 1, Interval: time.Second, Capacity: 9}.
					OnRedis(l.Client.Redis(), "n")
				NoError(t, err)
				NoError(t, line.Wait(l.Context()))
				l.Sleep(time.Second)
				l.RDB.AddHook(Hook(l.Gate.Process))
				defer l.Gate.Shut()()
				got := ""
				for range 3 {
					start := time.Now()
					err := line.Wait(l.Context())
					got += fmt.Sprintf(", %v %v", err == nil, time.Since(start))
				}
				if got != ", "+want {
					t.Error(got)
				}
			}, rratelimiter.WithFallback(fallback), rratelimiter.WithBudget(budget))
		})
	}
}

// A Redis of a Client is one behind a pointer, and inside of another type; a zero one is an error.
func TestAlgorithmsKnowTheirClient(t *testing.T) {
	Bubble(t, func(l *Limiter) {
		l.Client.SetLimiting(false)
		r := l.Client.Redis()
		for _, rdb := range []redis.UniversalClient{
			&r, struct{ rratelimiter.Redis }{r}, rratelimiter.New(&r).Redis(),
		} {
			_, err := algorithms["bucket"](rdb)
			NoError(t, err)
		}
		of, err := algorithms["bucket"](&r)
		NoError(t, err)
		if r, err := of.Allow(l.Context(), 1); err != nil || !r.Degraded {
			t.Errorf("behind a pointer: %+v, %v", r, err)
		}
		for _, rdb := range []redis.UniversalClient{rratelimiter.Redis{}, &rratelimiter.Redis{}} {
			_, err := algorithms["bucket"](rdb)
			WantErr(t, err, limit.ErrInvalidArgument, "rdb")
		}
	})
}

// A reservation whose Settle was not sent, because the circuit was open, can be settled later.
func TestAReservationIsSettledAfterAnOutage(t *testing.T) {
	onReserved(t, func(l *Limiter, r *limit.Reservation, _ *concurrency.Lease, left func() int64) {
		open := l.Gate.Shut()
		for !l.Client.Health().Degraded {
			_ = left()
		}
		WantErr(t, r.Cancel(l.Context()), rratelimiter.ErrNoAnswer)
		open()
		l.Sleep(time.Minute)
		NoError(t, r.Cancel(l.Context()))
		if got := left(); got != 1 {
			t.Errorf("%d left", got)
		}
	})
}

// Calls of a Lease end with the budget, and with their Client.
func TestALeaseKeepsTheBudget(t *testing.T) {
	onReserved(t, func(l *Limiter, _ *limit.Reservation, lease *concurrency.Lease, _ func() int64) {
		defer l.Gate.Shut()()
		start := time.Now()
		WantErr(t, lease.Extend(context.Background()), rratelimiter.ErrNoAnswer)
		if took := time.Since(start); took != budget {
			t.Errorf("Extend took %v", took)
		}
		time.AfterFunc(budget/2, func() { _ = l.Client.Close() })
		WantErr(t, lease.Release(context.Background()), rratelimiter.ErrClosed)
	})
}

// onReserved runs a spec with a reservation and a lease of one permit each, of two, on Redis. left asks for
// one permit, and returns how many were there.
func onReserved(t *testing.T,
	spec func(l *Limiter, r *limit.Reservation, lease *concurrency.Lease, left func() int64)) {
	Bubble(t, func(l *Limiter) {
		leases, err := concurrency.Limit{Most: 2, Lease: time.Hour}.OnRedis(l.Client.Redis(), "n")
		NoError(t, err)
		r, _, err := leases.TryReserve(l.Context(), 1)
		NoError(t, err)
		lease, err := leases.Acquire(l.Context(), 1)
		NoError(t, err)
		l.RDB.AddHook(Hook(l.Gate.Process))
		spec(l, r, lease, func() int64 {
			r, _ := leases.Peek(l.Context())
			return r.Remaining
		})
	}, rratelimiter.WithBudget(budget))
}

// Close ends what waits: for a turn in line, for permits of a Reserve, and for a lease.
func TestCloseEndsWaitingCalls(t *testing.T) {
	for name, waits := range map[string]func(ctx context.Context, rdb redis.UniversalClient) error{
		"line": func(ctx context.Context, rdb redis.UniversalClient) error {
			line, err := leakybucket.Queue{Rate: 1, Interval: time.Hour, Capacity: 9}.OnRedis(rdb, "n")
			NoError(t, err)
			return errors.Join(line.Wait(ctx), line.Wait(ctx))
		},
		"bucket": func(ctx context.Context, rdb redis.UniversalClient) error {
			of, err := tokenbucket.Bucket{Capacity: 1, Rate: 1, Interval: time.Hour}.OnRedis(rdb, "n")
			NoError(t, err)
			_, _ = of.Allow(ctx, 1)
			_, err = of.Reserve(ctx, 1, ForAges)
			return err
		},
		"leases": func(ctx context.Context, rdb redis.UniversalClient) error {
			of, err := concurrency.Limit{Most: 1, Lease: time.Hour}.OnRedis(rdb, "n")
			NoError(t, err)
			_, _ = of.Allow(ctx, 1)
			_, err = of.Acquire(ctx, 1)
			return err
		},
	} {
		for _, fallback := range []rratelimiter.Fallback{
			rratelimiter.FallbackError, rratelimiter.FallbackLocal,
		} {
			t.Run(fmt.Sprint(name, fallback), func(t *testing.T) {
				seen := &told{}
				Bubble(t, func(l *Limiter) {
					time.AfterFunc(time.Minute, func() { _ = l.Client.Close() })
					start := time.Now()
					WantErr(t, waits(l.Context(), l.Client.Redis()), rratelimiter.ErrClosed)
					if took := time.Since(start); took > time.Minute+time.Second/4 {
						t.Errorf("it took %v", took)
					}
					l.Sleep(time.Second)
					if n := len(seen.All()); name == "leases" && n != 2 {
						t.Errorf("the Observer saw %d calls", n)
					}
				}, rratelimiter.WithFallback(fallback), rratelimiter.WithObserver(seen))
			})
		}
	}
}

// A key of another type is no outage: a fallback would hide it. The Observer sees that call, and one with
// arguments out of bounds.
func TestAlgorithmsReportAnotherType(t *testing.T) {
	seen := &told{}
	Bubble(t, func(l *Limiter) {
		of, err := algorithms["bucket"](l.Client.Redis())
		NoError(t, err)
		NoError(t, l.Look.SAdd(l.Context(), "{n:a}:tokenbucket", "x").Err())
		_, err = of.Allow(l.Context(), 1)
		if err == nil || !strings.Contains(err.Error(), "WRONGTYPE ") {
			t.Errorf("another type: %v", err)
		}
		seen.last(t, limit.Result{}, err)
		_, err = of.Allow(l.Context(), 0)
		WantErr(t, err, limit.ErrInvalidArgument)
		if len(seen.All()) != 2 {
			t.Errorf("the Observer saw %d calls", len(seen.All()))
		}
	}, rratelimiter.WithFallback(rratelimiter.FallbackAllow), rratelimiter.WithObserver(seen))
}
