package outage

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/engine"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A Guard knows 10,000 limiters for the time when Redis is down, and forgets unused ones.
func TestLimitersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		e := engine.New(engine.Config{
			ID: "id", MapName: func(name string) string { return name }, Runner: redisx.NewRunner(rdb),
			Layout: wire.Layouts[0].ForClient(), Plain: &wire.Layouts[0],
		})
		defer e.Close()
		guard := New(e, Settings{})
		take := func(l *localLimiter) {
			c := call{guard: guard, limiters: []*engine.Limiter{l.limiter}, permits: []int64{1}}
			if _, err := c.takeShares([]*localLimiter{l}, true); err != nil {
				t.Error(err)
			}
		}
		knows := func(i int) bool {
			l := guard.localLimiter(e.Limiter("name", fmt.Sprint(i), nil), time.Now(), true)
			if l != nil {
				l.rate, l.interval, l.share = 10, time.Second, 1
				take(l)
				_, records := l.nextBooking()
				l.noteBooked(records)
			}
			return l != nil
		}
		for i := range maxLocals {
			if !knows(i) {
				t.Fatalf("no room for limiter %d", i)
			}
		}
		if knows(maxLocals) {
			t.Errorf("there is room for more than %d", maxLocals)
		}
		time.Sleep(localIdle)
		if !knows(0) {
			t.Error("a limiter that is known is not found")
		}
		time.Sleep(localIdle - time.Second)
		if !knows(maxLocals) || len(guard.locals) != 2 {
			t.Errorf("%d limiters, want those that were used within a minute", len(guard.locals))
		}
		take(guard.locals["0"])
		guard.locals["0"].interval = time.Hour
		time.Sleep(10 * time.Minute)
		if !knows(1) || len(guard.locals) != 2 {
			t.Errorf("%d limiters, want also the one with permits to book", len(guard.locals))
		}
	})
}
