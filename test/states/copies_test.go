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
	server := redistest.Start(t)
	for name, row := range rows(copies) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, way := range append(ways, way{name: "a resolution", calls: inSlotsOf(10 * time.Millisecond)}) {
				if !hasStep(row, way.without) {
					t.Run(way.name, func(t *testing.T) { copiesOn(t, server, way, row) })
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
	p := &copyPlay{play: &play{Limiter: l, calls: way.calls(l), rate: 10}, look: l.Other()}
	p.Want(p.asks("take", 1)(t.Context())) // the server knows the scripts from here on
	p.Want(p.asks("give", 1)(t.Context()))
	p.Want(l.SetRate(t.Context(), Overall, 10, time.Hour))
	for step := range strings.SplitSeq(row, ";") {
		if p.copies(step, strings.Fields(step)); t.Failed() {
			t.Fatalf("at %q", step)
		}
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

// asks returns a request of a step: take, no, give.
func (p *copyPlay) asks(what string, permits int64) func(ctx context.Context) error {
	if what == "give" {
		return func(ctx context.Context) error { return p.calls.Release(ctx, permits) }
	}
	return func(ctx context.Context) error {
		r, err := p.calls.Allow(ctx, permits)
		if err == nil && r.Allowed != (what == "take") {
			err = fmt.Errorf("%+v", r)
		}
		return err
	}
}

// copies does a step.
func (p *copyPlay) copies(step string, words []string) {
	p.Helper()
	n := int64(0)
	_, _ = fmt.Sscan(words[len(words)-1], &n)
	ctx := p.Context()
	switch words[0] {
	case "once", "single":
	case "take", "no", "give":
		p.Want(p.asks(words[0], n)(ctx))
	case "forget":
		p.Want(p.Look.ScriptFlush(ctx).Err())
	case "rename":
		name := p.Name() + "-new"
		p.Want(p.calls.(interface {
			Rename(ctx context.Context, name string) error
		}).Rename(ctx, name))
		p.Limiter = p.Wrap(p.Client.RateLimiter(name))
		p.look = p.Other()
	case "clients":
		for range n {
			c := p.Other()
			c.Takes(1)
			c.Gives(1)
		}
	case "exceeds":
		WantErr(p, ErrOf(p.calls.Allow(ctx, n)), rratelimiter.ErrPermitsExceedRate)
	case "lose":
		p.Proxy.SwallowReply(int(n))
		p.lost += n
	case "fails":
		WantErr(p, p.asks(words[1], n)(ctx), rratelimiter.ErrNoAnswer)
	case "hold":
		ctx, p.leave = context.WithCancel(ctx)
		p.first, p.held = p.Holds(func() error { return p.asks(words[1], n)(ctx) }), words[1]
	case "overtaken":
		p.Want(p.first.Overtaken())
	case "gone":
		WantErr(p, p.first.Overtaken(), rratelimiter.ErrNoAnswer)
		if p.held != "give" { // nothing takes a release back
			p.first.Followed()
		}
	case "leaves":
		p.leave()
		WantErr(p, <-p.first.Told, context.Canceled)
	case "arrives":
		p.first.Arrives()
		p.leave()
	case "out":
		p.isOut(n)
	default:
		p.does(step)
	}
}

// isOut expects permits to be out at last. A late copy may come after a look, and be taken back after that.
func (p *copyPlay) isOut(permits int64) {
	p.Helper()
	const settled = 20 * time.Millisecond
	is := func() bool {
		r, err := p.look.Peek(p.Context())
		p.Want(err)
		return r.Limit-r.Remaining == permits && p.Out(p.PermitsKey()) == permits
	}
	Until(p.T, func() bool {
		before := is()
		time.Sleep(settled)
		return before && is()
	})
	if p.Look.Exists(p.Context(), p.ValueKey()).Val() > 0 {
		p.Keeps(p.rate, p.ValueKey(), p.PermitsKey())
	}
}
