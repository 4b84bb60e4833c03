package concurrency

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/host"
	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// A pool is the leases of all keys, and the callers that wait for them.
type pool struct {
	form.Numbers
	store store
	keyed bool // it has a limit for each key
	now   func() time.Time
	lines lines
}

// check returns an error for arguments that the store would refuse.
func (p *pool) check(ctx context.Context, key string, n int64) error {
	if p.keyed {
		if err := form.Usable("the key", key); err != nil {
			return err
		}
	}
	return p.Check(ctx, n, false)
}

// How often the first caller in line asks for permits that other processes may give back.
const (
	soon   = 5 * time.Millisecond
	seldom = 200 * time.Millisecond
)

// A call that fails after hangsAfter has hung until go-redis gave up. All in the line get its error: a silent
// Redis would hold each of them as long again.
const hangsAfter = 250 * time.Millisecond

// expires returns the earliest end of a lease taken now: the store takes it later.
func (p *pool) expires() time.Time { return p.now().Add(p.Interval) }

// ended returns the error of an ended ctx.
func (*pool) ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("rratelimiter: %w", err)
	}
	return nil
}

func (p *pool) tryAcquire(ctx context.Context, key string, n int64) (*Lease, bool, error) {
	start := time.Now()
	lease, d, err := p.try(ctx, key, n)
	p.observe(ctx, key, d, host.Call{Permits: n, Err: err, Start: start})
	return lease, lease != nil, err
}

// observe reports a call to the Observer of the Client, if there is one.
func (p *pool) observe(ctx context.Context, key string, d form.Decision, call host.Call) {
	if h, ok := p.store.(hosted); ok {
		h.observe(ctx, key, d, call)
	}
}

// try returns no lease if the permits are not there.
func (p *pool) try(ctx context.Context, key string, n int64) (*Lease, form.Decision, error) {
	if err := p.check(ctx, key, n); err != nil {
		return nil, form.Decision{}, err
	}
	expires := p.expires()
	taken, d, err := p.store.take(ctx, key, n)
	if err != nil || taken == nil {
		return nil, d, err
	}
	return &Lease{
		pool: p, key: key, permits: taken, calls: semaphore.NewWeighted(1), expires: expires,
	}, d, nil
}

func (p *pool) acquire(ctx context.Context, key string, n int64) (*Lease, error) {
	start := time.Now()
	lease, d, err := p.wait(ctx, key, n)
	p.observe(ctx, key, d, host.Call{Permits: n, Err: err, Start: start})
	return lease, err
}

// wait enters the line if callers wait in it, or if the permits are not there.
func (p *pool) wait(ctx context.Context, key string, n int64) (lease *Lease, d form.Decision, err error) {
	if !p.lines.wait(key) {
		if lease, d, err = p.try(ctx, key, n); lease != nil || err != nil {
			return lease, d, err
		}
	} else if err = p.check(ctx, key, n); err != nil {
		return nil, d, err
	}
	l := p.lines.enter(key)
	defer p.lines.leave(key, l)
	if err := l.turn.Acquire(ctx, 1); err != nil {
		return nil, d, fmt.Errorf("rratelimiter: %w", ctx.Err())
	}
	defer l.turn.Release(1)
	if l.hung != nil {
		return nil, d, l.hung
	}
	return p.first(ctx, l, key, n)
}

// first is wait for the first caller in line.
func (p *pool) first(
	ctx context.Context, l *line, key string, n int64,
) (lease *Lease, decision form.Decision, err error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for pace := soon; ; pace = min(2*pace, seldom) {
		began := time.Now()
		lease, decision, err = p.try(ctx, key, n)
		if err != nil && ctx.Err() == nil && !redisx.Answered(err) && time.Since(began) > hangsAfter {
			l.hung = err
			p.lines.drop(key, l)
		}
		if lease != nil || err != nil {
			return lease, decision, err
		}
		retry := time.Duration(decision.Retry) * time.Microsecond
		timer.Reset(min(retry, pace/2+rand.N(pace/2)))
		select {
		case <-timer.C:
		case <-l.wake:
			pace = soon
		case <-ctx.Done():
			return nil, decision, fmt.Errorf("rratelimiter: %w", ctx.Err())
		}
	}
}

// A line is the callers that wait for permits of one key.
type line struct {
	turn    *semaphore.Weighted // held by the first
	hung    error               // of a call that has hung; guarded by turn
	wake    chan struct{}       // signals returned permits; capacity one
	waiting int                 // guarded by the lock of lines
}

// lines are the lines of all keys with waiting callers.
type lines struct {
	mu sync.Mutex
	of map[string]*line // guarded by mu
}

// wait reports whether callers wait for permits of a key.
func (ls *lines) wait(key string) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.of[key] != nil
}

func (ls *lines) enter(key string) *line {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.of[key]
	if l == nil {
		l = &line{turn: semaphore.NewWeighted(1), wake: make(chan struct{}, 1)}
		if ls.of == nil {
			ls.of = make(map[string]*line)
		}
		ls.of[key] = l
	}
	l.waiting++
	return l
}

func (ls *lines) leave(key string, l *line) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.waiting--; l.waiting == 0 && ls.of[key] == l {
		delete(ls.of, key)
	}
}

// drop makes callers that come from now on begin another line.
func (ls *lines) drop(key string, l *line) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.of[key] == l {
		delete(ls.of, key)
	}
}

// wake makes the first caller in line ask at once.
func (ls *lines) wake(key string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.of[key]; l != nil {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}
