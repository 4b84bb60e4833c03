package fallback_test

import (
	"context"
	_ "embed" // testdata
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// budget is the one that a Client has by default where it has a fallback.
const budget = 250 * time.Millisecond

//go:embed testdata/outages.txt
var outages string

// Each row of testdata/outages.txt comes out as it says.
func TestOutages(t *testing.T) {
	for name, row := range Rows(outages) {
		t.Run(name, func(t *testing.T) { plays(t, row, func(*play) {}) })
	}
}

// A play is a row under way, in fake time.
type play struct {
	*Limiter
	back    []func()       // end what Redis does
	slow    atomic.Int64   // ns that a reply takes
	code    atomic.Value   // the error that Redis replies, "" for none
	waiting []func() Visit // the callers of the step wait
	unknown int            // limiters that the Client did not know
	mu      sync.Mutex
	told    []string // states that the hook received; guarded by mu
}

var fallbacks = map[string]rratelimiter.Fallback{
	"error": rratelimiter.FallbackError, "allow": rratelimiter.FallbackAllow,
	"deny": rratelimiter.FallbackDeny, "local": rratelimiter.FallbackLocal,
}

func plays(t *testing.T, row string, spec func(p *play), opts ...rratelimiter.Option) {
	t.Helper()
	p := &play{}
	p.code.Store("")
	opts = append([]rratelimiter.Option{rratelimiter.WithGoOnly(), rratelimiter.WithHealthHook(p.hooked),
		rratelimiter.WithFallback(rratelimiter.FallbackLocal)}, opts...)
	fresh := false
	if rest, ok := strings.CutPrefix(strings.TrimSpace(row), "client "); ok {
		var client string
		client, row, _ = strings.Cut(rest, ";")
		words := strings.Fields(client)
		opts = append(opts, rratelimiter.WithFallback(fallbacks[words[0]]))
		for i := 1; i < len(words); i++ {
			switch words[i] {
			case "fresh":
				fresh = true
			case "budget":
				opts = append(opts, rratelimiter.WithBudget(duration(t, words[i+1])))
			case "share":
				opts = append(opts, rratelimiter.WithLocalShare(redistest.Must(
					strconv.ParseFloat(words[i+1], 64))(t)))
			}
		}
	}
	Bubble(t, func(l *Limiter) {
		p.Limiter = l
		defer p.ends() // also if a step fails
		if !fresh {
			p.Want(p.SetRate(p.Context(), Overall, 10, time.Second))
			p.does("take 1; give 1") // the script is known from here on, and the rate
		}
		p.RDB.AddHook(Hook(p.Gate.Process))
		p.RDB.AddHook(Hook(p.process))
		p.Sleep(2 * time.Second)
		p.does(row)
		spec(p)
	}, opts...)
}

// process delays the reply to a script, or replies itself.
func (p *play) process(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
	code := p.code.Load().(string)
	if code == "" || cmd.Name() != "evalsha" {
		err := next(ctx, cmd)
		time.Sleep(time.Duration(p.slow.Load()))
		return err
	}
	cmd.SetErr(RedisError(code))
	return cmd.Err()
}

func (p *play) hooked(h rratelimiter.Health) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, map[bool]string{true: "open", false: "closed"}[h.Degraded])
}

// ends lets Redis reply.
func (p *play) ends() {
	p.code.Store("")
	for _, back := range p.back {
		back()
	}
	p.back = nil
}

// A taker is what a step asks: a limiter or a Group.
type taker interface {
	TryAcquire(ctx context.Context, permits int64, timeout time.Duration) (bool, error)
	Acquire(ctx context.Context, permits int64) error
	Release(ctx context.Context, permits int64) error
}

// by returns what a step asks, and its words without those that say so.
func (p *play) by(words []string) (taker, []string) {
	switch words[0] {
	case "group":
		return p.Client.All(p.RateLimiter), words[1:]
	case "other":
		return p.Other().RateLimiter, words[1:]
	case "unknown":
		p.unknown++
		return p.Client.RateLimiter(fmt.Sprint("unknown ", p.unknown)), words[1:]
	case "as":
		return p.WithFallback(fallbacks[words[1]]), words[2:]
	}
	return p.RateLimiter, words
}

