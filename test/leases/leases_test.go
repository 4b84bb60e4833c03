package leases_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/grants"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

const interval = 10 * time.Second // a lease lasts half a second

var errDead = errors.New("the process is dead")

// A process is a Client that takes leases, and can be killed.
type process struct {
	*rratelimiter.RateLimiter
	client *rratelimiter.Client
	dead   atomic.Bool  // nothing reaches Redis any more
	loses  atomic.Bool  // some replies get lost
	late   atomic.Int64 // ns that requests take
	trips  *atomic.Int64
}

// A bubble is processes in fake time, and a Client that sees what is in Redis.
type bubble struct {
	*testing.T
	mini      *miniredis.Miniredis
	look      *redis.Client
	processes []*process
	name      string
	log       grants.Log
}

// inBubble runs a spec in fake time, with processes that share a limiter.
func inBubble(t *testing.T, processes int, rate int64, spec func(b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		b := &bubble{T: t, mini: m, look: redistest.MiniClient(t, m), name: "l"}
		for range processes {
			b.starts(redistest.MiniClient(t, m))
		}
		NoError(t, NewClient(b.T, b.look).RateLimiter(b.name).SetRate(b.Context(), Overall, rate, interval))
		spec(b)
	})
}

// starts adds a process that takes leases.
func (b *bubble) starts(rdb *redis.Client, opts ...rratelimiter.Option) {
	p := &process{trips: redistest.RoundTrips(rdb)}
	rdb.AddHook(Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		if p.dead.Load() {
			cmd.SetErr(errDead)
			return errDead
		}
		time.Sleep(time.Duration(p.late.Load()))
		err := next(ctx, cmd)
		if p.loses.Load() && rand.IntN(10) == 0 {
			cmd.SetErr(io.EOF)
			return io.EOF
		}
		return err
	}))
	opts = append(opts, rratelimiter.WithLease(rratelimiter.LeaseOptions{Max: time.Second}))
	p.client = NewClient(b.T, rdb, opts...)
	p.RateLimiter = p.client.RateLimiter(b.name)
	b.processes = append(b.processes, p)
}

// take takes permits from a process, and lets it take a lease if it wants to.
func (b *bubble) take(p *process, permits int64) bool {
	b.Helper()
	start := time.Now()
	ok, err := p.TryAcquire(b.Context(), permits, 0)
	if !p.loses.Load() {
		NoError(b, err)
	}
	if ok && err == nil {
		b.log.Add(grants.Entry{Process: p.client.ID(), Start: start, End: time.Now(), Permits: permits})
	}
	synctest.Wait()
	return ok && err == nil
}

// value is what Redis says is left.
func (b *bubble) value() int64 {
	b.Helper()
	return redistest.Must(b.look.Get(b.Context(), "{"+b.name+"}:value").Int64())(b)
}

// A record is permits that count from a time on.
type record struct {
	at      time.Time
	permits int64
}

func (b *bubble) records() (all []record) {
	b.Helper()
	key := "{" + b.name + "}:permits"
	for _, z := range redistest.Must(b.look.ZRangeWithScores(b.Context(), key, 0, -1).Result())(b) {
		permits := redistest.Must(wire.Permits(z.Member.(string)))(b)
		all = append(all, record{time.UnixMilli(int64(z.Score)), permits})
	}
	return all
}

// lease returns the largest lease that has not ended, 0 if there is none.
func (b *bubble) lease() (permits int64) {
	b.Helper()
	for _, r := range b.records() {
		if r.at.After(time.Now()) {
			permits = max(permits, r.permits)
		}
	}
	return permits
}

