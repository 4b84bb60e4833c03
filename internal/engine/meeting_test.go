package engine

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/request"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// Callers of different limiters never meet, whatever the names of these are.
func TestOnlyCallersOfTheSameLimitersMeet(t *testing.T) {
	e := newEngine(t, redistest.MiniClient(t, redistest.Mini(t)))
	given := request.NewGivenRate(Rate{Type: wire.Overall, Permits: 5, Interval: time.Second}, false)
	l := func(name string) *Limiter { return e.limiter(name) }
	seen := map[meetingKey]int{}
	for i, g := range []*Group{
		e.Group(l("a")),
		e.Group(e.Limiter("name", "a", given)),
		e.Group(l("a\x00" + given.Text() + "\x00")),
		e.Group(l("a"), l("b\x00\x00c")),
		e.Group(l("a\x00\x00b"), l("c")),
		e.Group(l("a"), l("b")),
		e.Group(l("b"), l("a")),
		e.Group(l("a"), e.Limiter("name", "b", given)),
		e.Group(e.Limiter("name", "a", given), l("b")),
		e.Group(l("1 a1 b")),
		e.Group(l("1 a1 "), l("b")),
	} {
		if other, met := seen[g.key]; met {
			t.Errorf("Groups %d and %d meet", other, i)
		}
		seen[g.key] = i
	}
}

// Redis is silent until go-redis gives up. All callers of a Group get that error then, also those for which
// no call had room.
func TestCallersOfAGroupGetTheErrorOfACallThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		rdb.AddHook(redistest.Hook(func(context.Context, ...redis.Cmder) error {
			time.Sleep(time.Second)
			return os.ErrDeadlineExceeded
		}))
		e := newEngine(t, rdb)
		g := e.Group(e.limiter("one"), e.limiter("two"))
		began, took := time.Now(), make([]time.Duration, groupCallsAtOnce*maxMeeting+1000)
		var all sync.WaitGroup
		for i := range took {
			all.Go(func() {
				_, err := g.Acquire(context.Background(), []int64{1, 1}, Want{Permits: 1})
				if took[i] = time.Since(began); err == nil {
					t.Error("no error")
				}
			})
		}
		all.Wait()
		first, last := slices.Min(took), slices.Max(took)
		if last > first+first/2 {
			t.Errorf("the first error came after %v, the last one after %v", first, last)
		}
	})
}
