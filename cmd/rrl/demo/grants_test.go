package demo

import (
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// got is a grant that was sent and seen at times in ms.
func got(sent, seen int, permits int64) grant {
	at := func(n int) time.Time { return time.UnixMilli(1e12).Add(time.Duration(n) * ms) }
	return grant{at(sent), at(seen), permits}
}

func TestMost(t *testing.T) {
	for _, c := range []struct {
		name   string
		grants []grant
		want   int64
	}{
		{"nothing", nil, 0},
		{"one", []grant{got(0, 1, 3)}, 3},
		{"within a second", []grant{got(0, 0, 3), got(500, 500, 2), got(900, 900, 1)}, 6},
		{"an interval apart", []grant{got(0, 0, 5), got(1000, 1000, 5)}, 5},
		{"as near as rounding lets them seem", []grant{got(0, 0, 5), got(998, 998, 5)}, 5},
		{"too near", []grant{got(0, 0, 5), got(997, 997, 1)}, 6},
		{"in the last of several windows", []grant{got(0, 0, 1), got(1500, 1500, 3), got(1600, 1600, 1),
			got(2400, 2400, 2)}, 6},
		{"the first seen late", []grant{got(0, 400, 5), got(1000, 1001, 5)}, 5},
		{"the second seen late", []grant{got(0, 0, 5), got(900, 1100, 5)}, 5},
		{"seen in another order than sent", []grant{got(400, 410, 1), got(0, 500, 5)}, 6},
		{"given back", []grant{got(0, 0, 1), got(100, 100, 4), got(200, 200, -3), got(300, 300, 3)}, 5},
		{"given back from several", []grant{got(0, 0, 3), got(100, 100, 1), got(200, 200, -2),
			got(300, 300, 1)}, 3},
		{"more given back than taken", []grant{got(0, 0, 2), got(100, 100, -9), got(200, 200, 5)}, 5},
	} {
		var g grants
		for _, n := range c.grants {
			g.add(n)
		}
		if most := g.most(time.Second); most != c.want {
			t.Errorf("%s: %d, want %d", c.name, most, c.want)
		}
	}
}

// The demo fails if the limiter has given too much.
func TestSumUp(t *testing.T) {
	log := &timeline{page: newPage(t.Output()), got: map[string]int64{"web": 5}}
	log.grants.add(got(0, 0, rate))
	redistest.NoError(t, log.sumUp(scene()))
	log.grants.add(got(500, 500, 1))
	if err := log.sumUp(scene()); err == nil {
		t.Error("6 permits in a second pass")
	}
}
