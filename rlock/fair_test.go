package rlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// A fairStage is a stage with a fair lock.
type fairStage struct {
	*stage
	name, queue, scores, channel string
}

// onBothFair is onBoth for a fair lock.
func onBothFair(t *testing.T, spec func(s *fairStage)) {
	t.Helper()
	onBoth(t, func(s *stage) { spec(newFairStage(s)) })
}

func newFairStage(s *stage) *fairStage {
	name := redistest.Name(s)
	return &fairStage{
		stage: s, name: name, queue: "redisson_lock_queue:{" + name + "}",
		scores: "redisson_lock_timeout:{" + name + "}", channel: "redisson_lock__channel:{" + name + "}",
	}
}

// lock returns the lock as one more process sees it.
func (s *fairStage) lock() *rlock.FairLock { return s.client().FairLock(s.name) }

// A turn is a caller that waits for a lock.
type turn struct {
	hold chan *rlock.Hold
	err  chan error
	stop context.CancelFunc
}

// waits has a caller wait for a lock, and returns when it is the last of so many in the
// queue and hears.
func (s *fairStage) waits(lock *rlock.FairLock, length int) *turn {
	s.Helper()
	return s.starts(length, func(ctx context.Context) (*rlock.Hold, error) { return lock.Lock(ctx) })
}

func (s *fairStage) starts(length int, lock func(ctx context.Context) (*rlock.Hold, error)) *turn {
	s.Helper()
	ctx, cancel := context.WithCancel(within(s))
	c := &turn{make(chan *rlock.Hold, 1), make(chan error, 1), cancel}
	go func() {
		h, err := lock(ctx)
		c.hold <- h
		c.err <- err
	}()
	redistest.Until(s, "a place in the queue", func() error {
		queue := s.waiting()
		if len(queue) < length {
			return errors.New("it is not in the queue")
		}
		channel := s.channel + ":" + queue[length-1]
		if s.look.PubSubNumSub(ctx, channel).Val()[channel] == 0 {
			return errors.New("it does not listen")
		}
		return nil
	})
	return c
}

// held returns the hold of a caller when it has it.
func (c *turn) held(t testing.TB) *rlock.Hold {
	t.Helper()
	select {
	case h := <-c.hold:
		noError(t, <-c.err)
		return h
	case <-time.After(patience):
		t.Fatal("it waits for ever")
		return nil
	}
}

// waiting returns the owners in the queue.
func (s *fairStage) waiting() []string {
	s.Helper()
	return must(s.look.LRange(s.Context(), s.queue, 0, -1).Result())(s)
}

// left returns how long the place of an owner lasts.
func (s *fairStage) left(owner string) time.Duration {
	s.Helper()
	score := must(s.look.ZScore(s.Context(), s.scores, owner).Result())(s)
	return time.Until(time.UnixMilli(int64(score)))
}

// put puts an owner of another process into the queue, until its place ends.
func (s *fairStage) put(owner string, left time.Duration) {
	s.Helper()
	ctx := s.Context()
	noError(s, s.look.RPush(ctx, s.queue, owner).Err())
	score := float64(time.Now().Add(left).UnixMilli())
	noError(s, s.look.ZAdd(ctx, s.scores, redis.Z{Score: score, Member: owner}).Err())
}

// free expects that nothing is left of the lock but latches.
func (s *fairStage) free() {
	s.Helper()
	want(s, "keys", must(s.look.Exists(s.Context(), s.name, s.queue, s.scores).Result())(s), 0)
}

// gone waits until nobody is in the queue.
func (s *fairStage) gone() {
	s.Helper()
	redistest.Until(s, "an empty queue", func() error {
		if n := must(s.look.Exists(s.Context(), s.queue, s.scores).Result())(s); n > 0 {
			return errors.New("somebody is in the queue")
		}
		return nil
	})
}

// A fair lock that nobody waits for is in Redis as Java writes it, and gone after Unlock.
func TestFairOnTheWire(t *testing.T) {
	t.Parallel()
	onBothFair(t, func(s *fairStage) {
		ctx := within(s)
		h := must(s.locks.FairLock(s.name).Lock(ctx))(s)
		want(s, "count", must(s.look.HGet(ctx, s.name, h.Owner()).Result())(s), "1")
		noError(s, h.Relock(ctx))
		want(s, "count", must(h.HoldCount(ctx))(s), 2)
		noError(s, h.Unlock(ctx))
		want(s, "IsHeld", must(h.IsHeld(ctx))(s), true)
		want(s, "keys", must(s.look.Exists(ctx, s.queue, s.scores).Result())(s), 0)
		noError(s, h.Unlock(ctx))
		s.free()
		if err := h.Unlock(ctx); !errors.Is(err, rlock.ErrNotHeld) {
			s.Errorf("one Unlock too many: %v", err)
		}
		redistest.Until(s, "no latch", func() error {
			if keys := must(s.look.Keys(ctx, "*").Result())(s); len(keys) > 0 {
				return errors.New(keys[0])
			}
			return nil
		})
	})
}

