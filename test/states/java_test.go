package states_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// Each row of testdata/states.txt with the word java comes out alike where Redisson makes the calls. It has a
// clock of its own, so a ms of the row is a second, and time passes by making the records older.
func TestStatesByJava(t *testing.T) {
	redistest.Require(t, "java")
	redistest.Require(t, "mvn")
	peer := redistest.Must(javapeer.Start(t.Context(), ""))(t)
	defer peer.Close()
	server := redistest.Start(t)
	redistest.Must(peer.Connect(t.Context(), "java", server.Addr))(t)
	for name, row := range Rows(states) {
		if !hasStep(row, "java") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			b := NewBench(t, server.Client(t), server.Admin())
			b.Now = time.Now().UnixMilli()
			l := b.NewLimiter(Overall, 0, 0)
			p := &javaPlay{play{Limiter: l, unit: 1000}, peer.Limiter("java", l.Name())}
			p.steps = p.ofJava()
			p.does(row)
		})
	}
}

// A javaPlay is a row under way whose calls are those of Redisson.
type javaPlay struct {
	play
	java *javapeer.Limiter
}

// ofJava are the steps that Redisson does, and those that look at Redis.
func (p *javaPlay) ofJava() map[string]step {
	all := map[string]step{
		"rate": func(_ *play, args []string) {
			c, keep := p.config(args)
			p.Want(p.java.SetRate(p.Context(), c, keep))
		},
		"try": func(_ *play, args []string) {
			c, _ := p.config(args)
			p.sets(args, func() (bool, error) { return p.java.TrySetRate(p.Context(), c) })
		},
		"update": func(_ *play, args []string) {
			c, keep := p.config(args)
			p.sets(args, func() (bool, error) { return p.java.UpdateRate(p.Context(), c, keep) })
		},
		"+": func(_ *play, args []string) {
			for _, record := range p.Look.ZRange(p.Context(), p.PermitsKey(), 0, -1).Val() {
				p.Want(p.Look.ZIncrBy(p.Context(), p.PermitsKey(), -float64(p.ms(args[0])), record).Err())
			}
		},
		"take": func(_ *play, args []string) {
			for range p.times(args) {
				p.Want(Yes(p.java.TryAcquire(p.Context(), p.whole(args[0]), 0)))
			}
		},
		"no": func(_ *play, args []string) {
			p.Want(No(p.java.TryAcquire(p.Context(), p.whole(args[0]), 0)))
		},
		"exceeds": func(_ *play, args []string) {
			p.refuses("exceed", ErrOf(p.java.TryAcquire(p.Context(), p.whole(args[0]), 0)))
		},
		"unset": func(_ *play, _ []string) {
			p.refuses("is not initialized", ErrOf(p.java.TryAcquire(p.Context(), 1, 0)))
		},
		"delete": func(_ *play, _ []string) { p.Want(Yes(p.java.Delete(p.Context()))) },
		"give": func(_ *play, args []string) {
			p.Want(p.java.Release(p.Context(), p.whole(args[0])))
		},
		"left": func(_ *play, args []string) {
			if got := redistest.Must(p.java.AvailablePermits(p.Context()))(p); got != p.whole(args[0]) {
				p.Fatalf("%d permits are left", got)
			}
		},
	}
	for _, name := range []string{"java", "own", "hash!", "value!", "record!", "value", "records", "whole"} {
		all[name] = steps[name]
	}
	return all
}

// refuses expects an exception of Redisson with a text.
func (p *javaPlay) refuses(text string, err error) {
	p.Helper()
	var java *javapeer.Error
	if !errors.As(err, &java) || !strings.Contains(java.Message, text) {
		p.Fatalf("%v, want %q", err, text)
	}
}

// config is the rate of a step, and whether it keeps the state.
func (p *javaPlay) config(args []string) (c rratelimiter.Config, keep bool) {
	typ, rate, interval, _ := rateOf(args)
	p.rate = rate
	for _, word := range args {
		keep = keep || word == "keep"
	}
	return rratelimiter.Config{Type: typ, Rate: rate, Interval: 1000 * interval}, keep
}
