package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// The specs here record the calls that take and unlock a fenced lock, with their times and results.
// Porcupine then looks for an order of all calls, each between its start and its end, in which the lock has
// one holder at a time and the tokens grow.

// A lockState is all that a lock knows that is asked one call after another.
type lockState struct {
	holder int64 // the number of the hold, 0 if there is none
	token  int64 // the last one
}

// A lockCall is a call: a hold is asked for, or ended.
type lockCall struct {
	hold    int64
	unlocks bool
}

// A lockReply is what it returned. A call that is not ok was refused, or its outcome is unknown. A lock
// that may have been granted then is given back and has no holder.
type lockReply struct {
	ok, unknown bool
	token       int64
}

// lockModel is the lock that is asked one call after another.
var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, output any) (bool, any) {
		s, call, reply := state.(lockState), input.(lockCall), output.(lockReply)
		switch {
		case call.unlocks:
			return s.holder == call.hold, lockState{0, s.token}
		case reply.ok:
			return s.holder == 0 && reply.token > s.token, lockState{call.hold, reply.token}
		}
		return s.holder != 0, s // refused
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// A history is the calls on a lock and their results.
type history struct {
	*testing.T
	sure  bool // nothing is lost and no caller leaves: a refusal means that the lock is held
	ticks atomic.Int64
	holds atomic.Int64

	mu  sync.Mutex
	ops []porcupine.Operation // guarded by mu
}

// does makes a call and records it. A call whose outcome is unknown may still happen.
func (h *history) does(client int, call lockCall, do func() lockReply) lockReply {
	start := h.ticks.Add(1)
	reply := do()
	end := h.ticks.Add(1)
	switch {
	case call.unlocks && reply.unknown:
		end = math.MaxInt64
	case !call.unlocks && !reply.ok && !h.sure: // it says nothing
		return reply
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: call, Call: start, Output: reply,
		Return: end})
	return reply
}

// takes has a caller hold the lock once, for a moment.
func (h *history) takes(ctx context.Context, client int, lock *rlock.FencedLock) {
	call := lockCall{hold: h.holds.Add(1)}
	var hold *rlock.Hold
	reply := h.does(client, call, func() lockReply {
		var err error
		var ok bool
		switch n := rand.IntN(4); {
		case n == 0:
			hold, ok, err = lock.TryLock(ctx, 0, 0)
		case n == 1 && !h.sure: // what it is granted when it has left keeps others out for a moment
			hold, ok, err = lock.TryLock(ctx, time.Duration(rand.IntN(3000))*time.Microsecond, 0)
		default:
			hold, err = lock.Lock(ctx)
			ok = err == nil
		}
		if !ok {
			return lockReply{unknown: h.unknown(err)}
		}
		return lockReply{ok: true, token: hold.Token()}
	})
	if !reply.ok {
		return
	}
	if rand.IntN(3) == 0 && hold.Relock(ctx) == nil {
		_ = hold.Unlock(ctx) // if its reply is lost, the hold continues
	}
	call.unlocks = true
	h.does(client, call, func() lockReply {
		err := hold.Unlock(ctx)
		return lockReply{ok: err == nil, unknown: h.unknown(err)}
	})
}

// unknown reports whether an error leaves open what has become of a call.
func (h *history) unknown(err error) bool {
	if err != nil && (h.sure || !errors.Is(err, rratelimiter.ErrNoAnswer)) {
		h.Error(err)
	}
	return err != nil
}

// runs has callers of each client take the lock so often, all at once.
func (h *history) runs(ctx context.Context, locks []*rlock.FencedLock, rounds int) {
	var all sync.WaitGroup
	for i, lock := range locks {
		for caller := range 3 {
			all.Go(func() {
				for range rounds {
					h.takes(ctx, i*3+caller, lock)
				}
			})
		}
	}
	all.Wait()
}

// explained reports whether there is an order that explains the history.
func (h *history) explained() bool {
	h.Helper()
	result, info := porcupine.CheckOperationsVerbose(lockModel, h.ops, time.Minute)
	switch result {
	case porcupine.Unknown:
		h.Errorf("%d calls are too many to tell", len(h.ops))
	case porcupine.Illegal:
		path := filepath.Join(h.ArtifactDir(), "history.html")
		if err := porcupine.VisualizePath(lockModel, info, path); err != nil {
			h.Error(err)
		}
		h.Logf("%d calls; see %s (go test -artifacts keeps it)", len(h.ops), path)
	}
	return result == porcupine.Ok
}

