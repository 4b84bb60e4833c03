package rlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// A fairEnv is an env with a fair lock.
type fairEnv struct {
	*env
	name, queue, scores, channel string
}

// onBothFair is onBoth for a fair lock.
func onBothFair(t *testing.T, spec func(s *fairEnv)) {
	t.Helper()
	onBoth(t, func(s *env) { spec(newFairEnv(s)) })
}

func newFairEnv(s *env) *fairEnv { return fairEnvOf(s, redistest.Name(s)) }

func fairEnvOf(s *env, name string) *fairEnv {
	return &fairEnv{
		env: s, name: name, queue: "redisson_lock_queue:{" + name + "}",
		scores: "redisson_lock_timeout:{" + name + "}", channel: "redisson_lock__channel:{" + name + "}",
	}
}

// fairInBubble is inBubble for a fair lock.
func fairInBubble(t *testing.T, spec func(s *fairEnv)) {
	t.Helper()
	inBubble(t, func(s *env) { spec(newFairEnv(s)) })
}

// lock returns the lock as one more process sees it.
func (s *fairEnv) lock() *rlock.FairLock { return s.client().FairLock(s.name) }

// A fairTurn is a caller that waits for a lock.
type fairTurn struct {
	env  *fairEnv
	hold chan *rlock.Hold
	err  chan error
	stop context.CancelFunc
}

// waits starts a caller that waits for a lock. It returns when the queue has that length, with the caller
// last and subscribed.
func (s *fairEnv) waits(lock *rlock.FairLock, length int) *fairTurn {
	s.Helper()
	return s.starts(length, func(ctx context.Context) (*rlock.Hold, error) { return lock.Lock(ctx) })
}

// asks starts a caller that waits for a lock.
func (s *fairEnv) asks(lock func(ctx context.Context) (*rlock.Hold, error)) *fairTurn {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	s.Cleanup(cancel)
	c := &fairTurn{s, make(chan *rlock.Hold, 1), make(chan error, 1), cancel}
	go func() {
		h, err := lock(ctx)
		c.hold <- h
		c.err <- err
	}()
	return c
}

func (s *fairEnv) starts(length int, lock func(ctx context.Context) (*rlock.Hold, error)) *fairTurn {
	s.Helper()
	c := s.asks(lock)
	redistest.Eventually(s, "a place in the queue, and a subscription", func() bool {
		queue := s.waiting()
		if len(queue) < length {
			return false
		}
		plain, shard := s.listeners(s.channel + ":" + queue[length-1])
		return plain+shard > 0
	})
	return c
}

// listeners returns how many clients listen to a channel on the server, and to a shard channel of that
// name.
func (s *fairEnv) listeners(channel string) (plain, shard int64) {
	s.Helper()
	plain = must(s.look.PubSubNumSub(s.Context(), channel).Result())(s)[channel]
	return plain, s.look.PubSubShardNumSub(s.Context(), channel).Val()[channel] // none on miniredis
}

// listens listens as an owner of another process. The function that it returns waits for a message.
func (s *fairEnv) listens(owner string) (message func() string) {
	s.Helper()
	sub := s.look.Subscribe(s.Context(), s.channel+":"+owner)
	s.Cleanup(func() { _ = sub.Close() })
	must(sub.Receive(s.Context()))(s)
	return func() string { return must(sub.ReceiveMessage(s.Context()))(s).Payload }
}

// held returns the hold of a caller when it has it. In a bubble that may take an hour.
func (c *fairTurn) held() *rlock.Hold {
	c.env.Helper()
	longest := patience
	if c.env.mini != nil {
		longest = time.Hour
	}
	select {
	case h := <-c.hold:
		noError(c.env, <-c.err)
		return h
	case <-time.After(longest):
		c.env.Fatal("it waits for ever")
		return nil
	}
}

// inTurn hands a lock on to one turn after the other, and expects that nothing is left of it.
func (s *fairEnv) inTurn(h *rlock.Hold, turns ...*fairTurn) {
	s.Helper()
	for _, next := range turns {
		noError(s, h.Unlock(s.Context()))
		h = next.held()
	}
	noError(s, h.Unlock(s.Context()))
	s.free()
}

// waiting returns the owners in the queue.
func (s *fairEnv) waiting() []string {
	s.Helper()
	return must(s.look.LRange(s.Context(), s.queue, 0, -1).Result())(s)
}

// left returns how long the place of an owner lasts.
func (s *fairEnv) left(owner string) time.Duration {
	s.Helper()
	score := must(s.look.ZScore(s.Context(), s.scores, owner).Result())(s)
	return time.Until(time.UnixMilli(int64(score)))
}

// put puts an owner of another process into the queue, until its place ends.
func (s *fairEnv) put(owner string, left time.Duration) {
	s.Helper()
	ctx := s.Context()
	noError(s, s.look.RPush(ctx, s.queue, owner).Err())
	score := float64(time.Now().Add(left).UnixMilli())
	noError(s, s.look.ZAdd(ctx, s.scores, redis.Z{Score: score, Member: owner}).Err())
}

// free expects that nothing is left of the lock but idempotency keys.
func (s *fairEnv) free() {
	s.Helper()
	want(s, "keys", must(s.look.Exists(s.Context(), s.name, s.queue, s.scores).Result())(s), 0)
}

// gone waits until the queue is empty.
func (s *fairEnv) gone() {
	s.Helper()
	redistest.Eventually(s, "an empty queue", func() bool {
		return must(s.look.Exists(s.Context(), s.queue, s.scores).Result())(s) == 0
	})
}

// wins takes the lock for the head of the queue as Java does: it subtracts from all other scores what the
// head had added.
func (s *fairEnv) wins(owner string, added time.Duration) {
	s.Helper()
	ctx := s.Context()
	want(s, "head", must(s.look.LPop(ctx, s.queue).Result())(s), owner)
	noError(s, s.look.ZRem(ctx, s.scores, owner).Err())
	for _, other := range s.waiting() {
		noError(s, s.look.ZIncrBy(ctx, s.scores, -float64(added.Milliseconds()), other).Err())
	}
	noError(s, s.look.Del(ctx, s.name).Err())
	noError(s, s.look.HSet(ctx, s.name, owner, 1).Err())
	noError(s, s.look.PExpire(ctx, s.name, time.Hour).Err())
}

// deny makes the server of a bubble refuse some commands from now on.
func (s *fairEnv) deny(which func(command string, args ...string) bool) {
	s.mini.Server().SetPreHook(func(peer *server.Peer, command string, args ...string) bool {
		deny := which(command, args...)
		if deny {
			peer.WriteError("NOPERM this user has no permissions to run it")
		}
		return deny
	})
}

// mortal is lock for a process that does not reach Redis any more once it has died. In a bubble only.
func (s *fairEnv) mortal() (lock *rlock.FairLock, die func()) {
	rdb := redistest.MiniClient(s, s.mini)
	locks, _ := open(s, rdb)
	return locks.FairLock(s.name), func() { fails(rdb) }
}
