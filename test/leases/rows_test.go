package leases_test

import (
	"cmp"
	"context"
	_ "embed" // testdata
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

//go:embed testdata/leases.txt
var leases string

// Each row of testdata/leases.txt comes out as it says.
func TestLeases(t *testing.T) {
	for name, row := range Rows(leases) {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, 1, func(b *bubble) {
				p := &play{bubble: b, plain: NewClient(b.T, b.look).RateLimiter(b.name)}
				for step := range Steps(b.T, row) {
					p.does(strings.Fields(step))
				}
			})
		})
	}
}

// A play is one row under way.
type play struct {
	*bubble
	*process
	plain *rratelimiter.RateLimiter
	rate  int64
	taken int64         // by the process, and not given back
	most  time.Duration // that a record was ahead since the last look
}

// playSteps are the words of a row; testdata/leases.txt says what they mean.
var playSteps = map[string]func(p *play, args []string){
	"rate":   (*play).sets,
	"leased": func(p *play, _ []string) { p.taken += p.leased(p.process); p.trips.Store(0) },
	"no":     func(p *play, args []string) { p.takes(p.whole(args[0]), "no") },
	"take":   func(p *play, args []string) { p.repeats("take", args) },
	"try":    func(p *play, args []string) { p.repeats("try", args) },
	"ask":    func(p *play, args []string) { p.repeats("ask", args) },
	"rest":   func(p *play, args []string) { p.rest(p.RateLimiter, args) },
	"group":  func(p *play, args []string) { p.rest(p.client.All(p.RateLimiter), args[1:]) },
	"off": func(p *play, _ []string) {
		p.RateLimiter = p.RateLimiter.WithLease(rratelimiter.LeaseOptions{})
	},
	"reserve": func(p *play, args []string) {
		r, err := p.Reserve(p.Context(), p.whole(args[0]), 0)
		if NoError(p.T, err); r != nil {
			p.taken += p.whole(args[0])
		}
	},
	"charge": func(p *play, args []string) {
		NoError(p.T, ErrOf(p.Charge(p.Context(), p.whole(args[0]))))
		p.taken += p.whole(args[0])
	},
	"give": func(p *play, args []string) {
		n := p.taken
		if args[0] != "all" {
			n = p.whole(args[0])
		}
		NoError(p.T, p.Release(p.Context(), n))
		p.taken -= n
	},
	"plain": func(p *play, args []string) {
		switch args[0] {
		case "give":
			NoError(p.T, p.plain.Release(p.Context(), p.whole(args[1])))
		case "delete":
			NoError(p.T, Yes(p.plain.Delete(p.Context())))
		default:
			NoError(p.T, Yes(p.plain.TryAcquire(p.Context(), p.value(), 0)))
		}
	},
	"drain": func(p *play, args []string) {
		p.is("permits", int64(TakeAll(p.T, p.plain)+TakeAll(p.T, p.RateLimiter)), args[0])
	},
	"calls": func(p *play, args []string) { p.is("calls", p.trips.Load(), args[0]) },
	"out":   func(p *play, args []string) { p.is("out", p.rate-p.value(), args[0]) },
	"exact": func(p *play, _ []string) { p.is("out", p.rate-p.value(), strconv.FormatInt(p.taken, 10)) },
	"left": func(p *play, args []string) {
		p.is("left", redistest.Must(p.plain.AvailablePermits(p.Context()))(p.T), args[0])
	},
	"slow":  func(p *play, args []string) { p.late.Store(int64(p.span(args[0]))) },
	"dead":  func(p *play, _ []string) { p.dead.Store(true) },
	"close": func(p *play, _ []string) { NoError(p.T, p.client.Close()) },
	"ahead": func(p *play, args []string) {
		p.looks()
		if p.most > p.span(args[0][1:]) {
			p.Errorf("a record was %v ahead", p.most)
		}
		p.most = math.MinInt64
	},
}

func (p *play) does(words []string) {
	p.Helper()
	if ms, passes := strings.CutPrefix(words[0], "+"); passes {
		time.Sleep(time.Duration(p.whole(ms)) * time.Millisecond)
	} else {
		playSteps[words[0]](p, words[1:])
	}
	synctest.Wait()
}

// sets sets a rate, and starts the process if there is none.
func (p *play) sets(args []string) {
	p.Helper()
	p.rate = p.whole(args[0])
	NoError(p.T, p.plain.SetRate(p.Context(), Overall, p.rate, p.span(args[1])))
	if p.process == nil {
		opts := map[string]rratelimiter.Option{"clock": rratelimiter.WithClock(time.Now),
			"cache": rratelimiter.WithRefusalCache(time.Minute)}
		option := append(args, "3.21.0")[2]
		p.starts(redistest.MiniClient(p.T, p.mini), cmp.Or(opts[option], rratelimiter.WithRedisson(option)))
		p.process = p.processes[0]
	}
}

// repeats takes permits: 1 [x50] [every 5ms].
func (p *play) repeats(how string, args []string) {
	p.Helper()
	times, pause := int64(1), time.Duration(0)
	if len(args) > 1 {
		times = p.whole(args[1][1:])
	}
	if len(args) > 2 {
		pause = p.span(args[3])
	}
	for range times {
		p.takes(p.whole(args[0]), how)
		time.Sleep(pause)
	}
}

func (p *play) takes(permits int64, how string) {
	p.Helper()
	before := p.trips.Load()
	ok := p.take(p.process, permits)
	if ok {
		p.taken += permits
	}
	if how != "try" && ok != (how != "no") || how == "ask" && p.trips.Load() == before {
		p.Fatalf("%d permits: %v, by %d requests", permits, ok, p.trips.Load()-before)
	}
	p.looks()
}

// looks notes how far ahead records are.
func (p *play) looks() {
	for _, r := range p.records() {
		p.most = max(p.most, time.Until(r.at))
	}
}

// rest takes what was not taken yet.
func (p *play) rest(l interface {
	TryAcquire(ctx context.Context, permits int64, timeout time.Duration) (bool, error)
}, args []string) {
	p.Helper()
	timeout := time.Duration(0)
	if len(args) > 0 {
		timeout = p.span(args[1])
	}
	if p.value() == p.rate-p.taken {
		p.Fatal("the lease has nothing left")
	}
	NoError(p.T, Yes(l.TryAcquire(p.Context(), p.rate-p.taken, timeout)))
	p.taken = p.rate
}

// is expects a number, or one below that of <30.
func (p *play) is(what string, got int64, word string) {
	p.Helper()
	most, below := strings.CutPrefix(word, "<")
	if want := p.whole(most); got > want || got == want && below || got < want && !below {
		p.Errorf("%s: %d, want %s", what, got, word)
	}
}

func (p *play) whole(word string) int64 {
	p.Helper()
	return redistest.Must(strconv.ParseInt(word, 10, 64))(p.T)
}

func (p *play) span(word string) time.Duration {
	p.Helper()
	return redistest.Must(time.ParseDuration(word))(p.T)
}
