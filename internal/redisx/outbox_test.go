package redisx

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A watch counts what a client sends alone and in pipelines,
// with the trace that each belongs to.
type watch struct {
	mu        sync.Mutex // guards the fields below
	alone     int
	pipelines []int // commands in each
	traces    []any
}

type traceKey struct{}

func (w *watch) note(ctx context.Context, cmds ...redis.Cmder) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if trace := ctx.Value(traceKey{}); trace != nil {
		w.traces = append(w.traces, trace)
	}
	if len(cmds) == 1 {
		w.alone++
	} else {
		w.pipelines = append(w.pipelines, len(cmds))
	}
	return nil
}

// A crowd is calls behind others that hang: all places are taken, and do not become overdue.
type crowd struct {
	*path
	*watch
	call    *Call
	release func() // lets those that hang go on
	wg      sync.WaitGroup
}

// newCrowd makes the first held scripts hang, of which pipelinesAtOnce are sent.
func newCrowd(t *testing.T, held int, mods ...func(*redis.Options)) *crowd {
	t.Helper()
	patient := func(o *redis.Options) { o.ReadTimeout = time.Minute } // for those that hang on a busy machine
	mods = append([]func(*redis.Options){patient}, mods...)
	c := &crowd{path: newPath(t, mods...), watch: &watch{}, call: counts(true)}
	c.knows(c.call.Script)
	c.release = c.proxy.HoldNext(held, redistest.IsScript)
	for i := range pipelinesAtOnce { // one by one: an overdue call would lose its place to the next
		c.comes(t.Context(), nil)
		redistest.Eventually(t, "a call under way", func() bool { return c.busy() > i })
		c.look(func(o *outbox) { o.underWay[i].began = time.Now().Add(time.Hour) })
	}
	redistest.Eventually(t, "calls that hang", func() bool { return c.proxy.Held() == pipelinesAtOnce })
	c.client().AddHook(redistest.Hook(c.watch.note))
	t.Cleanup(c.wg.Wait)
	t.Cleanup(c.release)
	return c
}

func (c *crowd) outbox() *outbox { return &c.runner.outboxes.single }

// look calls f, which looks at the outbox.
func (c *crowd) look(f func(o *outbox)) {
	o := c.outbox()
	o.mu.Lock()
	defer o.mu.Unlock()
	f(o)
}

// busy returns how many pipelines are under way.
func (c *crowd) busy() (n int) {
	c.look(func(o *outbox) {
		for _, p := range o.underWay {
			if p.busy {
				n++
			}
		}
	})
	return n
}

// waiting returns how many commands are in the outbox.
func (c *crowd) waiting() (n int) {
	c.look(func(o *outbox) { n = len(o.waiting) })
	return n
}

// ends releases all callers, waits for them, and expects the script to have run carriedOut times.
func (c *crowd) ends(carriedOut int64) {
	c.Helper()
	c.release()
	c.wg.Wait()
	c.count(carriedOut)
}

// client returns the client under test.
func (p *path) client() *redis.Client {
	p.Helper()
	rdb, ok := p.runner.rdb.(*redis.Client)
	if !ok {
		p.Fatalf("%T", p.runner.rdb)
	}
	return rdb
}

// comes runs the call in a goroutine, and passes the outcome to check before it closes ended.
func (c *crowd) comes(ctx context.Context, check func(unsure bool, err error)) (ended <-chan struct{}) {
	copied, end := *c.call, make(chan struct{})
	c.wg.Go(func() {
		defer close(end)
		_, unsure, err := c.runner.Run(ctx, &copied)
		switch {
		case check != nil:
			check(unsure, err)
		case err != nil:
			c.Error(err)
		}
	})
	return end
}

// waits waits until n commands are in the outbox.
func (c *crowd) waits(n int) {
	c.Helper()
	redistest.Eventually(c, "commands in the outbox", func() bool { return c.waiting() == n })
}

// A call alone is sent at once, though others that have no reply take all places.
func TestACallAloneWaitsForNoOther(t *testing.T) {
	c := newCrowd(t, pipelinesAtOnce)
	copied := *c.call
	copied.Alone = true
	if _, _, err := c.runner.Run(t.Context(), &copied); err != nil || c.busy() != pipelinesAtOnce {
		t.Errorf("%v, with %d others under way; want none of them to be waited for", err, c.busy())
	}
}

