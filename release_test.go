package rratelimiter_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/grants"
)

// A release takes permits out of the records of its own Client, also where others have
// newer ones. So no interval holds more than the rate.
func TestAReleaseLeavesTheRecordsOfOthers(t *testing.T) {
	for _, format := range []string{
		bc0I16, bc0I8, lc0I, fI,
	} {
		t.Run(format, func(t *testing.T) {
			for _, resolution := range []time.Duration{0, 100 * time.Millisecond} {
				onBoth(t, func(b *bench) { b.lateRelease(format, resolution) })
			}
		})
	}
}

func (b *bench) lateRelease(format string, resolution time.Duration) {
	opts := []rratelimiter.Option{rratelimiter.WithRedisson(format)}
	if resolution > 0 {
		opts = append(opts, rratelimiter.WithResolution(resolution))
	}
	first := b.limiter(overall, 10_000, 3*time.Second)
	start := b.now
	by := func() *limiter { return first.by(b.newClient(opts...)) }
	a, other, third, fourth := by(), by(), by(), by()
	a.takes(3500)
	b.now = start + 2500
	other.takes(6500)
	a.gives(2300)
	third.takes(2300)
	b.now = start + 3100
	if ok, err := fourth.TryAcquire(b.Context(), 1201, 0); ok || err != nil {
		b.Fatalf("%v, %v; 8800 of 10000 permits count still, so 1201 must be refused", ok, err)
	}
	if resolution == 0 {
		fourth.takes(1200)
	}
	first.keeps(10_000, first.value(), first.permits())
}

// A Client that has no permits of its own left gives back the oldest of others, which come back
// first anyway: a worker may give back what another process has taken.
func TestAReleaseOfOthersPermits(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 20, 10*time.Second)
		other := &limiter{b.newClient().RateLimiter(l.Name()), b}
		l.takes(3)
		b.now += 1000
		l.takes(4)
		b.now += 1000
		other.takes(2)
		b.now += 1000
		l.gives(5) // its own, the newest first
		l.holdsRecords(2, 2)
		other.gives(3) // its own 2, and 1 of the oldest
		l.holdsRecords(1)
		other.gives(9)
		l.has(20)
	})
}

// Own records lie behind more records of others than a call reads: then the oldest go, and the
// call ends.
func TestAReleaseBehindManyRecordsOfOthers(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 100_000, time.Minute)
		l.takes(5)
		b.now += 1000
		const records = 5000
		fill := make([]redis.Z, records)
		for i := range fill {
			fill[i] = redis.Z{Score: float64(b.now), Member: fmt.Sprintf("\x10%016d\x01\x00\x00\x00", i)}
		}
		b.want(b.look.ZAdd(b.Context(), l.permits(), fill...).Err())
		b.set(l.value(), 100_000-records-5)
		l.gives(7)
		l.has(100_000 - records + 2)
	})
}

// holdsRecords expects the permits of all records, the oldest first.
func (l *limiter) holdsRecords(want ...int64) {
	l.b.Helper()
	if got := l.records(l.permits()); fmt.Sprint(got) != fmt.Sprint(want) {
		l.b.Errorf("records of %v permits, want %v", got, want)
	}
}

// Processes take permits at random, and give back of those that still count, in each format of
// records: no interval has more than the rate, where what a process gives back counts against
// its own grants only.
func TestReleasesOfSeveralProcesses(t *testing.T) {
	const rate, interval = 20, 1000 * time.Millisecond
	for what, option := range map[string]rratelimiter.Option{
		"Bc0I/16":    rratelimiter.WithRedisson(bc0I16),
		"Bc0I/8":     rratelimiter.WithRedisson(bc0I8),
		"Lc0I":       rratelimiter.WithRedisson(lc0I),
		"fI":         rratelimiter.WithRedisson(fI),
		"resolution": rratelimiter.WithResolution(50 * time.Millisecond),
	} {
		onBoth(t, func(b *bench) {
			random := rand.New(rand.NewPCG(1, 2))
			name := b.limiter(overall, rate, interval).Name()
			var processes [4]*limiter
			var books [4]ledger // what each process was granted and has not given back
			for i := range processes {
				processes[i] = &limiter{b.newClient(option).RateLimiter(name), b}
			}
			var log grants.Log
			for range 1500 {
				b.now += random.Int64N(60)
				i := random.IntN(len(processes))
				now := time.UnixMilli(b.now)
				e := grants.Entry{Process: fmt.Sprint(i), Start: now, End: now}
				if holds := books[i].out(b.now, interval.Milliseconds()); holds > 0 && random.IntN(3) == 0 {
					e.Permits = -1 - random.Int64N(holds)
					processes[i].gives(-e.Permits)
					books[i].release(b.now, interval.Milliseconds(), -e.Permits)
				} else if n := 1 + random.Int64N(8); yes(processes[i].TryAcquire(b.Context(), n, 0)) == nil {
					e.Permits = n
					books[i].grants = append(books[i].grants, grant{b.now, n})
				}
				log.Add(e)
			}
			worst := (grants.Limit{Rate: rate, Interval: interval}).Worst(&log, 0)
			if worst.Permits() > rate {
				b.Errorf("%s: %v, the limit is %d", what, worst, rate)
			}
			processes[0].keeps(rate, processes[0].value(), processes[0].permits())
		})
	}
}