func (p *play) does(row string) {
	p.Helper()
	for step := range Steps(p.T, row) {
		if strings.TrimSpace(step) == "" {
			continue
		}
		l, words := p.by(strings.Fields(step))
		do := steps[words[0]]
		switch {
		case strings.HasPrefix(words[0], "+"):
			p.Sleep(duration(p, words[0][1:]))
		case do != nil:
			do(p, l, words[1:])
		default:
			p.asks(words[0], l, p.request(words[1:]))
		}
	}
}

// steps are the words of a row that ask for no permits; testdata/outages.txt says what they mean.
var steps = map[string]func(p *play, l taker, args []string){
	"rate": func(p *play, l taker, args []string) {
		typ := Overall
		if len(args) > 2 {
			typ = PerClient
		}
		one := l.(*rratelimiter.RateLimiter)
		p.Want(one.SetRate(p.Context(), typ, p.whole(args[0]), duration(p, args[1])))
	},
	"try": func(p *play, l taker, args []string) {
		ctx, cancel := context.WithTimeout(p.Context(), time.Second)
		defer cancel()
		one := l.(*rratelimiter.RateLimiter)
		set, err := one.TrySetRate(ctx, Overall, p.whole(args[0]), duration(p, args[1]))
		if fails := len(args) > 2; set == fails || fails != errors.Is(err, context.DeadlineExceeded) {
			p.Errorf("%v, %v", set, err)
		}
	},
	"give": func(p *play, l taker, args []string) { p.Want(l.Release(p.Context(), p.whole(args[0]))) },
	"get": func(p *play, _ taker, args []string) {
		if n := TakeAll(p, p.RateLimiter); int64(n) != p.whole(args[0]) {
			p.Errorf("%d are granted", n)
		}
	},
	"wait": func(p *play, _ taker, args []string) {
		r := p.request(args)
		for range r.times {
			ctx, cancel := r.context(p.Context())
			p.Cleanup(cancel)
			p.waiting = append(p.waiting, p.Comes(ctx, r.permits, r.within))
		}
	},
	"came": func(p *play, _ taker, args []string) {
		atMost, bound := strings.CutPrefix(args[1], "<")
		want := duration(p, atMost)
		for i, visit := range p.waiting {
			v := visit()
			got, after := outcome(v.OK, v.Err, p.Name()), v.After.Round(10*time.Millisecond)
			if !v.Done || got != args[0] || bound && v.After >= want || !bound && after != want {
				p.Errorf("caller %d: %+v", i, v)
			}
		}
		p.waiting = nil
	},

	"others": func(p *play, _ taker, args []string) {
		for range p.whole(args[0]) {
			p.Other().Took(1, time.Minute, 0)
			p.Sleep(time.Second)
		}
	},
	"java": func(p *play, _ taker, args []string) {
		p.JavaTakes(1, byte(p.whole(args[0])), time.Now().UnixMilli())
	},
	"old": func(p *play, _ taker, args []string) {
		p.Fill(time.Now().UnixMilli()-100_000, 10, int(p.whole(args[0])), 1)
	},
	"learn": func(p *play, _ taker, _ []string) {
		p.Sleep(11 * time.Second)
		p.Took(1, 0, 0)
		p.Sleep(10 * time.Millisecond)
		p.Want(p.Release(p.Context(), 1))
		p.Sleep(2 * time.Second)
	},
	"silent": func(p *play, _ taker, _ []string) { p.back = append(p.back, p.Gate.Shut()) },
	"away": func(p *play, _ taker, _ []string) {
		p.back = append(p.back, p.Gate.Shut())
		p.asks("no", p.WithFallback(rratelimiter.FallbackDeny), request{permits: 1, times: 3, after: budget})
	},
	"refuse": func(p *play, _ taker, args []string) { p.code.Store(strings.Join(args, " ")) },
	"slow":   func(p *play, _ taker, args []string) { p.slow.Store(int64(duration(p, args[0]))) },
	"back":   func(p *play, _ taker, _ []string) { p.ends() },
	"empty":  func(p *play, _ taker, _ []string) { p.Mini.FlushAll() },
	"off":    func(p *play, _ taker, _ []string) { p.Client.SetLimiting(false) },
	"on":     func(p *play, _ taker, _ []string) { p.Client.SetLimiting(true) },
	"close":  func(p *play, _ taker, _ []string) { p.Want(p.Client.Close()) },
	"until": func(p *play, _ taker, _ []string) {
		for p.Client.Health().Degraded {
			p.Sleep(time.Millisecond)
		}
	},

	"taken":    func(p *play, _ taker, args []string) { p.HasTaken(p.whole(args[0])) },
	"records":  func(p *play, _ taker, args []string) { p.HasRecords(p.whole(args[0])) },
	"degraded": func(p *play, _ taker, _ []string) { p.health(p.Client.Health().Degraded) },
	"well": func(p *play, _ taker, _ []string) {
		h := p.Client.Health()
		p.health(!h.Degraded && h.Cause == nil)
	},
	"decided": func(p *play, _ taker, args []string) {
		p.health(p.Client.Health().Decided == p.whole(args[0]))
	},
	"unbooked": func(p *play, _ taker, args []string) {
		p.health(p.Client.Health().Unbooked == p.whole(args[0]))
	},
	"hooks": func(p *play, _ taker, args []string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !slices.Equal(p.told, args) {
			p.Errorf("the hook received %q", p.told)
		}
	},
}

