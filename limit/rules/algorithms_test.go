package rules_test

import (
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit/rules"
)

// Each algorithm is there, in memory and on Redis, with the numbers of the file.
func TestAlgorithms(t *testing.T) {
	s := newStore(t, redistest.Start(t).Client(t))
	for _, test := range []struct {
		limit    string
		most     int64
		interval time.Duration
	}{
		{"rate: 3/1h", 3, time.Hour},
		{"algorithm: rratelimiter, rate: 3/1h", 3, time.Hour},
		{"algorithm: fixed-window, rate: 3/1h", 3, time.Hour},
		{"algorithm: sliding-log, rate: 3/1h", 3, time.Hour},
		{"algorithm: sliding-counter, rate: 3/1h", 3, time.Hour},
		{"algorithm: sliding-counter, rate: 3/1h, parts: 4", 3, time.Hour},
		{"algorithm: token-bucket, rate: 3/1h", 3, time.Hour},
		{"algorithm: token-bucket, rate: 3/1h, burst: 5", 5, 100 * time.Minute},
		{"algorithm: token-bucket, rate: 4/1h, burst: 2", 2, 30 * time.Minute},
		{"algorithm: leaky-bucket, rate: 3/1h", 3, time.Hour},
		{"algorithm: leaky-bucket, rate: 3/1h, burst: 5", 5, 100 * time.Minute},
	} {
		stored := newStore(t, s.rdb)
		for where, r := range map[string]*rules.Rules{
			"memory": inMemory(t, limited(test.limit)), "Redis": stored.rules(t, limited(test.limit)),
		} {
			g := allow(t, r, get("/"), 1)
			if g.Limit != test.most || g.Interval != test.interval || g.Remaining != test.most-1 || g.Running() {
				t.Errorf("%s in %s: %+v, want %d in %v", test.limit, where, g.Result, test.most, test.interval)
			}
			wantAllowed(t, r, get("/"), int(test.most)-1)
		}
	}
}