func TestCallsThatWaitTravelTogether(t *testing.T) {
	const callers = 20
	c := newCrowd(t, pipelinesAtOnce)
	for i := range callers {
		c.comes(context.WithValue(t.Context(), traceKey{}, i), nil)
	}
	c.waits(callers)
	c.ends(pipelinesAtOnce + callers)
	// Both pipelines that were held may have appointed a sender.
	if sent := c.alone + len(c.pipelines); len(c.pipelines) == 0 || sent > 2 {
		t.Errorf("%d alone, pipelines of %v commands", c.alone, c.pipelines)
	}
	if len(c.traces) != c.alone {
		t.Errorf("%d alone, and the traces of %v", c.alone, c.traces)
	}
}

func TestALoneCallIsSentWithTheValuesOfItsCaller(t *testing.T) {
	p, w := newPath(t), &watch{}
	call := counts(true)
	p.knows(call.Script)
	p.client().AddHook(redistest.Hook(w.note))
	for i := range 3 {
		if _, _, err := p.runner.Run(context.WithValue(t.Context(), traceKey{}, i), call); err != nil {
			t.Error(err)
		}
	}
	if fmt.Sprint(w.traces) != "[0 1 2]" || w.alone != 3 || len(w.pipelines) > 0 {
		t.Errorf("traces %v, %d alone, pipelines of %v", w.traces, w.alone, w.pipelines)
	}
}

// A hook that panics ends the call of the sender alone: the other calls of its pipeline are sent again.
func TestAPanicInAPipelineEndsNoOtherCall(t *testing.T) {
	const callers = 10
	c := newCrowd(t, pipelinesAtOnce)
	var once sync.Once
	var panics atomic.Int32
	c.client().AddHook(redistest.Hook(func(_ context.Context, cmds ...redis.Cmder) error {
		if len(cmds) > 1 {
			once.Do(func() { panic("a hook") })
		}
		return nil
	}))
	for range callers {
		c.wg.Go(func() {
			defer func() {
				if recover() != nil {
					panics.Add(1)
				}
			}()
			copied := *c.call
			if _, _, err := c.runner.Run(t.Context(), &copied); err != nil {
				c.Error(err)
			}
		})
	}
	c.waits(callers)
	c.ends(pipelinesAtOnce + callers - 1)
	if n := panics.Load(); n != 1 || c.busy() != 0 {
		t.Errorf("%d callers panicked, %d pipelines are under way", n, c.busy())
	}
}

