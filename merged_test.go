package rratelimiter_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// A party is a crowd before a real server whose requests go out together: the
// call of the first caller is held on its way, and whoever comes meanwhile is
// asked for with the next one.
type party struct {
	*line
	l     *limiter
	first *guest
	open  func() // lets the call of the first one go
}

// A guest is one caller of a party.
type guest struct {
	permits int64
	leave   context.CancelFunc
	came    chan struct{}
	done    chan struct{}
	result  rratelimiter.Result
	err     error
}

// invite holds the call of a first caller, who wants one permit.
func (n *line) invite(opts ...rratelimiter.Option) *party {
	n.Helper()
	p := &party{line: n, l: n.with(opts...)}
	p.l.takes(1) // the scripts are known to the server from here on
	p.l.gives(1)
	held := n.proxy.Held()
	p.open = n.proxy.HoldNext(1, isScript)
	p.first = p.comes(1, 0)
	until(n.T, func() bool { return n.proxy.Held() == held+1 })
	return p
}

// with is the limiter of the line by another Client.
func (n *line) with(opts ...rratelimiter.Option) *limiter {
	return &limiter{n.newClient(opts...).RateLimiter(n.l.Name()), n.bench}
}

// An arrival is a context that tells when somebody waits for its end: then the
// caller stands where it waits. Before, it is asked once whether it can end.
type arrival struct {
	context.Context
	asked atomic.Int32
	came  chan struct{}
}

func (a *arrival) Done() <-chan struct{} {
	if a.asked.Add(1) == 2 {
		close(a.came)
	}
	return a.Context.Done()
}

// comes starts a caller and returns when it has its place. Without a timeout it
// asks for the numbers as well.
func (p *party) comes(permits int64, timeout time.Duration) *guest {
	ctx, leave := context.WithCancel(context.Background())
	p.Cleanup(leave)
	g := &guest{permits: permits, leave: leave, came: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(g.done)
		a := &arrival{Context: ctx, came: g.came}
		if timeout > 0 {
			g.result.Allowed, g.err = p.l.TryAcquire(a, permits, timeout)
		} else {
			g.result, g.err = p.l.Allow(a, permits)
		}
	}()
	select {
	case <-g.came:
	case <-g.done:
	}
	return g
}

// all starts callers without a timeout, one behind the other.
func (p *party) all(permits ...int64) (guests []*guest) {
	for _, n := range permits {
		guests = append(guests, p.comes(n, 0))
	}
	return guests
}

// got is what a caller was told.
func (g *guest) got() (rratelimiter.Result, error) {
	<-g.done
	return g.result, g.err
}

// agree expects the callers to get the answers that they get one after another,
// with so many permits before them, and returns the permits granted.
func (p *party) agree(rate, left int64, guests []*guest) (granted int64) {
	p.Helper()
	for i, g := range guests {
		r, err := g.got()
		want := "no"
		switch {
		case g.permits > rate:
			want = "never"
		case g.permits <= left:
			want, left, granted = "yes", left-g.permits, granted+g.permits
		}
		got := map[bool]string{true: "yes", false: "no"}[r.Allowed]
		if errors.Is(err, rratelimiter.ErrPermitsExceedRate) {
			got, err = "never", nil
		}
		if got != want || err != nil || want != "never" && (r.Limit != rate || r.Remaining != left) {
			p.Fatalf("caller %d wants %d: %s, %+v, %v; want %s, %d left", i, g.permits, got, r, err, want, left)
		}
	}
	return granted
}

// inBothModes runs a spec with records of each call's own, and with those that
// have a resolution.
func inBothModes(t *testing.T, rate int64, mods []func(*redis.Options), spec func(p *party)) {
	t.Helper()
	for name, opts := range map[string][]rratelimiter.Option{
		"own records": nil, "resolution": {rratelimiter.WithResolution(10 * time.Millisecond)},
	} {
		t.Run(name, func(t *testing.T) { spec(newLine(t, rate, time.Hour, mods...).invite(opts...)) })
	}
}

func (p *party) wantTaken(rate, permits int64) {
	p.Helper()
	p.l.has(rate - permits)
	p.l.keeps(rate, p.l.value(), p.l.permits())
	if ttl := p.look.PTTL(context.Background(), p.l.Name()).Val(); ttl != -1 {
		p.Fatalf("the limiter lives for %v, want for ever", ttl)
	}
}

// B4: the reply to a merged call is lost, up to as often as it is sent again: it
// is charged once, and everybody gets the answer of the first time.
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

