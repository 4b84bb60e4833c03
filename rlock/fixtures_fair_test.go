package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// A fairStage is a stage with a fair lock.
type fairStage struct {
	*stage
	name, queue, scores, channel string
	server                       *miniredis.Miniredis // in a bubble
}

// onBothFair is onBoth for a fair lock.
func onBothFair(t *testing.T, spec func(s *fairStage)) {
	t.Helper()
	onBoth(t, func(s *stage) { spec(newFairStage(s)) })
}

func newFairStage(s *stage) *fairStage { return fairStageOf(s, redistest.Name(s)) }

func fairStageOf(s *stage, name string) *fairStage {
	return &fairStage{
		stage: s, name: name, queue: "redisson_lock_queue:{" + name + "}",
		scores: "redisson_lock_timeout:{" + name + "}", channel: "redisson_lock__channel:{" + name + "}",
	}
}

// fairInBubble runs a spec in fake time, on a miniredis whose keys expire by it.
func fairInBubble(t *testing.T, spec func(s *fairStage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		s := newFairStage(newStage(t, redistest.MiniClient(t, m), redistest.MiniClient(t, m)))
		s.server = m
		spec(s)
	})
}

// fairClient returns one more client, and what closes it.
func (s *fairStage) fairClient() (*rratelimiter.Client, *rlock.Client) {
	limiters := rratelimiter.New(s.rdb)
	s.Cleanup(func() { _ = limiters.Close() })
	return limiters, rlock.New(limiters)
}

// lock returns the lock as one more process sees it.
func (s *fairStage) lock() *rlock.FairLock { return s.client().FairLock(s.name) }

// A fairTurn is a caller that waits for a lock.
type fairTurn struct {
	stage *fairStage
	hold  chan *rlock.Hold
	err   chan error
	stop  context.CancelFunc
}

// waits has a caller wait for a lock, and returns when it is the last of so many in the
// queue and hears.
func (s *fairStage) waits(lock *rlock.FairLock, length int) *fairTurn {
	s.Helper()
	return s.starts(length, func(ctx context.Context) (*rlock.Hold, error) { return lock.Lock(ctx) })
}

func (s *fairStage) starts(length int, lock func(ctx context.Context) (*rlock.Hold, error)) *fairTurn {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	s.Cleanup(cancel)
	c := &fairTurn{s, make(chan *rlock.Hold, 1), make(chan error, 1), cancel}
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
		plain, shard := s.listeners(channel)
		if plain+shard == 0 {
			return errors.New("it does not listen")
		}
		return nil
	})
	return c
}

// listeners returns how many clients listen to a channel on the server, and to a shard
// channel of that name.
func (s *fairStage) listeners(channel string) (plain, shard int64) {
	s.Helper()
	plain = must(s.look.PubSubNumSub(s.Context(), channel).Result())(s)[channel]
	return plain, s.look.PubSubShardNumSub(s.Context(), channel).Val()[channel] // none on miniredis
}

// held returns the hold of a caller when it has it. In a bubble that may take an hour.
func (c *fairTurn) held() *rlock.Hold {
	c.stage.Helper()
	longest := patience
	if c.stage.server != nil {
		longest = time.Hour
	}
	select {
	case h := <-c.hold:
		noError(c.stage, <-c.err)
		return h
	case <-time.After(longest):
		c.stage.Fatal("it waits for ever")
		return nil
	}
}

// inTurn hands a lock on to one turn after the other, and expects that nothing is left of it.
func (s *fairStage) inTurn(h *rlock.Hold, turns ...*fairTurn) {
	s.Helper()
	for _, next := range turns {
		noError(s, h.Unlock(s.Context()))
		h = next.held()
	}
	noError(s, h.Unlock(s.Context()))
	s.free()
}

// waiting returns the owners in the queue.
func (s *fairStage) waiting() []string {
	s.Helper()
	return must(s.look.LRange(s.Context(), s.queue, 0, -1).Result())(s)
}

// count counts the scripts that are sent from now on by what has the client of the stage.
func (s *fairStage) count() func() int64 {
	c := &fairCounter{}
	s.rdb.AddHook(c)
	return c.n.Load
}

// A fairCounter counts scripts.
type fairCounter struct{ n atomic.Int64 }

// DialHook changes nothing.
func (*fairCounter) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook counts a script.
func (c *fairCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") {
			c.n.Add(1)
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook changes nothing: renewals are sent that way.
func (*fairCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
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

// farBack is how many owners are before a caller that a look does not reach.
const farBack = 1005

func (s *fairStage) putMany() {
	s.Helper()
	for i := range farBack {
		s.put(fmt.Sprintf("java:%d", i), time.Hour)
	}
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

// wins has the head of the queue take the lock as Java does: what it had added to the
// scores goes off those that are left.
func (s *fairStage) wins(owner string, added time.Duration) {
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

// deny has the server of a bubble refuse some commands from now on.
func (s *fairStage) deny(which func(command string, args ...string) bool) {
	s.server.Server().SetPreHook(func(peer *server.Peer, command string, args ...string) bool {
		deny := which(command, args...)
		if deny {
			peer.WriteError("NOPERM this user has no permissions to run it")
		}
		return deny
	})
}

// mortal is lock for a process that does not reach Redis any more once it has died. In a
// bubble only.
func (s *fairStage) mortal() (lock *rlock.FairLock, die func()) {
	rdb := redistest.MiniClient(s, s.server)
	grave := &fairGrave{}
	rdb.AddHook(grave)
	limiters := rratelimiter.New(rdb)
	s.Cleanup(func() { _ = limiters.Close() })
	return rlock.New(limiters).FairLock(s.name), func() { grave.closed.Store(true) }
}

// A fairGrave lets nothing out once it is closed.
type fairGrave struct{ closed atomic.Bool }

// DialHook changes nothing.
func (*fairGrave) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook keeps a command back.
func (g *fairGrave) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if g.closed.Load() {
			cmd.SetErr(redis.ErrPoolTimeout)
			return redis.ErrPoolTimeout
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook keeps commands back.
func (g *fairGrave) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !g.closed.Load() {
			return next(ctx, cmds)
		}
		for _, cmd := range cmds {
			cmd.SetErr(redis.ErrPoolTimeout)
		}
		return redis.ErrPoolTimeout
	}
}
