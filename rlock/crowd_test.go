package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
	"github.com/redisson-go/rratelimiter/rlock"
)

// A Hold is for several goroutines: they lock it again and unlock it all at once. It is held as often as
// both agree, and the last Unlock ends it.
func TestHoldIsSafeForConcurrentUse(t *testing.T) {
	onBoth(t, func(s *env) {
		ctx, name := within(s), redistest.Name(s)
		h := must(s.locks.FencedLock(name).Lock(ctx))(s)
		first := h.Token()
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for range 20 {
					if err := h.Relock(ctx); err != nil {
						s.Error(err)
					}
					_, _, _ = h.Token(), h.Err(), h.Context().Err()
					if err := h.Unlock(ctx); err != nil {
						s.Error(err)
					}
				}
			})
		}
		all.Wait()
		noError(s, h.Err())
		if h.Token() <= first || h.Token() > must(s.locks.FencedLock(name).LastToken(ctx))(s) {
			s.Errorf("token %d, the first was %d", h.Token(), first)
		}
		for range 15 {
			noError(s, h.Relock(ctx))
		}
		var ended atomic.Int64
		for range 20 {
			all.Go(func() {
				if err := h.Unlock(ctx); errors.Is(err, rlock.ErrNotHeld) && !errors.Is(err, rlock.ErrLost) {
					ended.Add(1)
				} else if err != nil {
					s.Error(err)
				}
			})
		}
		all.Wait()
		want(s, "unlocks too many", ended.Load(), 4)
		want(s, "owners", len(s.owners(name)), 0)
	})
}

