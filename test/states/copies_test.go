package states_test

import (
	"context"
	_ "embed" // testdata
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

//go:embed testdata/copies.txt
var copies string

// Each row of testdata/copies.txt comes out as it says, in each way to call.
func TestCopies(t *testing.T) {
	shared := redistest.Start(t)
	for name, row := range Rows(copies) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := shared
			if hasStep(row, "forget") { // a held copy of another row would find no script
				server = redistest.Start(t)
			}
			for _, way := range ways {
				play := func(t *testing.T) { copiesOn(t, server, way, row) }
				if !hasStep(row, way.without) && !t.Run(way.name, play) {
					break // each further way would wait as long
				}
			}
		})
	}
}

// copiesOn plays a row through a proxy to a server.
func copiesOn(t *testing.T, server *redistest.Server, way way, row string) {
	t.Helper()
	proxy := redistest.StartProxy(t, server.Addr)
	rdb := server.Client(t, func(o *redis.Options) {
		o.Addr, o.MinRetryBackoff, o.MaxRetryBackoff = proxy.Addr, 1, time.Millisecond
		if hasStep(row, "once") {
			SendsOnce(o)
		}
	})
	b := NewBench(t, rdb, server.Admin())
	b.Proxy = proxy
	l := b.NewLimiter(Overall, 10, time.Hour)
	p := &copyPlay{play: &play{Limiter: l, calls: way.calls(l), rate: 10,
		open: map[string]*rratelimiter.Reservation{}}, look: l.Other()}
	p.askNow([]string{"take"}, 1) // the server knows the scripts from here on
	p.askNow([]string{"give"}, 1)
	if hasStep(row, "reserve") {
		p.copies("reserve z 2")
		p.copies("settle z 1")
	}
	p.Want(l.SetRate(t.Context(), Overall, 10, time.Hour))
	for step := range Steps(t, row) {
		p.copies(step)
	}
	if n := proxy.Swallowed(); n != p.lost {
		t.Errorf("%d replies were lost, want %d", n, p.lost)
	}
}

// A copyPlay is one row under way.
type copyPlay struct {
	*play
	look  *Limiter // past the proxy
	lost  int64    // replies so far
	first *FirstCopy
	held  string             // what it asks for
	leave context.CancelFunc // of its caller
}

// asks makes the request of a step: take, no, give, settle a.
func (p *copyPlay) asks(ctx context.Context, words []string, permits int64) error {
	switch words[0] {
	case "give":
		return p.calls.Release(ctx, permits)
	case "settle":
		return p.open[words[1]].Settle(ctx, permits)
	}
	r, err := p.calls.Allow(ctx, permits)
	if err == nil && r.Allowed != (words[0] == "take") {
		err = fmt.Errorf("%+v", r)
	}
	return err
}

// copySteps are the words of a row; testdata/copies.txt says what they mean. n is the number of a step.
var copySteps = map[string]func(p *copyPlay, words []string, n int64){
	"once":   func(*copyPlay, []string, int64) {},
	"single": func(*copyPlay, []string, int64) {},
	"take":   (*copyPlay).askNow,
	"no":     (*copyPlay).askNow,
	"give":   (*copyPlay).askNow,
	"exceeds": func(p *copyPlay, _ []string, n int64) {
		WantErr(p, ErrOf(p.calls.Allow(p.Context(), n)), rratelimiter.ErrPermitsExceedRate)
	},
	"out": func(p *copyPlay, _ []string, n int64) { p.isOut(n) },

	"lose": func(p *copyPlay, _ []string, n int64) {
		p.Proxy.SwallowReply(int(n))
		p.lost += n
	},
	"fails": func(p *copyPlay, words []string, n int64) {
		WantErr(p, p.asks(p.Context(), words[1:], n), rratelimiter.ErrNoAnswer)
	},
	"hold": func(p *copyPlay, words []string, n int64) {
		ctx, leave := context.WithCancel(p.Context())
		p.first, p.leave = p.Holds(func() error { return p.asks(ctx, words[1:], n) }), leave
		p.held = words[1]
	},
	"overtaken": func(p *copyPlay, _ []string, _ int64) { p.Want(p.first.Overtaken()) },
	"gone": func(p *copyPlay, _ []string, _ int64) {
		WantErr(p, p.first.Overtaken(), rratelimiter.ErrNoAnswer)
		if p.held == "take" { // nothing takes the others back
			p.first.Followed()
		}
	},
	"leaves": func(p *copyPlay, _ []string, _ int64) {
		p.leave()
		WantErr(p, <-p.first.Told, context.Canceled)
	},
	"arrives": func(p *copyPlay, _ []string, _ int64) {
		p.first.Arrives()
		p.leave()
	},

	"forget": func(p *copyPlay, _ []string, _ int64) { p.Want(p.Look.ScriptFlush(p.Context()).Err()) },
	"rename": func(p *copyPlay, _ []string, _ int64) {
		name := p.Name() + "-new"
		p.Want(p.calls.(interface {
			Rename(ctx context.Context, name string) error
		}).Rename(p.Context(), name))
		p.Limiter = p.Wrap(p.Client.RateLimiter(name))
		p.look = p.Other()
	},
	"clients": func(p *copyPlay, _ []string, n int64) {
		for range n {
			c := p.Other()
			c.Takes(1)
			c.Gives(1)
		}
	},
}

// copies does a step, of this table or of the other one.
func (p *copyPlay) copies(step string) {
	p.Helper()
	words, n := strings.Fields(step), int64(0)
	_, _ = fmt.Sscan(words[len(words)-1], &n)
	if do := copySteps[words[0]]; do != nil {
		do(p, words, n)
	} else {
		p.does(step)
	}
}

// askNow is take, no or give.
func (p *copyPlay) askNow(words []string, n int64) {
	p.Helper()
	p.Want(p.asks(p.Context(), words, n))
}

// isOut expects permits to be out at last. A late copy may come after a look, and be taken back after that.
func (p *copyPlay) isOut(permits int64) {
	p.Helper()
	const settled, patience = 20 * time.Millisecond, 30 * time.Second
	for before, end := false, time.Now().Add(patience); ; time.Sleep(settled) {
		r, err := p.look.Peek(p.Context())
		p.Want(err)
		said, recorded := r.Limit-r.Remaining, p.Out(p.PermitsKey())
		is := said == permits && recorded == permits
		if is && before {
			break
		}
		if before = is; time.Now().After(end) {
			p.Fatalf("%d permits are out, and %d in records, want %d", said, recorded, permits)
		}
	}
	if p.Look.Exists(p.Context(), p.ValueKey()).Val() > 0 {
		p.Keeps(p.rate, p.ValueKey(), p.PermitsKey())
	}
}
