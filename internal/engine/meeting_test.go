package engine

import (
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// Callers of different limiters never meet, whatever the names of these are.
func TestOnlyCallersOfTheSameLimitersMeet(t *testing.T) {
	e := newEngine(t, redistest.MiniClient(t, redistest.Mini(t)))
	given := NewGivenRate(Rate{Type: wire.Overall, Permits: 5, Interval: time.Second}, false)
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
