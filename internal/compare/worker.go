package compare

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A worker plays one sequence at a time. It has a Redisson instance, and a
// Client of Go whose clock it sets.
type worker struct {
	*Runner
	Sides
	client *rratelimiter.Client
	clock  *atomic.Int64 // Unix ms
}

func (r *Runner) worker(n int) *worker {
	clock := &atomic.Int64{}
	now := func() time.Time { return time.UnixMilli(clock.Load()) }
	c := rratelimiter.New(r.rdb, rratelimiter.WithClock(now))
	golang := Side{c.ID(), func(name string) Limiter { return Go(c.RateLimiter(name)) }}
	return &worker{r, Sides{Java: r.javas[n%len(r.javas)], Go: golang}, c, clock}
}

func (w *worker) close() { _ = w.client.Close() } // nothing that failed here matters

// pause waits as long as a step says, unless ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// lose removes a part of the limiter with these keys, which is in this state.
func (r *Runner) lose(ctx context.Context, keys []string, st state, part string) error {
	pair := keys[1+2*st.settings().typ:]
	switch part {
	case "hash":
		return r.rdb.Del(ctx, keys[0]).Err()
	case "value":
		return r.rdb.Del(ctx, pair[0]).Err()
	case "permits":
		return r.rdb.Del(ctx, pair[1]).Err()
	}
	return r.rdb.HDel(ctx, keys[0], part).Err()
}

// twoLimiters are a limiter of Java and one of Go, which has the clock of Java.
type twoLimiters struct {
	*worker
	javaName     string
	java, golang Limiter
	keys         []string // five of Java's, five of Go's
	states       []state  // Java's, Go's
}

var _ lockstep = (*twoLimiters)(nil)

func (w *worker) twoLimiters() *twoLimiters {
	ofJava, ofGo := redistest.Name(w.t), redistest.Name(w.t)
	return &twoLimiters{
		worker:   w,
		javaName: ofJava,
		keys:     append(keysOf(ofJava, w.Java.ID), keysOf(ofGo, w.Go.ID)...),
		states:   make([]state, 2),
		java:     w.Java.Limiter(ofJava),
		golang:   w.Go.Limiter(ofGo),
	}
}

// close removes what the sequence has left.
func (t *twoLimiters) close(ctx context.Context) { t.rdb.Unlink(ctx, t.keys...) }

func (t *twoLimiters) javaKeys() []string { return t.keys[:keysPerState] }
func (t *twoLimiters) goKeys() []string   { return t.keys[keysPerState:] }

// do lets Java go first, because only Java's clock cannot be set.
func (t *twoLimiters) do(ctx context.Context, s Step) (got both, err error) {
	pause(ctx, s.Pause)
	if s.Op == Lose {
		got.now = time.Now().UnixMilli()
		err = t.lose(ctx, t.javaKeys(), t.states[0], s.Lost)
		err = errors.Join(err, t.lose(ctx, t.goKeys(), t.states[1], s.Lost))
	} else {
		t.requests.take(t.javaName)
		got.java.answer = s.on(ctx, t.java)
		var sent bool
		if got.now, sent = t.requests.javaTime(t.javaName, s); !sent {
			got.now = max(time.Now().UnixMilli(), t.clock.Load())
		}
		t.clock.Store(got.now)
		got.golang.answer = s.on(ctx, t.golang)
	}
	if err = errors.Join(err, ctx.Err()); err != nil {
		return got, err
	}
	states, err := readStates(ctx, t.rdb, t.keys)
	if err != nil {
		return got, err
	}
	t.states = states
	got.java.state, got.golang.state = states[0], states[1]
	return got, nil
}

func (t *twoLimiters) level(ctx context.Context) (state, error) {
	_, err := t.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Del(ctx, t.javaKeys()...)
		for i, key := range t.javaKeys() {
			p.Copy(ctx, t.goKeys()[i], key, 0, true)
		}
		if t.states[1].ends == 0 { // the time to live that Go gives its own pair is not for Java's
			p.Persist(ctx, t.keys[3])
			p.Persist(ctx, t.keys[4])
		}
		return nil
	})
	if err != nil {
		return state{}, err
	}
	states, err := readStates(ctx, t.rdb, t.javaKeys())
	if err != nil {
		return state{}, err
	}
	t.states[0] = states[0]
	return states[0], nil
}