// step does something at random, and reports whether a call got permits without Redis. plain takes no leases.
func (b *bubble) step(random *rand.Rand, plain *rratelimiter.RateLimiter) (leased bool) {
	p := b.processes[random.IntN(len(b.processes))]
	switch op := random.IntN(100); {
	case op < 80:
		before := p.trips.Load()
		leased = b.take(p, 1+random.Int64N(4)) && p.trips.Load() == before
	case op < 90:
		time.Sleep(time.Duration(random.Int64N(int64(interval / 20))))
	case op < 93:
		start := time.Now()
		if redistest.Must(plain.TryAcquire(b.Context(), 9, 0))(b) {
			b.log.Add(grants.Entry{Process: "plain", Start: start, End: time.Now(), Permits: 9})
		}
	case op < 99:
		if ok, err := p.TryAcquire(b.Context(), 5, 0); ok && err == nil {
			if err = p.Release(b.Context(), 5); !p.loses.Load() {
				NoError(b, err)
			}
		}
	default: // another one begins where this one ends, or is killed
		p.dead.Store(random.IntN(2) == 0)
		_ = p.client.Close()
		b.processes = slices.DeleteFunc(b.processes, func(q *process) bool { return q == p })
		b.starts(redistest.MiniClient(b.T, b.mini))
		b.processes[len(b.processes)-1].loses.Store(random.IntN(2) == 0)
	}
	synctest.Wait()
	return leased
}

// However processes take permits, give them back, pause, lose replies, end and are killed, no interval has
// more than the rate. When all is over, everything is back.
func TestNoIntervalHasMoreThanTheRate(t *testing.T) {
	for round := range redistest.Rounds(t, 20) {
		seed := uint64(round) + rand.Uint64N(1<<40)
		inBubble(t, 3, 300, func(b *bubble) {
			random := rand.New(rand.NewPCG(seed, 0))
			plain := NewClient(b.T, b.look).RateLimiter(b.name)
			leased := 0
			for range 800 {
				if b.step(random, plain) {
					leased++
				}
			}
			limit := grants.Limit{Rate: 300, Interval: interval}
			// Redis counts whole ms.
			if worst := limit.Worst(&b.log, time.Millisecond); worst.Permits() > limit.Rate || leased == 0 {
				b.Errorf("seed %d: %v, %d calls were answered by leases", seed, worst, leased)
			}
			time.Sleep(interval + time.Second)
			if left := redistest.Must(plain.AvailablePermits(b.Context()))(b); left != 300 {
				b.Errorf("seed %d: %d are left at last", seed, left)
			}
		})
	}
}

// A Redis that does not reply keeps Close no longer than a second, and half of it for the callers that wait.
func TestCloseWithALeaseIsBounded(t *testing.T) {
	inBubble(t, 1, 10000, func(b *bubble) {
		p := b.processes[0]
		b.leased(p)
		p.late.Store(int64(5 * time.Second))
		start, waited := time.Now(), time.Duration(0)
		go func() {
			err := p.client.RateLimiter("another").Acquire(b.Context(), 1)
			if !errors.Is(err, rratelimiter.ErrClosed) {
				b.Errorf("Acquire: %v, want ErrClosed", err)
			}
			waited = time.Since(start)
		}()
		synctest.Wait()
		NoError(b, p.client.Close())
		synctest.Wait()
		if took := time.Since(start); took > time.Second || waited > time.Second/2 {
			b.Errorf("Close took %v, and a caller %v", took, waited)
		}
		time.Sleep(10 * time.Second) // all replies
	})
}

// However many leases there are, and however slowly Redis replies, Close ends within 5.5 s.
func TestCloseWithManyLeasesIsBounded(t *testing.T) {
	inBubble(t, 1, 1, func(b *bubble) {
		const limiters, each = 400, 8
		p := b.processes[0]
		leases := p.client.Keyed("api", 1000, time.Minute)
		for i := range limiters {
			for range each {
				NoError(b, Yes(leases.For(strconv.Itoa(i)).TryAcquire(b.Context(), 1, 0)))
				synctest.Wait()
			}
		}
		p.late.Store(int64(400 * time.Millisecond)) // 16 at once: 10 s
		start := time.Now()
		NoError(b, p.client.Close())
		if took := time.Since(start); took < 5*time.Second || took > 5500*time.Millisecond {
			b.Errorf("Close took %v", took)
		}
		time.Sleep(10 * time.Second) // all replies
	})
}

