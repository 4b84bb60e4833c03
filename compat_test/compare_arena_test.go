package compat_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// An arena is what sequences are played in for real: a server, Redisson
// instances whose requests are looked at on their way to it, and Go.
type arena struct {
	rdb   *redis.Client
	javas []*javaSide
	saw   *witness
}

// newArena starts one that ends with the spec or container that it is for.
func newArena(ctx context.Context) *arena {
	GinkgoHelper()
	s := redistest.Start(GinkgoT())
	proxy := redistest.StartProxy(GinkgoT(), s.Addr)
	a := &arena{
		rdb: s.Client(GinkgoT(), func(o *redis.Options) { o.PoolSize = workers }),
		saw: &witness{last: map[string][]string{}},
	}
	proxy.Observe(a.saw.see)
	for i := range 4 {
		j := &javaSide{client: fmt.Sprint(redistest.Name(GinkgoT()), i)}
		var err error
		// A request that is sent twice is charged twice (B4), and a machine may be busy.
		j.id, err = peer.Connect(ctx, j.client, proxy.Addr, javapeer.Timeout(time.Minute))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { _ = peer.Disconnect(context.Background(), j.client) })
		a.javas = append(a.javas, j)
	}
	return a
}

// A witness keeps the last script call for each limiter.
type witness struct {
	mu   sync.Mutex
	last map[string][]string
}

func (w *witness) see(args []string) {
	const name = 3 // after the command, the script and the number of keys
	if len(args) > name && strings.HasPrefix(strings.ToLower(args[0]), "eval") {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.last[args[name]] = args
	}
}

// take returns the last call for a limiter and forgets it.
func (w *witness) take(name string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	args := w.last[name]
	delete(w.last, name)
	return args
}

// javaTime is the time that Java has sent with a step, if it has sent one.
func (w *witness) javaTime(name string, s step) (now int64, sent bool) {
	const first = 8 // argument, behind five keys
	args, at := w.take(name), 0
	switch {
	case s.op == tryAcquire:
		at = first + 1
	case s.op == availablePermits:
		at = first
	case s.op == updateRate, s.op == setRate && s.keepState:
		at = first + 4
	}
	if at == 0 || len(args) <= at {
		return 0, false
	}
	now, err := strconv.ParseInt(args[at], 10, 64)
	return now, err == nil
}

// A worker plays one sequence at a time: one Redisson instance, and a Go client
// whose clock it sets.
type worker struct {
	*arena
	java, goes side
	client     *rratelimiter.Client
	clock      *atomic.Int64
}

func (a *arena) worker(n int) *worker {
	w := &worker{arena: a, java: a.javas[n%len(a.javas)], clock: &atomic.Int64{}}
	w.client = rratelimiter.New(a.rdb, rratelimiter.WithClock(func() time.Time { return time.UnixMilli(w.clock.Load()) }))
	w.goes = &goSide{c: w.client}
	return w
}

// pause waits for a part of the sequence to pass, unless ctx ends.
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

// loses makes real what is lost from a limiter that is seen as w.
func (a *arena) loses(ctx context.Context, keys []string, w world, part string) error {
	pair := keys[1+2*w.settings().typ:]
	switch part {
	case "hash":
		return a.rdb.Del(ctx, keys[0]).Err()
	case "value":
		return a.rdb.Del(ctx, pair[0]).Err()
	case "permits":
		return a.rdb.Del(ctx, pair[1]).Err()
	}
	return a.rdb.HDel(ctx, keys[0], part).Err()
}

// twins is a stage for two limiters, one of Java and one of Go, where Go has
// the clock of Java.
type twins struct {
	*worker
	names        [2]string
	keys         []string // five of Java's, five of Go's
	java, goes   limiter
	javas, gones world
}

func (w *worker) twins() *twins {
	t := &twins{worker: w, names: [2]string{redistest.Name(GinkgoT()), redistest.Name(GinkgoT())}}
	t.keys = append(five(t.names[0], w.java.ID()), five(t.names[1], w.goes.ID())...)
	t.java, t.goes = w.java.limiter(t.names[0]), w.goes.limiter(t.names[1])
	return t
}

// close removes what the sequence has left.
func (t *twins) close(ctx context.Context) { t.rdb.Unlink(ctx, t.keys...) }

func (t *twins) play(ctx context.Context, s step) (java, goes outcome, now int64, err error) {
	pause(ctx, s.pause)
	if s.op == lose {
		now = time.Now().UnixMilli()
		if err = t.loses(ctx, t.keys[:5], t.javas, s.part); err == nil {
			err = t.loses(ctx, t.keys[5:], t.gones, s.part)
		}
	} else {
		t.saw.take(t.names[0])
		java.answer = s.ask(ctx, t.java)
		sent := false
		if now, sent = t.saw.javaTime(t.names[0], s); !sent {
			now = max(time.Now().UnixMilli(), t.clock.Load())
		}
		t.clock.Store(now)
		goes.answer = s.ask(ctx, t.goes)
	}
	if err = errors.Join(err, ctx.Err()); err != nil {
		return java, goes, now, err
	}
	ws, err := worlds(ctx, t.rdb, t.keys)
	if err == nil {
		java.world, goes.world = ws[0], ws[1]
		t.javas, t.gones = ws[0], ws[1]
	}
	return java, goes, now, err
}

func (t *twins) level(ctx context.Context) (world, error) {
	_, err := t.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Del(ctx, t.keys[:5]...)
		for i, key := range t.keys[:5] {
			p.Copy(ctx, t.keys[5+i], key, 0, true)
		}
		if t.gones.ends == 0 { // what Go gives its own pair is not for Java's
			p.Persist(ctx, t.keys[3])
			p.Persist(ctx, t.keys[4])
		}
		return nil
	})
	if err != nil {
		return world{}, err
	}
	ws, err := worlds(ctx, t.rdb, t.keys[:5])
	if err == nil {
		t.javas = ws[0]
		return ws[0], nil
	}
	return world{}, err
}
