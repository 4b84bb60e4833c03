package rls

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

const short = 15 * time.Millisecond

// The default fallback keeps the limit while Redis hangs: what Redis granted before counts, and what the
// service granted meanwhile is booked afterwards.
func TestTheLocalFallbackKeepsTheLimit(t *testing.T) {
	server := redistest.Start(t)
	var failed, back atomic.Bool // what the hook has heard of
	o := Options{Budget: 250 * time.Millisecond, OnHealth: func(h rratelimiter.Health) {
		failed.Store(failed.Load() || h.Degraded)
		back.Store(failed.Load() && !h.Degraded)
	}}
	s := serve(t, server.Client(t), o, hourly(6, ""))
	asks(t, s, "a=x", "OK: OK 5")
	thaw := server.Freeze(t)
	asks(t, s, "a=x", "OK: OK 4", "a=x*3", "OK: OK 1", "a=x", "OK: OK 0", "a=x", "OVER: OVER 0")
	if h := s.Health(); h.Decided == 0 || h.Unbooked == 0 {
		t.Errorf("health is %+v", h)
	}
	redistest.Eventually(t, "the hook hears that Redis fails", func() bool {
		asks(t, s, "a=x", "OVER: OVER 0")
		return failed.Load()
	})
	thaw()
	redistest.Eventually(t, "the hook hears that Redis is back", back.Load)
	redistest.Eventually(t, "all permits are booked", func() bool { return s.Health().Unbooked == 0 })
	asks(t, s, "a=x*0", "OVER: OVER 0")
}

// While Redis hangs, limits of all_or_none are refused together, as otherwise. A key may be long. Of many
// failures few are reported.
func TestTheLocalFallbackOfManyRequests(t *testing.T) {
	server := redistest.Start(t)
	start, reports := time.Now(), 0
	o := Options{Budget: short, OnFailure: func(error) { reports++ }}
	s := serve(t, server.Client(t), o, hourly(2, ", algorithm: token_bucket"))
	all := serve(t, server.Client(t), o, together)
	server.Freeze(t)
	asks(t, all, "2 one=x; two=x", "OVER: OVER 0, OK 0")
	longest := "a=" + strings.Repeat("y", maxKey-len("a="))
	asks(t, s, "a=x", "OK: OK 1", "a=x", "OK: OK 0", "a=x", "OVER: OVER 0", longest, "OK: OK 1")
	if most := 2 + 2*int(time.Since(start)/betweenFailures); reports < 1 || reports > most {
		t.Errorf("%d failures are reported, want 1 to %d", reports, most)
	}
}
