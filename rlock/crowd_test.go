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

// A Hold is for several goroutines: they lock it again and unlock it all at once. It is held as
// often as both agree, and the last Unlock ends it.
func TestAHoldThatIsShared(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *stage) {
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
func TestRelockWhileItEnds(t *testing.T) {
	t.Parallel()
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

// A Relock fails while others unlock the hold as often as they have it. Then it is held no more,
// though none of the Unlocks was the last.
func TestARelockThatFailsWhileItEnds(t *testing.T) {
	t.Parallel()
	r := onRoad(t)
	ctx := within(t)
	h := must(r.lock().Lock(ctx))(t)
	short, leave := context.WithCancel(ctx)
	c := r.holds(isLock, func() error { return h.Relock(short) })
	noError(t, h.Unlock(ctx))
	noError(t, h.Err())
	leave()
	if err := comes(t, c.told); !errors.Is(err, context.Canceled) {
		t.Errorf("Relock: %v", err)
	}
	if err := h.Err(); !errors.Is(err, rlock.ErrNotHeld) || errors.Is(err, rlock.ErrLost) {
		t.Errorf("Err: %v, want ErrNotHeld", err)
	}
	want(t, "the cause of its context's end", context.Cause(h.Context()), context.Canceled)
	r.free(r.name)
	c.arrives()
	want(t, "owners after the late copy", len(r.owners(r.name)), 0)
}

// Without pub/sub a waiter has the lock when the time is over that Redis told it, and does not
// ask before. In the same process it is told by the Unlock.
func TestWithoutPubSub(t *testing.T) {
	t.Parallel()
	for what, user := range map[string][]string{
		"subscribe": {"allchannels", "+@all", "-subscribe"},
		"channel":   {"resetchannels", "+@all"},
		"publish":   {"allchannels", "+@all", "-publish"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			args := append([]any{"ACL", "SETUSER", "app", "on", "nopass", "allkeys"}, boxed(user)...)
			noError(t, server.Admin().Do(t.Context(), args...).Err())
			user := func(o *redis.Options) { o.Username, o.Password = "app", "any" }
			s := newStage(t, server.Client(t, user),
				server.Admin())
			ctx, name := within(t), redistest.Name(t)
			start := time.Now()
			const lease = time.Second
			h := must(s.client().Lock(name).LockFor(ctx, lease))(t)
			next := make(chan *rlock.Hold, 1)
			go func() {
				h, err := s.locks.Lock(name).Lock(ctx)
				if err != nil {
					t.Error(err)
				}
				next <- h
			}()
			redistest.Until(t, "a waiter", func() error {
				// Two of the holder; and the waiter asks again when it can subscribe, or cannot.
				if s.scripts() < 4 {
					return errors.New("not yet")
				}
				return nil
			})
			noError(t, h.Unlock(ctx))
			held := comes(t, next)
			if waited := time.Since(start); what != "publish" && waited < lease/2 {
				t.Errorf("it has the lock after %v, and nobody has told it", waited)
			}
			if n := s.scripts(); n > 12 {
				t.Errorf("%d scripts", n)
			}
			go func() {
				h, err := s.locks.Lock(name).Lock(ctx)
				if err != nil {
					t.Error(err)
				}
				next <- h
			}()
			noError(t, held.Unlock(ctx))
			noError(t, comes(t, next).Unlock(ctx))
			s.free(name)
		})
	}
}

func boxed(texts []string) (all []any) {
	for _, text := range texts {
		all = append(all, text)
	}
	return all
}

// A thousand messages that tell of no unlock cost fewer script calls: who waits asks once for
// all that came while it asked, and the others in line do not ask.
func TestMessageStorm(t *testing.T) {
	t.Parallel()
	r := onRoad(t)
	ctx := within(t)
	h := must(r.rival().Lock(ctx))(t)
	before := r.scripts()
	next := make(chan error, 20)
	for range cap(next) {
		go func() {
			h, err := r.lock().Lock(ctx)
			if err == nil {
				err = h.Unlock(ctx)
			}
			next <- err
		}()
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
	} else {
		t.Logf("%d scripts for %d messages", n, messages)
	}
	noError(t, h.Unlock(ctx))
	for range cap(next) {
		noError(t, comes(t, next))
	}
}

// A hand-over costs two script calls at most in one process, and three where four contend:
// who is not first does not ask.
func TestScriptCallsOfAHandOver(t *testing.T) {
	t.Parallel()
	for processes, most := range map[int]int64{1: 2, 4: 3} {
		t.Run(fmt.Sprint(processes), func(t *testing.T) {
			t.Parallel()
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
						h, err := clients[i%processes].Lock(name).Lock(ctx)
						if err == nil {
							err = h.Unlock(ctx)
						}
						if err != nil {
							t.Error(err)
							return
						}
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

// A server without memory for anything new lets go of locks all the same, also where they would
// be handed on. Who waits is told why it does not get one.
func TestAServerThatIsFull(t *testing.T) {
	t.Parallel()
	r := onRoad(t)
	ctx := within(t)
	h := must(r.lock().Lock(ctx))(t)
	before := r.scripts()
	waiter := make(chan error, 1)
	go func() {
		_, err := r.lock().Lock(ctx)
		waiter <- err
	}()
	r.ran(before, 2)
	noError(t, r.look.ConfigSet(ctx, "maxmemory", "1").Err())
	if err := h.Unlock(ctx); err != nil && !redis.HasErrorPrefix(err, "OOM") {
		t.Errorf("Unlock: %v", err)
	}
	if err := comes(t, waiter); !redis.HasErrorPrefix(err, "OOM") {
		t.Errorf("the waiter: %v, want OOM", err)
	}
	r.free(r.name)
}

// A process that has unlocked waits 10 ms if it has told others. A caller who has less time than
// that asks at once: the lock is free.
func TestThoseWhoWereToldGoFirst(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		ctx, name := s.Context(), redistest.Name(s)
		lock := s.locks.Lock(name)
		other := s.look.Subscribe(ctx, wire.LockKeysOf(name).Channel) // is told, and does not come
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

// A process that had the lock for longer than 10 ms also waits so long at the next unlock, if it
// has told two others: only one of them had the lock meanwhile, and Java is slower than Go.
func TestAllWhoWereToldHaveATurn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
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
			next := make(chan *rlock.Hold, 1)
			go func() { next <- must(s.locks.Lock(name).Lock(ctx))(s) }()
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
