package bounds_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A busy limiter is used by callers of two Clients, in an interval that does not
// end: in use is what was granted and not given back.
type busy struct {
	*Limiter
	clients [2]*rratelimiter.RateLimiter
	rate    int64
	inUse   atomic.Int64 // permits of callers that know of them
	kept    atomic.Int64 // permits that are not given back
	granted atomic.Int64 // times
	left    atomic.Int64 // callers that did not wait for their result
	late    atomic.Int64 // callers to whom Redis did not reply in time
	longest atomic.Int64 // the longest time beyond its own that a caller took, in ns
}

// visit is one caller: it comes, gets its result, and goes.
func (l *busy) visit(random *rand.Rand) {
	r, n := l.clients[random.IntN(2)], 1+random.Int64N(4)
	short := time.Duration(random.IntN(20_000)) * time.Microsecond
	var ok bool
	var err error
	start, may := time.Now(), short
	switch random.IntN(4) {
	case 0:
		may = 0
		ok, err = r.TryAcquire(context.Background(), n, 0)
	case 1:
		ok, err = r.TryAcquire(context.Background(), n, short)
	case 2:
		may = 0
		var res rratelimiter.Result
		res, err = r.Allow(context.Background(), n)
		ok = res.Allowed
	default:
		ctx, cancel := context.WithCancel(context.Background())
		end := time.AfterFunc(short, cancel)
		err = r.Acquire(ctx, n)
		end.Stop()
		cancel()
		if ok = err == nil; errors.Is(err, context.Canceled) {
			l.left.Add(1)
			err = nil
		}
	}
	for over := int64(time.Since(start) - may); ; {
		if most := l.longest.Load(); over <= most || l.longest.CompareAndSwap(most, over) {
			break
		}
	}
	if errors.Is(err, rratelimiter.ErrNoAnswer) { // the machine is too slow for this many callers
		l.late.Add(1)
		err = nil
	}
	if err != nil {
		l.Error(err)
	}
	if ok {
		l.uses(r, n)
	}
}

// uses is a caller that was granted permits. It keeps them, as long as that leaves
// some for other callers, or gives them back.
func (l *busy) uses(r *rratelimiter.RateLimiter, n int64) {
	l.granted.Add(1)
	if used := l.inUse.Add(n); used > l.rate {
		l.Errorf("%d permits are in use, of %d", used, l.rate)
	}
	if l.kept.Add(n) <= l.rate/2 {
		return
	}
	l.kept.Add(-n)
	l.inUse.Add(-n)
	if err := r.Release(context.Background(), n); err != nil {
		l.Error(err)
	}
}

// settles expects that in the end the permits that are taken are the ones that
// callers keep, and that value and records agree.
func (l *busy) settles() {
	l.Helper()
	l.UntilOut(l.kept.Load())
	l.Keeps(l.rate, l.ValueKey(), l.PermitsKey())
}

// Ten thousand callers come and go, by every method and with every end. Each gets
// an answer, no more than the rate is ever in use, and unowned permits come back.
func TestTenThousandCallersAreAllAnswered(t *testing.T) {
	t.Run("a record for each grant", func(t *testing.T) { comeAndGo(t) })
	t.Run("records with a resolution", func(t *testing.T) {
		comeAndGo(t, rratelimiter.WithResolution(100*time.Millisecond))
	})
}

func comeAndGo(t *testing.T, opts ...rratelimiter.Option) {
	t.Helper()
	const callers, atOnce = 10_000, 500
	s := redistest.Start(t)
	b := NewBench(t, s.Client(t), s.Admin())
	var clients [2]*rratelimiter.Client
	for i := range clients {
		clients[i] = rratelimiter.New(s.Client(t), opts...)
	}
	limiters := make([]*busy, 3)
	for i := range limiters {
		l := &busy{rate: int64(20 + 40*i)}
		l.Limiter = b.NewLimiter(Overall, l.rate, time.Hour)
		for j, c := range clients {
			l.clients[j] = c.RateLimiter(l.Name())
		}
		limiters[i] = l
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	room := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range uint64(callers) {
		room <- struct{}{}
		all.Go(func() {
			limiters[i%3].visit(rand.New(rand.NewPCG(seed, i)))
			<-room
		})
	}
	all.Wait()
	for _, l := range limiters {
		longest := time.Duration(l.longest.Load())
		t.Logf("rate %d: %d grants, %d callers left, %d without a reply, the last result %v late",
			l.rate, l.granted.Load(), l.left.Load(), l.late.Load(), longest)
		if longest > Slack || l.late.Load() > callers/3/4 {
			t.Errorf("want results for all of %d callers within %v, and at most a quarter without a reply",
				callers/3, Slack)
		}
		l.settles()
		if l.granted.Load() < l.rate || l.left.Load() == 0 {
			t.Errorf("%d grants, %d callers left", l.granted.Load(), l.left.Load())
		}
	}
	for _, c := range clients {
		b.Want(c.Close())
	}
}