// A first copy of a merged call that arrives after the second one was answered
// charges nothing, or has it taken back: whether all of it was granted, a part,
// or nothing.
func TestALateFirstCopyOfAMergedCall(t *testing.T) {
	for name, tc := range map[string]struct {
		before  int64 // taken by somebody else, who gives them back before the late copy arrives
		permits []int64
		granted int64
	}{
		"all granted, and enough is left for all again":  {0, []int64{4, 4}, 8},
		"all granted, and enough is left for a part":     {0, []int64{4, 4, 4, 4}, 16},
		"a part granted, and enough comes back for all":  {22, []int64{4, 4}, 4},
		"nothing granted, and enough comes back for all": {29, []int64{4, 4}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			const rate = 30
			inBothModes(t, rate, nil, func(p *party) {
				java := fmt.Sprintf("\x10%016d%c\x00\x00\x00", 0, byte(tc.before))
				if tc.before > 0 {
					p.l.record(p.now-1, java)
					p.set(p.l.value(), rate-tc.before)
				}
				guests := p.all(tc.permits...)
				held := p.proxy.Held()
				late := p.proxy.HoldNext(1, isScript)
				p.open()
				until(p.T, func() bool { return p.proxy.Held() == held+1 })
				p.proxy.Cut()
				p.agree(rate, rate-1-tc.before, guests)
				if tc.before > 0 {
					p.want(p.look.ZRem(context.Background(), p.l.permits(), java).Err())
					p.want(p.look.IncrBy(context.Background(), p.l.value(), tc.before).Err())
				}
				before := p.scriptsRun()
				late()
				until(p.T, func() bool { return p.scriptsRun() > before })
				until(p.T, func() bool { return sum(p.l.records(p.l.permits())) == 1+tc.granted })
				p.wantTaken(rate, 1+tc.granted)
			})
		})
	}
}

func sum(all []int64) (n int64) {
	for _, one := range all {
		n += one
	}
	return n
}

// An error is everybody's, and nothing is kept.
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
				until(t, func() bool { return sum(p.l.records(p.l.permits())) <= 1 }) // what the first one took
			})
		})
	}
}

// A request above the rate is told so, whatever it was merged with, and the
// others get theirs; also when the reply is lost.
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

// Who leaves while the merged call is under way gets the error of ctx at once.
// What was granted to it goes back.
func TestWhoLeavesAMergedCallGivesBack(t *testing.T) {
	for lost := range 2 {
		inBothModes(t, 30, nil, func(p *party) {
			guests := p.all(4, 5, 6, 7)
			held := p.proxy.Held()
			merged := p.proxy.HoldNext(1, isScript)
			p.open()
			until(p.T, func() bool { return p.proxy.Held() == held+1 })
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
			until(p.T, func() bool { return sum(p.l.records(p.l.permits())) == 1+4+6 })
			p.wantTaken(30, 11)
			p.l.takes(19)
			p.wantTaken(30, 30)
		})
	}
}

// What was granted to one who has left goes to those who wait, as far as it
// reaches, and the rest back.
func TestWhatALeaverLeavesGoesToTheLine(t *testing.T) {
	inBothModes(t, 30, nil, func(p *party) {
		gone, waits, waitsToo := p.comes(29, time.Hour), p.comes(9, time.Hour), p.comes(8, time.Hour)
		held := p.proxy.Held()
		merged := p.proxy.HoldNext(1, isScript)
		p.open()
		until(p.T, func() bool { return p.proxy.Held() == held+1 })
		gone.leave()
		<-gone.done
		merged()
		for _, g := range []*guest{waits, waitsToo} {
			if r, err := g.got(); !r.Allowed || err != nil {
				p.Fatalf("%+v, %v; want granted", r, err)
			}
		}
		until(p.T, func() bool { return sum(p.l.records(p.l.permits())) == 1+9+8 })
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
			held := p.proxy.Held()
			p.open = p.proxy.HoldNext(1, isScript)
			p.first = p.comes(1, 0)
			until(p.T, func() bool { return p.proxy.Held() == held+1 })
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
			want := []int64{1, granted - 4*math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32}
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

// One call asks for no more than 2^40 permits and 256 different requests; what
// is more goes with the next one.
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

// A server that has forgotten the scripts is told them again, without anybody
// noticing.
func TestAMergedCallWhenTheScriptsAreForgotten(t *testing.T) {
	for lost := range 3 {
		inBothModes(t, 30, nil, func(p *party) {
			guests := p.all(4, 40, 5, 20, 19, 1)
			held := p.proxy.Held()
			merged := p.proxy.HoldNext(1, isScript)
			p.open()
			until(p.T, func() bool { return p.proxy.Held() == held+1 })
			p.want(p.look.ScriptFlush(context.Background()).Err())
			p.proxy.SwallowReplyTo(lost, func(args []string) bool { return args[0] == "eval" || isScript(args) })
			merged()
			p.wantTaken(30, 1+p.agree(30, 29, guests))
		})
	}
}