// Histories of callers in several processes, over a good line and over a bad one: replies are lost,
// requests too, connections break.
func TestHistories(t *testing.T) {
	t.Parallel()
	for _, bad := range []bool{false, true} {
		t.Run(fmt.Sprintf("bad %v", bad), func(t *testing.T) {
			r := viaProxy(t)
			once := r.server.Client(t, func(o *redis.Options) { o.Addr = r.proxy.Addr }, sendsOnce)
			locks, _ := open(t, once)
			for range redistest.Rounds(t, 3) {
				h := &history{T: t, sure: !bad}
				name := redistest.Name(t)
				stop := func() {}
				if bad {
					stop = r.storm()
				}
				ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
				h.runs(ctx, []*rlock.FencedLock{r.locks.FencedLock(name), r.client().FencedLock(name),
					locks.FencedLock(name), r.other.FencedLock(name)}, 20)
				cancel()
				stop()
				if !h.explained() {
					t.Error("no order explains the results")
				}
				r.free(name)
			}
			if n := r.proxy.Swallowed() + r.proxy.Held(); bad && n < 20 {
				t.Errorf("%d replies and requests were lost", n)
			}
		})
	}
}

// storm breaks connections, loses replies and holds requests back until stop is called.
func (r *proxied) storm() (stop func()) {
	var scripts atomic.Int64
	done := make(chan struct{})
	often := func(each int64) func(args []string) bool {
		return func(args []string) bool { return keysOf(args) != "" && scripts.Add(1)%each == 0 }
	}
	r.proxy.SwallowReplyTo(30, often(13))
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			release := r.proxy.HoldNext(1, often(7))
			select {
			case <-tick.C:
				r.proxy.Cut()
				time.AfterFunc(50*time.Millisecond, release)
			case <-done:
				release()
				return
			}
		}
	})
	return func() { close(done); all.Wait() }
}

// The model rejects an unlock by another owner, and all other histories that no lock can have.
func TestWrongHistoriesAreRejected(t *testing.T) {
	t.Parallel()
	t.Run("unlocked by others", func(t *testing.T) {
		s := onRedis(t)
		h, name := &history{T: t}, redistest.Name(t)
		ctx, cancel := context.WithCancel(within(t))
		defer cancel()
		first := must(s.locks.FencedLock(name).Lock(ctx))(t)
		var second *rlock.Hold
		h.does(0, lockCall{hold: 1}, func() lockReply { return lockReply{ok: true, token: first.Token()} })
		must(s.locks.Lock(name).ForceUnlock(ctx))(t)
		h.does(1, lockCall{hold: 2}, func() lockReply {
			second = must(s.client().FencedLock(name).Lock(ctx))(t)
			return lockReply{ok: true, token: second.Token()}
		})
		if h.explained() {
			t.Error("two holders at once are thought to be right")
		}
	})
	take := func(hold, token int64) porcupine.Operation {
		return porcupine.Operation{Input: lockCall{hold: hold}, Output: lockReply{ok: true, token: token}}
	}
	refused := porcupine.Operation{Input: lockCall{hold: 9}, Output: lockReply{}}
	unlock := func(hold int64) porcupine.Operation {
		return porcupine.Operation{Input: lockCall{hold: hold, unlocks: true}, Output: lockReply{ok: true}}
	}
	for name, c := range map[string]struct {
		before       []porcupine.Operation
		right, wrong porcupine.Operation
	}{
		"two holders":           {[]porcupine.Operation{take(1, 1)}, unlock(1), take(2, 2)},
		"the same token":        {[]porcupine.Operation{take(1, 1), unlock(1)}, take(2, 2), take(2, 1)},
		"unlocked twice":        {[]porcupine.Operation{take(1, 1), unlock(1)}, take(2, 2), unlock(1)},
		"unlocked by others":    {[]porcupine.Operation{take(1, 1)}, unlock(1), unlock(2)},
		"refused without need":  {[]porcupine.Operation{take(1, 1), unlock(1)}, take(2, 2), refused},
		"refused with a holder": {[]porcupine.Operation{take(1, 1)}, refused, take(9, 2)},
	} {
		for want, last := range map[bool]porcupine.Operation{true: c.right, false: c.wrong} {
			h := &history{T: t}
			for i, op := range append(append([]porcupine.Operation{}, c.before...), last) {
				op.Call, op.Return = int64(2*i), int64(2*i+1)
				h.ops = append(h.ops, op)
			}
			if got := h.explained(); got != want {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
		}
	}
}
