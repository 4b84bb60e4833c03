package reservations_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A settlement looks at its own records, however many others there are: next to a million it takes less than
// 100 us in Redis. So does a charge, and a settlement that comes again. On a machine that is busy it may take
// as much longer as an acquire of a small limiter does, which takes a quarter of that at most.
func TestSettlingNextToAMillionRecordsIsFast(t *testing.T) {
	redistest.Thorough(t)
	const records, rate = 1_000_000, 2_000_000
	s := redistest.Start(t)
	b := NewBench(t, s.Client(t), s.Admin())
	l := b.NewLimiter(Overall, rate, time.Hour)
	l.Fill(b.Now-100_000, 10, records, 1)
	b.SetKey(l.ValueKey(), rate-records)
	elsewhere := b.NewClient()
	b.Want(b.Look.ConfigSet(t.Context(), "slowlog-log-slower-than", "0").Err())
	left, small := int64(rate-records), b.NewLimiter(Overall, rate, time.Hour)
	for _, c := range []struct {
		name string
		used int64 // of 3 permits, -1 for a charge of 2
	}{{"less", 1}, {"nothing", 0}, {"more", 5}, {"charge", -1}} {
		var first, again, usual []time.Duration
		for range 50 {
			usual = append(usual, inRedis(b, func() error {
				return Yes(small.TryAcquire(t.Context(), 1, 0))
			}))
			if c.used < 0 {
				first = append(first, inRedis(b, func() error { return ErrOf(l.Charge(t.Context(), 2)) }))
				left -= 2
				continue
			}
			r := reserve(l, 3)
			other, err := elsewhere.Reservation(r.ID())
			b.Want(err)
			first = append(first, inRedis(b, func() error { return r.Settle(t.Context(), c.used) }))
			again = append(again, inRedis(b, func() error { return other.Settle(t.Context(), c.used) }))
			left -= c.used
		}
		slices.Sort(usual)
		bound := max(100*time.Microsecond, 4*usual[len(usual)/4])
		for _, took := range [][]time.Duration{first, again} {
			if slices.Sort(took); len(took) > 0 {
				t.Logf("%s: %v in the median, %v at most", c.name, took[len(took)/2], took[len(took)-1])
				if typical := took[len(took)/4]; typical > bound {
					t.Errorf("%s: three of four take more than %v in Redis, want %v", c.name, typical, bound)
				}
			}
		}
	}
	l.HasValue(fmt.Sprint(left))
}

// inRedis returns how long the script that a call runs takes in Redis.
func inRedis(b *Bench, call func() error) time.Duration {
	b.Helper()
	b.Want(b.Look.SlowLogReset(b.Context()).Err())
	b.Want(call())
	for _, entry := range b.Look.SlowLogGet(b.Context(), -1).Val() {
		if strings.EqualFold(entry.Args[0], "evalsha") {
			return entry.Duration
		}
	}
	b.Fatal("no script has run")
	return 0
}
