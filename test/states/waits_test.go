package states_test

import (
	"context"
	_ "embed" // testdata
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

//go:embed testdata/waits.txt
var waits string

// Each row of testdata/waits.txt comes out as it says, in fake time.
func TestWaits(t *testing.T) {
	goOnly := rratelimiter.WithGoOnly()
	ways := []way{
		{name: "a limiter", calls: alone},
		{name: "a limiter for each call",
			calls:   func(l *Limiter) caller { return throwaway{l.RateLimiter, l} },
			without: "alone given"},
		{name: "fI", calls: func(l *Limiter) caller { return l.InFormat(FI, goOnly).RateLimiter },
			without: "alone given"},
		{name: "a Group", calls: inGroup, without: "alone single"},
		{name: "reservations", calls: reserving, without: "alone single give"},
	}
	for name, row := range Rows(waits) {
		for _, way := range ways {
			if hasStep(row, way.without) {
				continue
			}
			t.Run(name+"/"+way.name, func(t *testing.T) {
				Bubble(t, func(l *Limiter) { waitsOut(l, way, row) }, goOnly)
			})
		}
	}
}

func waitsOut(l *Limiter, way way, row string) {
	l.Want(l.SetRate(l.Context(), Overall, 1, time.Hour))
	p := &waitPlay{play: &play{Limiter: l, way: way, calls: way.calls(l)}, callers: map[string][]*asker{}}
	p.Want(ErrOf(p.calls.Allow(p.Context(), 1))) // the scripts are known from here on
	p.Want(p.calls.Release(p.Context(), 1))
	elsewhere := *l.Bench // past the road
	elsewhere.RDB, elsewhere.Client = l.Look, NewClient(l, l.Look)
	p.look = elsewhere.Wrap(elsewhere.Client.RateLimiter(l.Name()))
	p.another = &play{Limiter: p.look, calls: way.calls(p.look)}
	l.RDB.AddHook(Hook(p.road.process))
	defer func() {
		for _, callers := range p.callers {
			for _, a := range callers {
				a.leave()
			}
		}
		p.road.passAll()
		p.Want(p.Client.Close())
		synctest.Wait()
	}()
	for step := range Steps(p.T, row) {
		p.Now = time.Now().UnixMilli()
		p.waits(step)
	}
}

// A throwaway is a limiter of which each caller has its own.
type throwaway struct {
	*rratelimiter.RateLimiter
	l *Limiter
}

func (t throwaway) TryAcquire(ctx context.Context, permits int64, timeout time.Duration) (bool, error) {
	return t.l.Client.RateLimiter(t.l.Name()).TryAcquire(ctx, permits, timeout)
}

// A waitPlay is one row under way.
type waitPlay struct {
	*play
	road    road
	look    *Limiter // of another process
	callers map[string][]*asker
	counted int // calls
}

// An asker is a caller that may wait.
type asker struct {
	leave context.CancelFunc
	visit atomic.Pointer[Visit] // nil as long as it waits
}

// waitSteps are the words of a row; testdata/waits.txt says what they mean.
var waitSteps = map[string]func(p *waitPlay, args []string){
	"single": func(*waitPlay, []string) {},
	"alone":  func(*waitPlay, []string) {},

	"hold": func(p *waitPlay, args []string) {
		h := &hold{pass: make(chan struct{})}
		for _, word := range args {
			if h.reply = h.reply || word == "reply"; word != "reply" {
				h.call = int(p.whole(word))
			}
		}
		p.road.holds(h)
	},
	"pass":    func(p *waitPlay, _ []string) { p.road.passes(p.T) },
	"lose":    func(p *waitPlay, args []string) { p.road.fails(p.whole(args[0]), ErrLost) },
	"fail":    func(p *waitPlay, args []string) { p.road.fails(p.whole(args[0]), errNever) },
	"copy":    func(p *waitPlay, _ []string) { p.road.fails(1, errCopied) },
	"arrives": func(p *waitPlay, _ []string) { p.Want(p.Look.Do(p.Context(), p.road.copied...).Err()) },
	"slow":    func(p *waitPlay, args []string) { p.road.slows(p.span(args[0])) },
	"close":   func(p *waitPlay, _ []string) { p.Want(p.Client.Close()) },
	"rename":  func(p *waitPlay, _ []string) { p.Want(p.look.Rename(p.Context(), p.Name()+"-new")) },
	"calls": func(p *waitPlay, args []string) {
		most, upTo := strings.CutPrefix(args[0], "<")
		n, want := p.road.count()-p.counted, int(p.whole(most))
		if n > want || n < want && !upTo {
			p.Fatalf("%d calls, want %s", n, args[0])
		}
	},
	"out": func(p *waitPlay, args []string) {
		p.look.HasTaken(p.whole(args[0]))
		if p.Look.Exists(p.Context(), p.ValueKey()).Val() > 0 {
			p.Keeps(p.rate, p.ValueKey(), p.PermitsKey())
		}
	},
}

// waits does a step, of this table or of states.txt.
func (p *waitPlay) waits(step string) {
	p.Helper()
	words := strings.Fields(step)
	ms, passes := strings.CutPrefix(words[0], "+")
	switch do := waitSteps[words[0]]; {
	case passes:
		p.Sleep(time.Duration(p.whole(ms)) * time.Millisecond)
	case do != nil:
		do(p, words[1:])
		synctest.Wait()
	case len(words[0]) == 1:
		p.callerDoes(words[0], words[1], words[2:])
	default:
		p.does(step)
		synctest.Wait()
		p.counted = p.road.count()
	}
}

// callerDoes starts a caller, or expects what has become of it.
func (p *waitPlay) callerDoes(name, verb string, args []string) {
	p.Helper()
	callers := p.callers[name]
	switch verb {
	case "asks":
		p.asks(name, args)
		return
	case "leaves":
		for _, a := range callers {
			a.leave()
		}
		synctest.Wait()
		return
	}
	times := len(callers)
	if last := len(args) - 1; last >= 0 && args[last][0] == 'x' {
		times, args = int(p.whole(args[last][1:])), args[:last]
	}
	for i, a := range callers {
		if err := a.is(p.play, verb, args); i < times && err != nil || i >= times && err == nil {
			p.Fatalf("%s %d of %d: %+v, %v", name, i+1, len(callers), a.visit.Load(), err)
		}
	}
}

// asks starts callers, each when the ones before it have their results or wait.
func (p *waitPlay) asks(name string, args []string) {
	p.Helper()
	permits, timeout, times, calls := strings.Split(args[0], ","), ForAges, 1, p.calls
	ctx := p.Context()
	for i, word := range args {
		switch {
		case word == "now":
			timeout = 0
		case word == "within":
			timeout = p.span(args[i+1])
		case word == "until":
			dated, cancel := context.WithTimeout(ctx, p.span(args[i+1]))
			p.Cleanup(cancel)
			ctx = dated
		case word[0] == 'x':
			times = int(p.whole(word[1:]))
		}
	}
	ctx, leave := context.WithCancel(ctx)
	p.Cleanup(leave)
	if name == strings.ToUpper(name) {
		calls = inGroup(p.Limiter)
	}
	for i := range times {
		n, a := p.whole(permits[i%len(permits)]), &asker{leave: leave}
		p.callers[name] = append(p.callers[name], a)
		start := time.Now()
		go func() {
			ok, err := calls.(interface {
				TryAcquire(ctx context.Context, permits int64, timeout time.Duration) (bool, error)
			}).TryAcquire(ctx, n, timeout)
			a.visit.Store(&Visit{OK: ok, Err: err, After: time.Since(start)})
		}()
		synctest.Wait()
	}
}

// callerErrors are the errors of callers by their words.
var callerErrors = map[string]error{
	"left": context.Canceled, "late": context.DeadlineExceeded, "closed": rratelimiter.ErrClosed,
	"unanswered": rratelimiter.ErrNoAnswer, "unset": rratelimiter.ErrNotInitialized,
	"exceeds": rratelimiter.ErrPermitsExceedRate,
}

// is returns an error unless the caller is as it should be: waits, has, refused, or an error, after a time.
func (a *asker) is(p *play, what string, args []string) error {
	v := a.visit.Load()
	if v == nil || what == "waits" {
		if v == nil && what == "waits" {
			return nil
		}
		return errors.New("want " + what)
	}
	if want := callerErrors[what]; !errors.Is(v.Err, want) || v.OK != (what == "has") {
		return fmt.Errorf("want %s", what)
	}
	for _, word := range args {
		most, upTo := strings.CutPrefix(word, "<")
		if want := p.span(most); v.After > want || v.After < want && !upTo {
			return fmt.Errorf("want it after %s", word)
		}
	}
	return nil
}
