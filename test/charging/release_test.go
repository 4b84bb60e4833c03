package charging_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/grants"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// Processes take permits at random, and give back of those that still count, in each format of
// records: no interval has more than the rate, where what a process gives back counts against
// its own grants only.
func TestReleasesOfSeveralProcessesKeepTheRate(t *testing.T) {
	const rate, interval = 20, 1000 * time.Millisecond
	for what, option := range map[string]rratelimiter.Option{
		"BC0I/16":    rratelimiter.WithRedisson(BC0I16),
		"BC0I/8":     rratelimiter.WithRedisson(BC0I8),
		"LC0I":       rratelimiter.WithRedisson(LC0I),
		"fI":         rratelimiter.WithRedisson(FI),
		"resolution": rratelimiter.WithResolution(50 * time.Millisecond),
	} {
		OnBoth(t, func(b *Bench) {
			random := rand.New(rand.NewPCG(1, 2))
			name := b.NewLimiter(Overall, rate, interval).Name()
			var processes [4]*Limiter
			var books [4]Ledger // what each process was granted and has not given back
			for i := range processes {
				processes[i] = b.Wrap(b.NewClient(option).RateLimiter(name))
			}
			var log grants.Log
			for range redistest.Rounds(b, 1500) {
				b.Now += random.Int64N(60)
				i := random.IntN(len(processes))
				now := time.UnixMilli(b.Now)
				e := grants.Entry{Process: fmt.Sprint(i), Start: now, End: now}
				if holds := books[i].Out(b.Now, interval.Milliseconds()); holds > 0 && random.IntN(3) == 0 {
					e.Permits = -1 - random.Int64N(holds)
					processes[i].Gives(-e.Permits)
					books[i].Release(b.Now, interval.Milliseconds(), -e.Permits)
				} else if n := 1 + random.Int64N(8); Yes(processes[i].TryAcquire(b.Context(), n, 0)) == nil {
					e.Permits = n
					books[i].Grant(b.Now, n)
				}
				log.Add(e)
			}
			worst := (grants.Limit{Rate: rate, Interval: interval}).Worst(&log, 0)
			if worst.Permits() > rate {
				b.Errorf("%s: %v, the limit is %d", what, worst, rate)
			}
			processes[0].Keeps(rate, processes[0].ValueKey(), processes[0].PermitsKey())
		})
	}
}