// Callers of several processes get the lock in the order in which they asked.
func TestFairOrder(t *testing.T) {
	t.Parallel()
	onBothFair(t, func(s *fairStage) {
		ctx := within(s)
		processes := []*rlock.FairLock{s.lock(), s.lock(), s.lock()}
		h := must(processes[0].Lock(ctx))(s)
		var turns []*turn
		for i := range 9 {
			turns = append(turns, s.waits(processes[i%3], i+1))
		}
		order := s.waiting()
		for i, next := range turns {
			noError(s, h.Unlock(ctx))
			h = next.held(s)
			want(s, "owner", h.Owner(), order[i])
		}
		noError(s, h.Unlock(ctx))
		s.free()
	})
}

// A single attempt is refused as long as somebody waits, and leaves nothing behind (I5).
func TestFairTryLockDoesNotOvertake(t *testing.T) {
	t.Parallel()
	onBothFair(t, func(s *fairStage) {
		ctx := within(s)
		lock := s.lock()
		s.put("java:1", time.Hour)
		for range 2 {
			if h, ok, err := lock.TryLock(ctx, 0, 0); h != nil || ok || err != nil {
				s.Fatalf("TryLock: %v, %v, %v; want false", h, ok, err)
			}
		}
		want(s, "waiting", len(s.waiting()), 1)
		want(s, "forced", must(lock.ForceUnlock(ctx))(s), false)
	})
}

// A caller whose wait is over, or whose context ends, leaves the queue, and the order of
// the others stays.
func TestFairLeaves(t *testing.T) {
	t.Parallel()
	onBothFair(t, func(s *fairStage) {
		ctx := within(s)
		lock := s.lock()
		h := must(lock.Lock(ctx))(s)
		if other, ok, err := lock.TryLock(ctx, 20*time.Millisecond, 0); other != nil || ok || err != nil {
			s.Errorf("TryLock: %v, %v, %v; want false", other, ok, err)
		}
		s.gone()
		first, second, third := s.waits(lock, 1), s.waits(lock, 2), s.waits(lock, 3)
		second.stop()
		if err := <-second.err; !errors.Is(err, context.Canceled) {
			s.Errorf("Lock with a context that has ended: %v", err)
		}
		noError(s, h.Unlock(ctx))
		h = first.held(s)
		noError(s, h.Unlock(ctx))
		h = third.held(s)
		noError(s, h.Unlock(ctx))
		s.free()
	})
}

// The head that leaves while the lock is free tells the next one, as Java does not (I10).
func TestFairLeaverTellsTheNext(t *testing.T) {
	t.Parallel()
	onBothFair(t, func(s *fairStage) {
		ctx := within(s)
		lock := s.lock()
		h := must(lock.LockFor(ctx, time.Hour))(s)
		first := s.waits(lock, 1)
		s.put("java:1", time.Hour)
		sub := s.look.Subscribe(ctx, s.channel+":java:1")
		defer sub.Close()
		must(sub.Receive(ctx))(s)
		noError(s, s.look.Del(ctx, s.name).Err()) // nobody is told
		first.stop()
		<-first.err
		message := must(sub.ReceiveMessage(ctx))(s)
		want(s, "message", message.Payload, "0")
		_ = h.Unlock(ctx)
	})
}

// A closed Client leaves the queue.
func TestFairCloseLeaves(t *testing.T) {
	t.Parallel()
	onBothFair(t, func(s *fairStage) {
		ctx := within(s)
		h := must(s.lock().Lock(ctx))(s)
		limiters, locks := s.closable()
		first := s.waits(locks.FairLock(s.name), 1)
		second := s.waits(s.lock(), 2)
		noError(s, limiters.Close())
		if err := <-first.err; !errors.Is(err, rratelimiter.ErrClosed) {
			s.Errorf("Lock of a closed Client: %v", err)
		}
		redistest.Until(s, "one waiter", func() error {
			if len(s.waiting()) != 1 {
				return errors.New("both are in the queue")
			}
			return nil
		})
		noError(s, h.Unlock(ctx))
		noError(s, second.held(s).Unlock(ctx))
		s.free()
	})
}

// An Unlock of a lock that is gone is an error, though Java's is none (I7). The next one
// is told all the same.
func TestFairUnlockOfWhatIsGone(t *testing.T) {
	t.Parallel()
	onBothFair(t, func(s *fairStage) {
		ctx := within(s)
		lock := s.lock()
		h := must(lock.LockFor(ctx, time.Hour))(s)
		next := s.waits(lock, 1)
		noError(s, s.look.Del(ctx, s.name).Err())
		if err := h.Unlock(ctx); !errors.Is(err, rlock.ErrLost) {
			s.Errorf("Unlock: %v, want ErrLost", err)
		}
		noError(s, next.held(s).Unlock(ctx))
	})
}

// ForceUnlock gives the lock to the one that waits first.
func TestFairForceUnlock(t *testing.T) {
	t.Parallel()
	onBothFair(t, func(s *fairStage) {
		ctx := within(s)
		lock := s.lock()
		h := must(lock.LockFor(ctx, time.Hour))(s)
		next := s.waits(lock, 1)
		want(s, "forced", must(lock.ForceUnlock(ctx))(s), true)
		noError(s, next.held(s).Unlock(ctx))
		if err := h.Unlock(ctx); !errors.Is(err, rlock.ErrLost) {
			s.Errorf("Unlock: %v, want ErrLost", err)
		}
	})
}