// Another Client that waits has the permits of a lease when they come back.
func TestASettledLeaseWakesOtherClients(t *testing.T) {
	inBubble(t, 1, 1000, func(b *bubble) {
		p, plain := b.processes[0], NewClient(b.T, b.look, rratelimiter.WithGoOnly()).RateLimiter(b.name)
		b.leased(p)
		NoError(b, Yes(plain.TryAcquire(b.Context(), b.value(), 0)))
		start, done := time.Now(), make(chan time.Duration, 1)
		go func() {
			NoError(b, plain.Acquire(b.Context(), 1))
			done <- time.Since(start)
		}()
		if took := <-done; took > interval/20 {
			b.Errorf("it waited for %v", took)
		}
	})
}

// Callers that stand in line come before the next lease: other callers take no permits ahead.
func TestWaitersComeBeforeLeases(t *testing.T) {
	inBubble(t, 1, 200, func(b *bubble) {
		p := b.processes[0]
		for b.take(p, 1) {
		}
		done := make(chan error, 1)
		go func() { done <- Yes(p.TryAcquire(b.Context(), 150, 2*interval)) }()
		synctest.Wait()
		for range 3000 {
			b.take(p, 1)
			time.Sleep(interval / 500)
			select {
			case err := <-done:
				NoError(b, err)
				return
			default:
			}
		}
		b.Error("the waiter has nothing after six intervals")
	})
}

// A Group that waits has the whole budget for each reply, also after a lease was given back for it.
func TestAWaitingGroupKeepsItsBudget(t *testing.T) {
	inBubble(t, 0, 100, func(b *bubble) {
		b.starts(redistest.MiniClient(b.T, b.mini), rratelimiter.WithBudget(250*time.Millisecond))
		p := b.processes[0]
		taken := b.leased(p)
		p.late.Store(int64(150 * time.Millisecond))
		NoError(b, Yes(p.client.All(p.RateLimiter).TryAcquire(b.Context(), 101-taken, 2*interval)))
	})
}

// A lease takes at most twice what the last one used, and a quarter more where that had permits left over.
func TestTheSizeOfALeaseFollowsUse(t *testing.T) {
	inBubble(t, 1, 100_000, func(b *bubble) {
		p, last := b.processes[0], int64(0)
		for range 5000 {
			b.take(p, 1)
			size := b.lease()
			if last > 0 && size > 2*last {
				b.Fatalf("a lease of %d after one of %d", size, last)
			}
			last = max(last, size)
		}
		if last < 500 {
			b.Errorf("the largest lease had %d permits", last)
		}
		for range 400 { // 50 permits in the time of a lease
			b.take(p, 1)
			time.Sleep(interval / 20 / 50)
		}
		if n := b.lease(); n < 25 || n > 80 {
			b.Errorf("a lease of %d permits, where 50 are used in its time", n)
		}
	})
}

// Leases cost a key of few calls nothing, and one that is called more often two calls: one asks what is left,
// and how many Clients share it, and one takes the lease.
func TestTheFirstLeaseOfAKeyTakesTwoCalls(t *testing.T) {
	inBubble(t, 1, 1000, func(b *bubble) {
		p := b.processes[0]
		users := p.client.Keyed("users", 1000, interval)
		// The first one loads the scripts.
		for i, c := range []struct{ calls, trips int64 }{{4, 0}, {3, 3}, {4, 6}} {
			before := p.trips.Load()
			for range c.calls {
				v, err := users.For(strconv.Itoa(i)).Allow(b.Context(), 1)
				if synctest.Wait(); err != nil || !v.Allowed {
					t.Fatal(v, err)
				}
			}
			if n := p.trips.Load() - before; i > 0 && n != c.trips {
				t.Errorf("%d calls took %d round trips, want %d", c.calls, n, c.trips)
			}
		}
	})
}
