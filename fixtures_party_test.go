package rratelimiter_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// A party is a crowd before a real server. The call of its first caller is held on
// its way, so that those who come meanwhile share the next one.
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
	done    chan struct{}
	result  rratelimiter.Result
	err     error
}

// invite returns a party whose first caller wants one permit.
func (n *line) invite(opts ...rratelimiter.Option) *party {
	n.Helper()
	p := &party{line: n, l: n.with(opts...)}
	p.l.takes(1) // the scripts are known to the server from here on
	p.l.gives(1)
	p.begins()
	return p
}

// begins holds the call of a first caller.
func (p *party) begins() {
	p.Helper()
	p.open = p.holdsFrom(func() { p.first = p.comes(1, 0) })
}

// merges lets the call of the first caller go, and holds the one that the others
// share.
func (p *party) merges() (pass func()) {
	p.Helper()
	return p.holdsFrom(func() { p.open() })
}

// holdsFrom holds the next script call, which start leads to.
func (p *party) holdsFrom(start func()) (pass func()) {
	p.Helper()
	held := p.proxy.Held()
	pass = p.proxy.HoldNext(1, isScript)
	start()
	until(p.T, func() bool { return p.proxy.Held() == held+1 })
	return pass
}

// with is the limiter of the line by another Client.
func (n *line) with(opts ...rratelimiter.Option) *limiter {
	return &limiter{n.newClient(opts...).RateLimiter(n.l.Name()), n.bench}
}

// An arrival is a context that tells when its caller stands in the queue: then
// the caller waits for the end of the context. Before that it looks once whether
// the context can end.
type arrival struct {
	context.Context
	asked atomic.Int32
	came  chan struct{} // closed when it waits
}

func arriving(ctx context.Context) *arrival {
	return &arrival{Context: ctx, came: make(chan struct{})}
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
	a := arriving(ctx)
	g := &guest{permits: permits, leave: leave, done: make(chan struct{})}
	go func() {
		defer close(g.done)
		if timeout > 0 {
			g.result.Allowed, g.err = p.l.TryAcquire(a, permits, timeout)
		} else {
			g.result, g.err = p.l.Allow(a, permits)
		}
	}()
	select {
	case <-a.came:
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

// agree expects the callers to get the answers that they get one after another.
// left is what is free before them. It returns the permits granted.
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
			p.Fatalf("caller %d wants %d: %s, %+v, %v; want %s, %d left", i, g.permits, got, r, err, want,
				left)
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
