package bounds_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// Requests that fail leave few goroutines behind, however many limiters they use.
func TestFailedRequestsLeaveFewGoroutines(t *testing.T) {
	const (
		perSecond, seconds, names = 500, 5, 2000
		most                      = 1500
	)
	s := redistest.Start(t)
	b := NewBench(t, s.Client(t), s.Admin())
	c := rratelimiter.New(s.Client(t))
	defer c.Close()
	name := redistest.Name(t)
	NoError(t, c.RateLimiter(name).SetRate(t.Context(), Overall, 10, time.Hour))
	NoError(t, ErrOf(c.RateLimiter(name).Allow(t.Context(), 1)))
	for i := range names {
		b.Want(b.Look.Copy(t.Context(), name, fmt.Sprintf("%s-%d", name, i), 0, false).Err())
	}
	before := runtime.NumGoroutine()
	ran := b.ScriptsRun()
	thaw := s.Freeze(t)
	var all sync.WaitGroup
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	for i := range perSecond * seconds {
		<-tick.C
		all.Go(func() {
			l := c.RateLimiter(fmt.Sprintf("%s-%d", name, i%names))
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			defer cancel()
			if i%2 == 0 {
				ctx = context.Background() // its timeout ends it
			}
			if ok, err := l.TryAcquire(ctx, 1, 200*time.Millisecond); ok || err == nil {
				t.Errorf("%v, %v of a silent server", ok, err)
			}
		})
	}
	all.Wait()
	left := runtime.NumGoroutine() - before
	t.Logf("%d goroutines are left by %d requests", left, perSecond*seconds)
	if left > most {
		t.Errorf("want at most %d", most)
	}
	thaw()
	// Redis carries out now what it was sent. All of it is taken back.
	Until(t, func() bool {
		keys, err := b.Look.Keys(t.Context(), "{"+name+"-*}:permits").Result()
		b.Want(err)
		return len(keys) == 0 && b.ScriptsRun() > ran
	})
	b.Want(c.Close())
	Until(t, func() bool { return runtime.NumGoroutine() <= before+10 })
}

// A call of a lone caller allocates little, go-redis included: 3 times for each command
// and once for its reply.
func TestALoneCallAllocatesLittle(t *testing.T) {
	c := rratelimiter.New(redistest.Start(t).Client(t))
	defer func() { NoError(t, c.Close()) }()
	const rate = 1_000_000_000 // its numbers do not fit in the small ones that Go shares
	l, keyed := c.RateLimiter(redistest.Name(t)), c.Keyed(redistest.Name(t), rate, time.Hour)
	NoError(t, l.SetRate(t.Context(), Overall, rate, time.Hour))
	ctx, user := context.Background(), 0
	users := make([]string, 100)
	for i := range users {
		users[i] = fmt.Sprint("user", i)
	}
	for name, call := range map[string]struct {
		most float64
		f    func() error
	}{
		"TryAcquire": {9, func() error { return Yes(l.TryAcquire(ctx, 1, 0)) }},
		"Allow":      {11, func() error { return ErrOf(l.Allow(ctx, 1)) }},
		"Keyed.Allow": {19, func() error {
			user++
			return ErrOf(keyed.For(users[user%len(users)]).Allow(ctx, 1))
		}},
	} {
		least := math.Inf(1) // other goroutines allocate as well, such as those of go-redis
		for range 300 {
			least = min(least, testing.AllocsPerRun(1, func() { NoError(t, call.f()) }))
		}
		if t.Logf("%s: %v allocations", name, least); least > call.most {
			t.Errorf("%s: %v allocations, want at most %v", name, least, call.most)
		}
	}
}
