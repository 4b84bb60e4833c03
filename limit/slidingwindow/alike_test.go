package slidingwindow_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/slidingwindow"
)

// Memory and Redis decide alike also where records are joined, where there are many parts,
// and when the clock is set.
func TestAlikeWhenTheClockIsSet(t *testing.T) {
	for seed := range uint64(redistest.Rounds(t, 20)) {
		random := rand.New(rand.NewPCG(seed, 4))
		rate := []int64{3, 40, 5000, 1 << 40}[random.IntN(4)]
		interval := []time.Duration{7 * time.Millisecond, time.Second, 90 * time.Hour}[random.IntN(3)]
		var a formtest.Algorithm = slidingwindow.Log{Rate: rate, Interval: interval}
		if seed%2 == 0 {
			parts := []int{1, 3, 10, 100}[random.IntN(4)]
			a = slidingwindow.Counter{Rate: rate, Interval: interval, Parts: parts}
		}
		now := time.Unix(1_999_999_999, 0) // the Lua of miniredis cannot read the time 2e+15
		m := redistest.Mini(t)
		memory := redistest.Must(a.InMemory(limit.WithClock(func() time.Time { return now })))(t)
		shared := redistest.Must(a.OnRedis(redistest.MiniClient(t, m), "name"))(t)
		for call := range 150 {
			now = now.Add(pause(random, interval))
			m.SetTime(now)
			n := 1 + random.Int64N(rate)/int64(1+random.IntN(30))
			if random.IntN(6) == 0 {
				redistest.NoError(t, memory.Release(t.Context(), n))
				redistest.NoError(t, shared.Release(t.Context(), n))
			}
			want := redistest.Must(memory.Allow(t.Context(), n))(t)
			got, err := shared.Allow(t.Context(), n)
			got.Name = want.Name
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("seed %d, %+v, call %d at %v, of %d:\nin memory %+v\non Redis  %+v %v\n%s", seed,
					a, call, now.UnixMicro(), n, want, got, err, m.Dump())
			}
		}
	}
}

// pause returns how the clock goes on: mostly by a little, and now and then back.
func pause(random *rand.Rand, interval time.Duration) time.Duration {
	d := time.Duration(random.Int64N(int64(interval))).Truncate(time.Microsecond)
	switch random.IntN(12) {
	case 0:
		return -d
	case 1:
		return -20 * d
	case 2:
		return 3 * d
	case 3, 4:
		return d
	case 5, 6, 7:
		return d / 50
	case 8, 9:
		return (d / 5000).Truncate(time.Microsecond)
	}
	return 0
}
