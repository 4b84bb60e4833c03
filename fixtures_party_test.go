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
