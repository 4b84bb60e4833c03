package rlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// A fairProxied is a proxied with a fair lock, mine in this process and rival in the other one.
type fairProxied struct {
	*fairEnv
	proxy       *redistest.Proxy
	mine, rival *rlock.FairLock
}

func fairViaProxy(t *testing.T, mods ...func(*redis.Options)) *fairProxied {
	t.Helper()
	r := viaProxy(t, mods...)
	fair := fairEnvOf(r.env, redistest.Name(t))
	rival := r.other.FairLock(fair.name)
	noError(t, pass(t.Context(), rival)) // the server knows the scripts
	r.tidied(r.other)
	return &fairProxied{fair, r.proxy, r.locks.FairLock(fair.name), rival}
}

// isFair reports whether a request runs the script that takes or unlocks a fair lock, which has five keys.
func isFair(args []string) bool { return keysOf(args) == "5" }

// A caller whose reply is lost is once in the queue, and takes the lock once.
func TestFairLostReplies(t *testing.T) {
	r := fairViaProxy(t)
	ctx := within(t)
	h := must(r.rival.Lock(ctx))(t)
	r.proxy.SwallowReplyTo(1, isFair)
	next := r.waits(r.mine, 1)
	want(t, "swallowed", r.proxy.Swallowed(), 1)
	want(t, "waiting", len(r.waiting()), 1)
	r.proxy.SwallowReplyTo(1, isFair)
	noError(t, h.Unlock(ctx))
	h = next.held()
	want(t, "swallowed", r.proxy.Swallowed(), 2)
	want(t, "count", must(h.HoldCount(ctx))(t), 1)
	r.proxy.SwallowReplyTo(1, isFair)
	noError(t, h.Unlock(ctx))
	want(t, "swallowed", r.proxy.Swallowed(), 3)
	r.free()
}

// A caller that does not learn whether it has the lock gives it back.
func TestFairUnknownOutcome(t *testing.T) {
	r := fairViaProxy(t, sendsOnce)
	ctx := within(t)
	r.proxy.SwallowReplyTo(1, isFair)
	wantErr(t, "Lock", errOf(r.mine.Lock(ctx)), rratelimiter.ErrNoAnswer)
	noError(t, must(r.rival.LockFor(ctx, time.Minute))(t).Unlock(ctx))
	r.free()
}

// asks has a caller ask for the lock, whose request is on its way until release. leave ends its wait.
func (r *fairProxied) asks(ctx context.Context) (leave, release func()) {
	r.Helper()
	release = r.proxy.HoldNext(1, isFair)
	leaving, cancel := context.WithCancel(ctx)
	left := async(func() error { return errOf(r.mine.Lock(leaving)) })
	redistest.Eventually(r, "a request on its way", func() bool { return r.proxy.Held() != 0 })
	return func() {
		r.Helper()
		cancel()
		wantErr(r, "Lock", <-left, context.Canceled)
	}, release
}

// A request that arrives when its caller has left changes nothing.
func TestFairLateCopy(t *testing.T) {
	r := fairViaProxy(t)
	ctx := within(t)
	leave, release := r.asks(ctx)
	leave()
	h := took(r.rival.TryLock(ctx, 0, 0))(t)
	release()
	// Sent after it through the same proxy: what that request leaves behind is also removed.
	redistest.Eventually(t, "an empty queue", func() bool {
		_, _, err := r.mine.TryLock(ctx, 0, 0)
		return err == nil && len(r.waiting()) == 0
	})
	noError(t, h.Unlock(ctx))
	r.free()
}

// The idempotency key of a caller that has left stays until its request has arrived, and no longer.
func TestFairIdempotencyKeyOutlivesTheAttempt(t *testing.T) {
	r := fairViaProxy(t)
	leave, release := r.asks(within(t))
	before := r.scripts()
	leave()
	r.ran(before, 1)  // its place is given up
	r.tidied(r.locks) // what was to be removed by then has been
	want(t, "idempotency keys", r.idempotencyKeys(r.name), 1)
	release()
	redistest.Eventually(t, "no idempotency key", func() bool { return r.idempotencyKeys(r.name) == 0 })
	r.free()
}

// A caller whose wait ends leaves the queue of a server without memory as well.
func TestFairWaiterLeavesWithoutMemory(t *testing.T) {
	r := fairViaProxy(t)
	ctx := within(t)
	h := must(r.rival.Lock(ctx))(t)
	turn := r.waits(r.mine, 1)
	noError(t, r.look.ConfigSet(ctx, "maxmemory", "1").Err())
	turn.stop()
	wantErr(t, "Lock", <-turn.err, context.Canceled)
	redistest.Eventually(t, "an empty queue", func() bool { return len(r.waiting()) == 0 })
	noError(t, h.Unlock(ctx))
	r.free()
}

// A caller whose turn comes before its subscription is there asks when it is.
func TestFairTurnBeforeTheSubscription(t *testing.T) {
	fairInBubble(t, func(s *fairEnv) {
		ctx := s.Context()
		lock := s.lock()
		h := must(lock.Lock(ctx))(s)
		first := s.waits(lock, 1)
		gate := make(chan struct{})
		s.deny(func(command string, _ ...string) bool {
			if command == "SUBSCRIBE" {
				<-gate
			}
			return false
		})
		second := s.env.waits(ctx, lock)
		first.stop()
		synctest.Wait()
		noError(s, h.Unlock(ctx)) // the second does not hear it
		start := time.Now()
		close(gate)
		noError(s, (<-second).Unlock(ctx))
		want(s, "waited", time.Since(start), 0)
	})
}
