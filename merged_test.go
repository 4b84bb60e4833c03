package rratelimiter_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// B4: the reply to a merged call is lost, as often as go-redis sends it again. It
// is charged once, and each caller gets the answer of the first time.
func TestAMergedCallIsChargedOnce(t *testing.T) {
	const rate = 30
	for seed := range uint64(4) {
		inBothModes(t, rate, nil, func(p *party) {
			random := rand.New(rand.NewPCG(seed, 0))
			permits := make([]int64, 2+random.IntN(20))
			for i := range permits {
				permits[i] = 1 + random.Int64N(9)
			}
			if seed == 0 {
				permits = []int64{5, 5, 5, 5, 5, 4} // all that there is
			}
			guests := p.all(permits...)
			lost := 1 + int(seed)%3
			p.proxy.SwallowReply(lost)
			p.open()
			taken := p.agree(rate, rate, []*guest{p.first})
			taken += p.agree(rate, rate-1, guests)
			if got := p.proxy.Swallowed(); got != int64(lost) {
				p.Fatalf("%d replies were lost, want %d", got, lost)
			}
			p.wantTaken(rate, taken)
		})
	}
}

// Each caller of a merged call gets its error, and nothing is kept.
func TestAnErrorOfAMergedCallReachesAll(t *testing.T) {
	once := []func(*redis.Options){func(o *redis.Options) { o.MaxRetries = 1 }}
	for name, tc := range map[string]struct {
		trouble func(p *party)
		is      func(err error) bool
	}{
		"the limiter is gone": {
			func(p *party) { p.want(p.look.Del(context.Background(), p.l.Name()).Err()) },
			func(err error) bool { return errors.Is(err, rratelimiter.ErrNotInitialized) },
		},
		"the network is down": {
			func(p *party) { p.proxy.Down(); p.proxy.Cut() },
			func(err error) bool { return err != nil && !errors.Is(err, context.Canceled) },
		},
		"all replies are lost": {
			func(p *party) { p.proxy.SwallowReply(2) },
			func(err error) bool { return err != nil && !errors.Is(err, context.Canceled) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBothModes(t, 30, once, func(p *party) {
				guests := p.all(3, 40, 5, 2)
				guests = append(guests, p.comes(2, time.Hour))
				tc.trouble(p)
				p.open()
				for i, g := range guests {
					if r, err := g.got(); r.Allowed || !tc.is(err) {
						t.Errorf("caller %d: %+v, %v", i, r, err)
					}
				}
				<-p.first.done
				p.proxy.Up()
				// what the first one took
				until(t, func() bool { return sum(p.l.records(p.l.permits())) <= 1 })
			})
		})
	}
}

// A request above the rate gets its error, whatever it was merged with. The others
// get their permits, also when the reply is lost.
func TestOneAboveTheRateInAMergedCall(t *testing.T) {
	for lost := range 2 {
		inBothModes(t, 30, nil, func(p *party) {
			guests := p.all(31, 10, 1<<40, 19, 1, 31)
			p.proxy.SwallowReply(lost)
			p.open()
			p.wantTaken(30, 1+p.agree(30, 29, guests))
		})
	}
}

// A caller that leaves during a merged call gets the error of its context at once.
// What the call was granted for it goes back.
func TestWhoLeavesAMergedCallGivesBack(t *testing.T) {
	for lost := range 2 {
		inBothModes(t, 30, nil, func(p *party) {
			guests := p.all(4, 5, 6, 7)
			merged := p.merges()
			p.proxy.SwallowReply(lost) // of the withdrawal, that is
			for _, g := range []*guest{guests[1], guests[3]} {
				g.leave()
				if r, err := g.got(); r.Allowed || !errors.Is(err, context.Canceled) {
					p.Fatalf("%+v, %v; want Canceled", r, err)
				}
			}
			merged()
			for _, g := range []*guest{p.first, guests[0], guests[2]} {
				if r, err := g.got(); !r.Allowed || err != nil {
					p.Fatalf("%+v, %v; want granted", r, err)
				}
			}
			p.untilOut(1 + 4 + 6)
			p.wantTaken(30, 11)
			p.l.takes(19)
			p.wantTaken(30, 30)
		})
	}
}

// What was granted for a caller that has left goes to those who wait, as far as it
// reaches. The rest goes back.
func TestWhatALeaverLeavesGoesToTheLine(t *testing.T) {
	inBothModes(t, 30, nil, func(p *party) {
		gone, waits, waitsToo := p.comes(29, time.Hour), p.comes(9, time.Hour), p.comes(8, time.Hour)
		merged := p.merges()
		gone.leave()
		<-gone.done
		merged()
		for _, g := range []*guest{waits, waitsToo} {
			if r, err := g.got(); !r.Allowed || err != nil {
				p.Fatalf("%+v, %v; want granted", r, err)
			}
		}
		p.untilOut(1 + 9 + 8)
		p.wantTaken(30, 18)
	})
}

// Permits beyond 2^32 are in several records, each of Java's form.
func TestAMergedCallBeyond32Bits(t *testing.T) {
	const rate = 1 << 36
	for lost := range 2 {
		inBothModes(t, rate, nil, func(p *party) {
			p.open()
			<-p.first.done
			p.l.gives(1)
			p.now += 10
			p.begins()
			p.now += 10 // another slot, whatever the resolution
			guests := p.all(1<<32, 3, 1<<33, 1<<32-1, rate+1, rate, 5)
			p.proxy.SwallowReply(lost)
			p.open()
			const granted = 1<<32 + 3 + 1<<33 + 1<<32 - 1 + 5
			if got := p.agree(rate, rate-1, guests); got != granted {
				p.Fatalf("%d granted, want %d", got, int64(granted))
			}
			p.wantTaken(rate, granted+1)
			records := p.l.records(p.l.permits())
			slices.Sort(records)
			want := []int64{1, granted - 4*math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32,
				math.MaxUint32}
			if !slices.Equal(records, want) {
				p.Fatalf("records %v, want %v", records, want)
			}
			for _, m := range p.look.ZRange(p.Context(), p.l.permits(), 0, -1).Val() {
				if len(m) != 21 || m[0] != 16 {
					p.Fatalf("record % x", m)
				}
			}
		})
	}
}

// One call asks for 2^40 permits and 256 different requests at most. The others go
// with the next one.
func TestWhatOneCallAsksFor(t *testing.T) {
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
			inBothModes(t, rate, nil, func(p *party) {
				guests := p.all(tc.permits...)
				before := p.scriptsRun()
				p.open()
				taken := 1 + p.agree(rate, rate-1, guests)
				if calls := p.scriptsRun() - before - 1; calls != tc.calls {
					t.Errorf("%d calls, want %d", calls, tc.calls)
				}
				p.wantTaken(rate, taken)
			})
		})
	}
}

// A server that has forgotten the scripts gets them again, and no caller notices.
func TestAMergedCallWhenTheScriptsAreForgotten(t *testing.T) {
	for lost := range 3 {
		inBothModes(t, 30, nil, func(p *party) {
			guests := p.all(4, 40, 5, 20, 19, 1)
			merged := p.merges()
			p.want(p.look.ScriptFlush(context.Background()).Err())
			p.proxy.SwallowReplyTo(lost, func(args []string) bool {
				return args[0] == "eval" || isScript(args)
			})
			merged()
			p.wantTaken(30, 1+p.agree(30, 29, guests))
		})
	}
}
