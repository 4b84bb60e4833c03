package rratelimiter

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A Client knows 10,000 limiters for the time when Redis is away, and forgets those that
// nobody uses.
func TestLimitersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(redistest.MiniClient(t, redistest.Mini(t)))
		defer c.Close()
		take := func(l *local) {
			call := guardedCall{[]*member{{keys: l.keys}}, []int64{1}, policy{}, nil}
			_, err := call.takeShares([]*local{l}, true)
			if err != nil {
				t.Error(err)
			}
		}
		knows := func(i int) bool {
			l := c.guard.of(c.keysOf("name", fmt.Sprint(i)), time.Now(), true)
			if l != nil {
				l.rate, l.interval, l.share = 10, time.Second, 1
				take(l)
				_, records := l.toBook()
				l.booked(records)
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
		if !knows(maxLocals) || len(c.guard.locals) != 2 {
			t.Errorf("%d limiters, want those that were used within a minute", len(c.guard.locals))
		}
		take(c.guard.locals["0"])
		c.guard.locals["0"].interval = time.Hour
		time.Sleep(10 * time.Minute)
		if !knows(1) || len(c.guard.locals) != 2 {
			t.Errorf("%d limiters, want also the one with permits to book", len(c.guard.locals))
		}
	})
}