func (p *play) health(ok bool) {
	p.Helper()
	if !ok {
		p.Errorf("%+v", p.Client.Health())
	}
}

func (p *play) whole(word string) int64 { return redistest.Must(strconv.ParseInt(word, 10, 64))(p) }

// duration reads a time; ever is Acquire.
func duration(t redistest.TB, word string) time.Duration {
	if word == "ever" {
		return -1
	}
	return redistest.Must(time.ParseDuration(word))(t)
}

// A request is the words of a step that asks for permits.
type request struct {
	permits             int64
	within, ends, after time.Duration
	every               time.Duration
	times               int
	timed               bool // its context ends
}

func (p *play) request(args []string) request {
	p.Helper()
	r := request{permits: p.whole(args[0]), times: 1}
	for i := 1; i < len(args); i++ {
		if n, ok := strings.CutPrefix(args[i], "x"); ok {
			r.times = int(p.whole(n))
			continue
		}
		d := map[string]*time.Duration{"within": &r.within, "ends": &r.ends, "after": &r.after,
			"every": &r.every}[args[i]]
		r.timed = r.timed || d == &r.ends
		i++
		*d = duration(p, args[i])
	}
	return r
}

func (r request) context(ctx context.Context) (context.Context, context.CancelFunc) {
	if !r.timed {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, r.ends)
}

// asks expects what a request gets, and when.
func (p *play) asks(want string, l taker, r request) {
	p.Helper()
	name := p.Name()
	if one, ok := l.(*rratelimiter.RateLimiter); ok {
		name = one.Name()
	}
	for range r.times {
		ctx, cancel := r.context(p.Context())
		start, ok, err := time.Now(), true, error(nil)
		if r.within < 0 {
			err = l.Acquire(ctx, r.permits)
		} else {
			ok, err = l.TryAcquire(ctx, r.permits, r.within)
		}
		took := time.Since(start)
		if got := outcome(ok, err, name); got != want || took != r.after {
			p.Fatalf("%s after %v (%v); want %s after %v", got, took, err, want, r.after)
		}
		cancel()
		p.Sleep(r.every)
	}
}

// outcome returns the word of a row for what a call for a limiter has returned.
func outcome(ok bool, err error, name string) string {
	for word, target := range map[string]error{
		"fails": rratelimiter.ErrNoAnswer, "exceeds": rratelimiter.ErrPermitsExceedRate,
		"invalid": rratelimiter.ErrInvalidArgument, "unset": rratelimiter.ErrNotInitialized,
	} {
		if errors.Is(err, target) && strings.Contains(err.Error(), strconv.Quote(name)) {
			return word
		}
	}
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return "ended"
	case err != nil:
		return "another error"
	}
	return map[bool]string{true: "take", false: "no"}[ok]
}
