package pubsub_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// What a hub hears of a slot that moves: of a channel that is subscribed, and of one
// that is not, so that the client still believes in the old owner.
func TestShardedFollowsTheSlot(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	channels := channelsOf(c, 3)
	from, to := c.Servers[0], c.Servers[1]
	h := newHub(t, c.Client(t))
	here, there := newMarked(t, h, from, channels[0][1]), newMarked(t, h, to, channels[1][0])
	moves := channels[0][0]
	wake, cancel := confirmed(t, h.Sharded, moves)
	for i := range 3 {
		c.Move(t, moves, to).End()
		woken(t, wake, fmt.Sprint("confirmed by the new owner ", i))
		if old, now := sharded(t, from, moves), sharded(t, to, moves); old != 0 || now != 1 {
			t.Fatalf("%d subscriptions on the old owner, %d on the new", old, now)
		}
		spublish(t, to, moves, "x")
		woken(t, wake, "message on the new owner")
		redistest.NoError(t, h.Confirmed(t.Context(), moves))
		from, to = to, from
	}
	silent(t, here.wake, "a channel that stays is left alone")
	silent(t, there.wake, "a channel that stays is left alone")

	late := channels[0][2] // here is on the connection that it would have
	c.Move(t, late, c.Servers[2]).End()
	wakeLate, cancelLate := h.Sharded(late)
	woken(t, wakeLate, "confirmed by the owner after MOVED")
	spublish(t, c.Servers[2], late, "x")
	woken(t, wakeLate, "message on the owner")
	silent(t, here.wake, "a channel that stays is left alone")
	cancel()
	cancelLate()
	for _, s := range c.Servers {
		redistest.Eventually(t, "nothing is left", func() bool {
			return sharded(t, s, moves)+sharded(t, s, late) == 0
		})
	}
}

// While no node has a slot, the channels of other slots are well, and its own are
// tried with pauses.
func TestShardedComesBackWithItsSlot(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithArgs("--cluster-require-full-coverage", "no"))
	channels := channelsOf(c, 3)
	s := c.Servers[0]
	h := newHub(t, c.Client(t))
	mark := newMarked(t, h, s, channels[0][1])
	lost := channels[0][0]
	wake, _ := confirmed(t, h.Sharded, lost)
	slot := s.Admin().ClusterKeySlot(t.Context(), lost).Val()
	start := time.Now()
	do(t, s, "CLUSTER", "DELSLOTS", slot)
	redistest.Eventually(t, "no subscription", func() bool { return sharded(t, s, lost) == 0 })
	mark.passed()
	fresh := subscribed(t, h.Sharded, channels[0][2])
	woken(t, fresh, "confirmed meanwhile")
	silent(t, wake, "not confirmed again")
	ctx, end := context.WithCancel(t.Context())
	end()
	if err := h.Confirmed(ctx, lost); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want an error: no server has the slot", err)
	}
	redistest.Eventually(t, "tries that were refused", func() bool { return refusals(t, c) > 3 })
	if took := time.Since(start); took < 300*time.Millisecond {
		t.Errorf("4 tries in %v", took)
	}
	late := subscribed(t, h.Sharded, lost)
	silent(t, late, "a confirmation of before does not count")
	do(t, s, "CLUSTER", "ADDSLOTS", slot)
	woken(t, wake, "confirmed again")
	woken(t, late, "confirmed")
	spublish(t, s, lost, "x")
	woken(t, wake, "message")
	fastest := time.Hour
	for range 3 {
		start := time.Now()
		do(t, s, "CLUSTER", "DELSLOTS", slot)
		do(t, s, "CLUSTER", "ADDSLOTS", slot)
		woken(t, wake, "confirmed again")
		fastest = min(fastest, time.Since(start))
	}
	if fastest > time.Second {
		t.Errorf("the fastest of the last times took %v: failures from before still count", fastest)
	}
	silent(t, mark.wake, "the other channel is left alone")
}

func TestShardedFollowsAFailover(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithReplicas(1))
	channels := channelsOf(c, 2)
	h := newHub(t, c.Client(t))
	for i, stops := range []bool{true, false} {
		old, promoted := c.Servers[i], c.Servers[3+i]
		one, two := channels[i][0], channels[i][1]
		wake := subscribed(t, h.Sharded, one)
		other := subscribed(t, h.Sharded, two)
		woken(t, wake, "confirmed")
		woken(t, other, "confirmed")
		if stops {
			old.Stop()
		}
		do(t, promoted, "CLUSTER", "FAILOVER", "TAKEOVER")
		woken(t, wake, "confirmed after the failover")
		woken(t, other, "confirmed after the failover")
		redistest.Eventually(t, "subscribed on the new master", func() bool {
			return sharded(t, promoted, one) == 1 && sharded(t, promoted, two) == 1
		})
		spublish(t, promoted, one, "x")
		woken(t, wake, "message on the new master")
		if !stops {
			redistest.Eventually(t, "the old master has no connection", func() bool {
				return connections(t, old) == 0
			})
		}
	}
}
