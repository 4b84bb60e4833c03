package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// A fairRoad is a lock that is reached through a proxy. rival is the same lock in another
// process, which goes another way.
type fairRoad struct {
	*fairStage
	proxy       *redistest.Proxy
	mine, rival *rlock.FairLock
}

// onFairRoad returns a road whose server knows the scripts.
func onFairRoad(t *testing.T, mods ...func(*redis.Options)) *fairRoad {
	t.Helper()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	rdb := server.Client(t, append(mods, func(o *redis.Options) { o.Addr = proxy.Addr })...)
	s := newFairStage(newStage(t, rdb, server.Admin()))
	limiters := rratelimiter.New(server.Admin())
	t.Cleanup(func() { _ = limiters.Close() })
	r := &fairRoad{s, proxy, s.locks.FairLock(s.name), rlock.New(limiters).FairLock(s.name)}
	noError(t, must(r.rival.Lock(within(t)))(t).Unlock(within(t)))
	return r
}

// fairScript matches a script of a fair lock by how many keys it has.
func fairScript(keys string) func(args []string) bool {
	return func(args []string) bool {
		return len(args) > 2 && strings.HasPrefix(strings.ToLower(args[0]), "eval") && args[2] == keys
	}
}

// A caller whose reply is lost is once in the queue, and takes the lock once.
func TestFairLostReplies(t *testing.T) {
	t.Parallel()
	r := onFairRoad(t)
	ctx := within(t)
	h := must(r.rival.Lock(ctx))(t)
	r.proxy.SwallowReplyTo(1, fairScript("5"))
	next := r.waits(r.mine, 1)
	want(t, "swallowed", r.proxy.Swallowed(), 1)
	want(t, "waiting", len(r.waiting()), 1)
	r.proxy.SwallowReplyTo(1, fairScript("5"))
	noError(t, h.Unlock(ctx))
	h = next.held()
	want(t, "swallowed", r.proxy.Swallowed(), 2)
	want(t, "count", must(h.HoldCount(ctx))(t), 1)
	r.proxy.SwallowReplyTo(1, fairScript("5"))
	noError(t, h.Unlock(ctx))
	want(t, "swallowed", r.proxy.Swallowed(), 3)
	r.free()
}

// A caller that does not learn whether it has the lock gives it back.
func TestFairUnknownOutcome(t *testing.T) {
	t.Parallel()
	r := onFairRoad(t, func(o *redis.Options) { o.MaxRetries = -1 })
	ctx := within(t)
	r.proxy.SwallowReplyTo(1, fairScript("5"))
	if h, err := r.mine.Lock(ctx); h != nil || !errors.Is(err, rratelimiter.ErrNoAnswer) {
		t.Fatalf("Lock: %v, %v; want ErrNoAnswer", h, err)
	}
	noError(t, must(r.rival.LockFor(ctx, time.Minute))(t).Unlock(ctx))
	r.free()
}

// asks has a caller ask for the lock, whose request is on its way until release. leave ends its wait.
func (r *fairRoad) asks(ctx context.Context) (leave, release func()) {
	r.Helper()
	release = r.proxy.HoldNext(1, fairScript("5"))
	leaving, cancel := context.WithCancel(ctx)
	left := make(chan error, 1)
	go func() {
		_, err := r.mine.Lock(leaving)
		left <- err
	}()
	redistest.Until(r, "a request on its way", func() error {
		if r.proxy.Held() == 0 {
			return errors.New("none yet")
		}
		return nil
	})
	return func() {
		r.Helper()
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			r.Errorf("Lock: %v", err)
		}
	}, release
}

// A request that arrives when its caller has left changes nothing.
func TestFairLateCopy(t *testing.T) {
	t.Parallel()
	r := onFairRoad(t)
	ctx := within(t)
	leave, release := r.asks(ctx)
	leave()
	h := took(r.rival.TryLock(ctx, 0, 0))(t)
	release()
	// On the same road, so behind it: what it leaves behind is gone, too.
	redistest.Until(t, "an empty queue", func() error {
		if _, _, err := r.mine.TryLock(ctx, 0, 0); err != nil || len(r.waiting()) > 0 {
			return errors.New("it waits")
		}
		return nil
	})
	noError(t, h.Unlock(ctx))
	r.free()
}

// The latch of a caller that has left stays as long as its request is on the way, and no longer.
func TestFairLatchOutlivesTheAttempt(t *testing.T) {
	t.Parallel()
	r := onFairRoad(t)
	leave, release := r.asks(within(t))
	before := r.scripts()
	leave()
	latches := func() int {
		return len(must(r.look.Keys(within(t), "redisson_unlock_latch:{"+r.name+"}*").Result())(t))
	}
	r.ran(before, 1)  // its place is given up
	r.tidied(r.locks) // what was to be removed by then has been
	want(t, "latches", latches(), 1)
	release()
	redistest.Until(t, "no latch", func() error {
		if n := latches(); n > 0 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	r.free()
}

// A caller that Redis does not reply to returns by the end of its wait.
func TestFairTimeoutIsAPromise(t *testing.T) {
	t.Parallel()
	r := onFairRoad(t, func(o *redis.Options) { o.ReadTimeout = 2 * patience })
	release := r.proxy.Hold()
	defer release()
	start := time.Now()
	h, ok, err := r.mine.TryLock(within(t), 50*time.Millisecond, 0)
	if waited := time.Since(start); h != nil || ok || waited < 50*time.Millisecond || waited > patience {
		t.Errorf("TryLock: %v, %v, %v after %v; want false after 50ms", h, ok, err, waited)
	}
}