// Some end the hold while others lock it again. Whoever is first, nothing stays behind.
func TestRelockDuringUnlocksLeavesNothingBehind(t *testing.T) {
	s := onRedis(t)
	ctx := within(t)
	for range redistest.Rounds(t, 100) {
		name := redistest.Name(t)
		h := must(s.locks.Lock(name).Lock(ctx))(t)
		var all sync.WaitGroup
		var again atomic.Int64
		for range 3 {
			all.Go(func() {
				switch err := h.Relock(ctx); {
				case err == nil:
					again.Add(1)
				case !errors.Is(err, rlock.ErrNotHeld) || errors.Is(err, rlock.ErrLost):
					t.Error(err)
				}
			})
			all.Go(func() {
				if err := h.Unlock(ctx); err != nil && !errors.Is(err, rlock.ErrNotHeld) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for h.Err() == nil {
			noError(t, h.Unlock(ctx))
		}
		want(t, "owners", len(s.owners(name)), 0)
	}
}

// A Relock fails while others unlock the hold as often as they have it. Then it is held no more, though
// none of the Unlocks was the last.
func TestFailedRelockDuringUnlocksEndsTheHold(t *testing.T) {
	r := viaProxy(t)
	ctx := within(t)
	h := must(r.lock().Lock(ctx))(t)
	short, leave := context.WithCancel(ctx)
	c := r.holds(isLock, func() error { return h.Relock(short) })
	noError(t, h.Unlock(ctx))
	noError(t, h.Err())
	leave()
	wantErr(t, "Relock", comes(t, c.result), context.Canceled)
	wantEnded(t, "Err", h.Err())
	want(t, "the cause of its context's end", context.Cause(h.Context()), context.Canceled)
	r.free(r.name)
	c.arrives()
	want(t, "owners after the late copy", len(r.owners(r.name)), 0)
}

// Without pub/sub a waiter gets the lock when the lease that it has read expires, and does not ask earlier.
// In the same process Unlock notifies it.
func TestWaitersAreServedWithoutPubSub(t *testing.T) {
	t.Parallel()
	for what, rights := range map[string][]string{
		"subscribe": {"allchannels", "+@all", "-subscribe"},
		"channel":   {"resetchannels", "+@all"},
		"publish":   {"allchannels", "+@all", "-publish"},
	} {
		t.Run(what, func(t *testing.T) {
			s := onRights(t, append([]string{"allkeys"}, rights...)...)
			ctx, name := within(t), redistest.Name(t)
			start := time.Now()
			const lease = time.Second
			h := must(s.client().Lock(name).LockFor(ctx, lease))(t)
			next := s.starts(ctx, s.locks.Lock(name))
			s.ran(0, 4) // two of the holder; and the waiter asks again when it can subscribe, or cannot
			noError(t, h.Unlock(ctx))
			held := comes(t, next)
			if waited := time.Since(start); what != "publish" && waited < lease/2 {
				t.Errorf("it has the lock after %v without a message", waited)
			}
			if n := s.scripts(); n > 12 {
				t.Errorf("%d scripts", n)
			}
			next = s.starts(ctx, s.locks.Lock(name))
			noError(t, held.Unlock(ctx))
			noError(t, comes(t, next).Unlock(ctx))
			s.free(name)
		})
	}
}

// onRights returns an env whose client is a user of some rights.
func onRights(t *testing.T, rights ...string) *env {
	t.Helper()
	t.Parallel()
	server := redistest.Start(t)
	s := newEnv(t, server.Client(t, func(o *redis.Options) { o.Username, o.Password = "app", "any" }),
		server.Admin())
	s.allow(rights...)
	return s
}

// allow gives these rights to the user.
func (s *env) allow(rights ...string) {
	s.Helper()
	redistest.Allow(s, "app", append([]string{"on", "nopass"}, rights...), s.look.(*redis.Client))
}

// A thousand messages without an unlock cost fewer script calls: the first waiter asks once for all
// messages that arrived during its request, and the rest of the line does not ask.
func TestManyMessagesCostFewScripts(t *testing.T) {
	r := viaProxy(t)
	ctx := within(t)
	h := must(r.rival().Lock(ctx))(t)
	before := r.scripts()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { r.passes(ctx, r.lock()) })
	}
	r.ran(before, 2)
	const messages = 1000
	pipe := r.look.Pipeline()
	for range messages {
		pipe.Publish(ctx, "redisson_lock__channel:{"+r.name+"}", "0")
	}
	_, err := pipe.Exec(ctx)
	noError(t, err)
	time.Sleep(100 * time.Millisecond) // for what it may still ask
	if n := r.scripts() - before; n > messages/2 {
		t.Errorf("%d scripts for %d messages", n, messages)
	}
	noError(t, h.Unlock(ctx))
	all.Wait()
}

// A hand-over costs two script calls at most in one process, and three where four contend: only the first
// waiter asks.
func TestScriptCallsOfAHandOver(t *testing.T) {
	t.Parallel()
	for processes, most := range map[int]int64{1: 2, 4: 3} {
		t.Run(fmt.Sprint(processes), func(t *testing.T) {
			s := onRedis(t)
			ctx, name := within(t), redistest.Name(t)
			const callers, rounds = 64, 10
			var all sync.WaitGroup
			clients := make([]*rlock.Client, processes)
			for i := range clients {
				clients[i] = s.client()
			}
			for i := range callers {
				all.Go(func() {
					for range rounds {
						s.passes(ctx, clients[i%processes].Lock(name))
					}
				})
			}
			all.Wait()
			calls := s.scripts()
			t.Logf("%.2f script calls for each hand-over", float64(calls)/(callers*rounds))
			if calls > most*callers*rounds {
				t.Errorf("%d script calls for %d hand-overs", calls, callers*rounds)
			}
		})
	}
}

// A server without memory still unlocks, also where the lock would be handed over. The waiter gets the
// error of the server.
func TestUnlockWorksWithoutMemory(t *testing.T) {
	r := viaProxy(t)
	ctx := within(t)
	h := must(r.lock().Lock(ctx))(t)
	before := r.scripts()
	waiter := async(func() error { return errOf(r.lock().Lock(ctx)) })
	r.ran(before, 2)
	noError(t, r.look.ConfigSet(ctx, "maxmemory", "1").Err())
	if err := h.Unlock(ctx); err != nil {
		t.Errorf("Unlock: %v", err)
	}
	if err := comes(t, waiter); !redis.HasErrorPrefix(err, "OOM") {
		t.Errorf("the waiter: %v, want OOM", err)
	}
	r.free(r.name)
}

// A process that has unlocked waits 10 ms if it has notified other clients. A caller whose wait ends
// earlier asks at once, because the lock is free.
func TestNotifiedClientsGoFirst(t *testing.T) {
	inBubble(t, func(s *env) {
		ctx, name := s.Context(), redistest.Name(s)
		lock := s.locks.Lock(name)
		other := s.look.Subscribe(ctx, wire.LockKeysOf(name).Channel) // is notified, and does not ask
		must(other.Receive(ctx))(s)
		other.Channel()
		for wait, takes := range map[time.Duration]time.Duration{
			5 * time.Millisecond: 0, time.Minute: 10 * time.Millisecond,
		} {
			noError(s, must(lock.Lock(ctx))(s).Unlock(ctx))
			start := time.Now()
			h := took(lock.TryLock(ctx, wait, 0))(s)
			want(s, fmt.Sprintf("the time it took, of %v", wait), time.Since(start), takes)
			noError(s, h.Unlock(ctx))
			time.Sleep(time.Second)
		}
		noError(s, other.Close())
	})
}

// A process that held the lock for longer than 10 ms also waits 10 ms at the next unlock if it has notified
// two clients: only one of them got the lock meanwhile, and Java is slower than Go.
func TestEachNotifiedClientGetsATurn(t *testing.T) {
	inBubble(t, func(s *env) {
		ctx := s.Context()
		for held, takes := range map[time.Duration]time.Duration{
			time.Millisecond: 0, 20 * time.Millisecond: 10 * time.Millisecond,
		} {
			name := redistest.Name(s)
			channel := wire.LockKeysOf(name).Channel
			var others []*redis.PubSub
			for range 2 {
				other := s.look.Subscribe(ctx, channel)
				must(other.Receive(ctx))(s)
				other.Channel()
				others = append(others, other)
			}
			h := must(s.locks.Lock(name).Lock(ctx))(s)
			time.Sleep(held)
			noError(s, h.Unlock(ctx))
			noError(s, s.look.HSet(ctx, name, "java:1", 1).Err())
			next := s.waits(ctx, s.locks.Lock(name))
			time.Sleep(time.Second)
			noError(s, s.look.Del(ctx, name).Err())
			start := time.Now()
			noError(s, s.look.Publish(ctx, channel, "0").Err())
			h = <-next
			want(s, fmt.Sprintf("the time it took after a hold of %v", held), time.Since(start), takes)
			noError(s, h.Unlock(ctx))
			for _, other := range others {
				noError(s, other.Close())
			}
		}
	})
}
