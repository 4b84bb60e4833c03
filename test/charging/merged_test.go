package charging_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// Each caller of a merged call gets its error, and nothing is kept.
func TestAnErrorOfAMergedCallReachesAll(t *testing.T) {
	once := []func(*redis.Options){func(o *redis.Options) { o.MaxRetries = 1 }}
	for name, tc := range map[string]struct {
		trouble func(p *Batch)
		is      func(err error) bool
	}{
		"the limiter is gone": {
			func(p *Batch) { p.Want(p.Look.Del(context.Background(), p.Limiter.Name()).Err()) },
			func(err error) bool { return errors.Is(err, rratelimiter.ErrNotInitialized) },
		},
		"the network is down": {
			func(p *Batch) { p.Proxy.Down(); p.Proxy.Cut() },
			func(err error) bool { return err != nil && !errors.Is(err, context.Canceled) },
		},
		"all replies are lost": {
			func(p *Batch) { p.Proxy.SwallowReply(2) },
			func(err error) bool { return err != nil && !errors.Is(err, context.Canceled) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			InBothModes(t, 30, once, func(p *Batch) {
				guests := p.JoinAll(3, 40, 5, 2)
				guests = append(guests, p.Joins(2, time.Hour))
				tc.trouble(p)
				p.Open()
				for i, g := range guests {
					if r, err := g.Got(); r.Allowed || !tc.is(err) {
						t.Errorf("caller %d: %+v, %v", i, r, err)
					}
				}
				<-p.First.Done
				p.Proxy.Up()
				// what the first one took
				Until(t, func() bool { return Sum(p.Records(p.PermitsKey())) <= 1 })
			})
		})
	}
}

// A request above the rate gets its error, whatever it was merged with. All others get their permits, and are
// charged once when replies are lost (B4).
func TestOneAboveTheRateFailsAloneInAMergedCall(t *testing.T) {
	for _, lost := range []int{0, 1, 3} {
		InBothModes(t, 30, nil, func(p *Batch) {
			guests := p.JoinAll(31, 10, 1<<40, 19, 1, 31)
			p.Proxy.SwallowReply(lost)
			p.Open()
			p.WantTaken(30, 1+p.Agree(30, 29, guests))
			if n := p.Proxy.Swallowed(); n != int64(lost) {
				p.Errorf("%d replies were lost, want %d", n, lost)
			}
		})
	}
}

// A caller that leaves during a merged call gets the error of its context at once.
// Its part of the grant goes back.
func TestALeaverOfAMergedCallGivesBack(t *testing.T) {
	for lost := range 2 {
		InBothModes(t, 30, nil, func(p *Batch) {
			guests := p.JoinAll(4, 5, 6, 7)
			merged := p.Merges()
			p.Proxy.SwallowReply(lost) // of the withdrawal, that is
			for _, g := range []*Caller{guests[1], guests[3]} {
				g.Leave()
				if r, err := g.Got(); r.Allowed || !errors.Is(err, context.Canceled) {
					p.Fatalf("%+v, %v; want Canceled", r, err)
				}
			}
			merged()
			for _, g := range []*Caller{p.First, guests[0], guests[2]} {
				if r, err := g.Got(); !r.Allowed || err != nil {
					p.Fatalf("%+v, %v; want granted", r, err)
				}
			}
			p.UntilOut(1 + 4 + 6)
			p.WantTaken(30, 11)
			p.Takes(19)
			p.WantTaken(30, 30)
		})
	}
}

// Permits granted for a caller that has left go to waiting callers; those that are left
// over go back.
func TestSharesOfLeaversGoToTheLine(t *testing.T) {
	InBothModes(t, 30, nil, func(p *Batch) {
		gone, waits, waitsToo := p.Joins(29, time.Hour), p.Joins(9, time.Hour), p.Joins(8, time.Hour)
		merged := p.Merges()
		gone.Leave()
		<-gone.Done
		merged()
		for _, g := range []*Caller{waits, waitsToo} {
			if r, err := g.Got(); !r.Allowed || err != nil {
				p.Fatalf("%+v, %v; want granted", r, err)
			}
		}
		p.UntilOut(1 + 9 + 8)
		p.WantTaken(30, 18)
	})
}

// Permits beyond 2^32 are in several records, each of Java's form.
func TestAMergedCallBeyond32BitsWritesJavasRecords(t *testing.T) {
	const rate = 1 << 36
	for lost := range 2 {
		InBothModes(t, rate, nil, func(p *Batch) {
			p.Open()
			<-p.First.Done
			p.Gives(1)
			p.Now += 10
			p.Begins()
			p.Now += 10 // another slot, whatever the resolution
			guests := p.JoinAll(1<<32, 3, 1<<33, 1<<32-1, rate+1, rate, 5)
			p.Proxy.SwallowReply(lost)
			p.Open()
			const granted = 1<<32 + 3 + 1<<33 + 1<<32 - 1 + 5
			if got := p.Agree(rate, rate-1, guests); got != granted {
				p.Fatalf("%d granted, want %d", got, int64(granted))
			}
			p.WantTaken(rate, granted+1)
			records := p.Records(p.PermitsKey())
			slices.Sort(records)
			want := []int64{1, granted - 4*math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32,
				math.MaxUint32}
			if !slices.Equal(records, want) {
				p.Fatalf("records %v, want %v", records, want)
			}
			for _, m := range p.Look.ZRange(p.Context(), p.PermitsKey(), 0, -1).Val() {
				if len(m) != 21 || m[0] != 16 {
					p.Fatalf("record % x", m)
				}
			}
		})
	}
}

// One call asks for 2^40 permits and 256 different requests at most. All other requests
// go with the next call.
func TestOneCallAsksForABoundedNumber(t *testing.T) {
	const rate = 1 << 50
	mixed := make([]int64, 300)
	for i := range mixed {
		mixed[i] = int64(1 + i%2)
	}
	for name, tc := range map[string]struct {
		permits []int64
		calls   int64
	}{
		"2^40 in all":            {[]int64{1 << 39, 1 << 39}, 1},
		"one more":               {[]int64{1 << 39, 1 << 39, 1}, 2},
		"300 different requests": {mixed, 2},
		"300 of the same":        {slices.Repeat([]int64{7}, 300), 1},
		"2^40 three times":       {[]int64{1 << 40, 1 << 40, 1 << 40}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			InBothModes(t, rate, nil, func(p *Batch) {
				guests := p.JoinAll(tc.permits...)
				before := p.ScriptsRun()
				p.Open()
				taken := 1 + p.Agree(rate, rate-1, guests)
				if calls := p.ScriptsRun() - before - 1; calls != tc.calls {
					t.Errorf("%d calls, want %d", calls, tc.calls)
				}
				p.WantTaken(rate, taken)
			})
		})
	}
}