// Each call of a pipeline whose replies are lost is sent again on its own, marked as a copy.
func TestALostPipelineIsSentAgainOneByOne(t *testing.T) {
	const callers = 10
	c := newCrowd(t, pipelinesAtOnce)
	var unsure atomic.Int32
	for range callers {
		c.comes(t.Context(), func(lost bool, err error) {
			if lost {
				unsure.Add(1)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	c.waits(callers)
	c.proxy.SwallowReply(1)
	c.release()
	c.wg.Wait()
	// Both calls that hung may have appointed a sender.
	if n := int(unsure.Load()); len(c.pipelines) > 1 || n < callers-1 || c.alone < n {
		t.Fatalf("%d unsure, %d alone, pipelines of %v", n, c.alone, c.pipelines)
	}
}

// A caller leaves while its command waits: the command is not sent.
func TestACallThatIsNotSentYetEndsWithItsContext(t *testing.T) {
	c := newCrowd(t, pipelinesAtOnce)
	ctx, cancel := context.WithCancel(t.Context())
	ended := c.comes(ctx, func(unsure bool, err error) {
		if unsure || !errors.Is(err, context.Canceled) {
			t.Errorf("unsure %v, %v", unsure, err)
		}
	})
	c.waits(1)
	cancel()
	<-ended
	c.ends(pipelinesAtOnce)
}

// The first of two waiting callers leaves when it is to send: the second one sends.
func TestASenderThatLeavesIsSucceeded(t *testing.T) {
	c := newCrowd(t, pipelinesAtOnce)
	first := &outgoing{ctx: t.Context(), cmd: &command{}, since: time.Now(), ready: make(chan place, 1)}
	c.look(func(o *outbox) { o.waiting = append(o.waiting, first) })
	c.comes(t.Context(), nil)
	c.waits(2)
	c.release()
	redistest.Eventually(t, "a place for the first", func() bool { return len(first.ready) == 1 })
	if !c.outbox().remove(first) {
		t.Error("the first was taken, want that it can leave")
	}
	c.ends(pipelinesAtOnce + 1)
}

// Pipelines that hang hold back no other, however many they are.
func TestOverdueCallsHoldBackNoOther(t *testing.T) {
	for _, hanging := range []int{2 * pipelinesAtOnce, maxUnanswered} {
		t.Run(fmt.Sprint(hanging), func(t *testing.T) {
			const callers = 10
			c := &crowd{path: newPath(t), call: counts(true)}
			c.knows(c.call.Script)
			release := c.proxy.HoldNext(hanging, redistest.IsScript)
			defer c.wg.Wait()
			defer release()
			for i := range hanging {
				c.comes(t.Context(), func(bool, error) {})
				redistest.Eventually(t, "a call that hangs", func() bool {
					return c.proxy.Held() == int64(i+1)
				})
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			var served []<-chan struct{}
			for range callers {
				served = append(served, c.comes(ctx, nil))
			}
			for _, ended := range served {
				<-ended
			}
		})
	}
}

// With ContextTimeoutEnabled a caller returns at its deadline, also when another one has sent its command.
func TestADeadlineHoldsInThePipelineOfAnother(t *testing.T) {
	c := newCrowd(t, pipelinesAtOnce+1, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
	c.comes(t.Context(), nil)
	c.waits(1) // it will send
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dated := deadlined{ctx, time.Now().Add(time.Hour)}
	ended := c.comes(dated, func(unsure bool, err error) {
		if !unsure || !errors.Is(err, context.Canceled) {
			t.Errorf("unsure %v, %v", unsure, err)
		}
	})
	c.waits(2)
	var second *outgoing
	c.look(func(o *outbox) {
		second = o.waiting[1]
		o.underWay[0].began = time.Time{} // overdue
	})
	redistest.Eventually(t, "a pipeline", func() (taken bool) {
		c.look(func(*outbox) { taken = second.taken })
		return taken
	})
	cancel()
	<-ended
	c.release()
	c.wg.Wait()
}

// The deadline of the caller that sends a pipeline leaves no call unknown that could not be sent again.
func TestADeadlineLeavesNoOtherCallUnknown(t *testing.T) {
	c := newCrowd(t, pipelinesAtOnce+1, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
	ctx, cancel := context.WithTimeout(t.Context(), 5*leastToSend)
	defer cancel()
	ended := c.comes(ctx, func(bool, error) {}) // it will send
	c.waits(1)
	c.call = counts(false)
	c.comes(t.Context(), func(unsure bool, err error) {
		if unsure || err != nil {
			t.Errorf("unsure %v, %v", unsure, err)
		}
	})
	c.waits(2)
	c.look(func(o *outbox) { o.underWay[0].began = time.Time{} }) // overdue
	<-ended
	c.release()
	c.wg.Wait()
}

type deadlined struct {
	context.Context
	at time.Time
}

func (d deadlined) Deadline() (time.Time, bool) { return d.at, true }

// The caller that sends a pipeline is cancelled while it waits for a connection. The other
// callers do not notice.
func TestACancelledCallerEndsNoOtherCall(t *testing.T) {
	gate, dialed := make(chan struct{}), make(chan struct{})
	var gated atomic.Bool
	c := newCrowd(t, pipelinesAtOnce, func(o *redis.Options) {
		o.ContextTimeoutEnabled, o.MaxRetries = true, -1
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if gated.CompareAndSwap(true, false) {
				close(dialed)
				select {
				case <-gate:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}
	})
	gated.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	c.comes(deadlined{ctx, time.Now().Add(time.Hour)}, func(bool, error) {}) // it will send
	c.waits(1)
	c.comes(t.Context(), func(unsure bool, err error) {
		if unsure || err != nil {
			t.Errorf("unsure %v, %v", unsure, err)
		}
	})
	c.waits(2)
	c.look(func(o *outbox) { o.underWay[0].began = time.Time{} }) // overdue
	<-dialed
	cancel()
	time.AfterFunc(50*time.Millisecond, func() { close(gate) })
	redistest.Eventually(t, "an empty outbox", func() bool {
		return c.busy() <= pipelinesAtOnce && c.waiting() == 0
	})
	c.release()
	c.wg.Wait()
}
