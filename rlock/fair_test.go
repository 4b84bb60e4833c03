package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A fair lock serves its callers in the order of a queue in Redis. An owner java:N is one that the spec
// plays.
func TestFair(t *testing.T) {
	t.Parallel()
	tell(t, kinds["fair"], map[string]string{
		"callers of several processes get the lock in the order in which they asked": "" +
			"a1 locks; a2 waits; b1 waits; c1 waits; a3 waits; b2 waits; queue a2 b1 c1 a3 b2; a1 unlocks; " +
			"a2 has; queue b1 c1 a3 b2; a2 unlocks; b1 has; b1 unlocks; c1 has; queue a3 b2; c1 unlocks; " +
			"a3 has; a3 unlocks; b2 has; b2 unlocks; free",
		"a single attempt is refused while a caller waits, and leaves nothing behind (I5)": "" +
			"put java:1 1h; a1 refused 0s; a1 refused 0s; queue java:1; a1 forces no",
		"callers that leave keep the order of the others, and delay none": "" +
			"a1 locks; a2 refused 20ms; queue; a2 waits; a3 waits; a4 waits; a3 leaves; a1 unlocks; " +
			"a2 has; a2 unlocks; a4 has; a4 unlocks; free; a1 takes; a1 unlocks",
		"a head that leaves while the lock is free notifies the next owner; Java does not (I10)": "" +
			"a1 locks 1h; a2 waits; put java:1 1h; listens java:1; redis DEL LOCK; a2 leaves; " +
			"message java:1 0; a1 unlocks ! ErrLost",
		"a closed Client leaves the queue": "" +
			"a1 locks; b1 waits; a2 waits; close b; b1 has ! ErrClosed; a1 serves; free",
		"Unlock of a deleted lock returns an error, unlike Java's (I7), and notifies the next owner": "" +
			"a1 locks 1h; a2 waits; redis DEL LOCK; a1 unlocks ! ErrLost; a2 has; a2 unlocks",
		"a caller that drops dead owners notifies the next one": "" +
			"put java:1 -1s; put java:2 1h; listens java:2; a1 refused 0s; message java:2 0",
		"a caller that leaves while the lock is held wakes no other": "" +
			"a1 locks; a2 waits; put java:1 1h; listens java:1; a2 leaves; " +
			"redis PUBLISH CHANNEL:java:1 end; message java:1 end; a1 unlocks",
		"an owner without a score, for which Java's callers wait for ever, is dropped (I11a)": "" +
			"redis RPUSH QUEUE java:1 java:1 java:1; a1 takes; queue; a1 unlocks",
		"a place that a failover has brought back is removed when its process waits, or wants the lock": "" +
			"a1 locks; a1 unlocks; a2 locks; a2 unlocks; tidied a; head a1 1h; a3 locks; a4 waits; " +
			"head a2 1h; a3 unlocks; now; a4 has; after 0s..10s; a4 unlocks; free",
		"the idempotency key of a caller that has left stays until its request arrives, and no longer": "" +
			"held within 1s p1 locks; now; done p1 ! DeadlineExceeded; ran 1; tidied p; idempotency 1; " +
			"late; idempotency 0; free",
		"callers leave a server that pauses writes on time, and the queue after it": "" +
			"a1 locks 1h; b1 waits; a2 waits; b2 waits; redis CLIENT PAUSE 20000 WRITE; a2 leaves; now; " +
			"b3 takes 200ms ! ErrNoAnswer; after 200ms..19s; queue b1 a2 b2; redis CLIENT UNPAUSE; " +
			"queue b1 b2; a1 serves; free",
		"the clock is set back: a dead waiter blocks the queue until 30 s after a living one is renewed": "" +
			"redis HSET LOCK holder:1 1; redis PEXPIRE LOCK 2000; put " + deadGo + " 30s; b1 waits; " +
			"clock -1h; place b1 -1h..-59m29s; place " + deadGo + " -2h..-59m29s; b1 leaves",
	})
}

// If the clock of the server is set forward, beyond all places in the queue, waiters have places by the new
// clock within a renewal, and each gets the lock. They keep their order only if they renew in that order:
// the first renewal drops places ahead of it that have ended.
func TestFairClockIsSetForward(t *testing.T) {
	t.Parallel()
	redistest.Thorough(t)
	tell(t, kinds["fair"], map[string]string{"each gets the lock": "" +
		"a1 locks 24h; b1 waits; c1 waits; d1 waits; clock 1h; " +
		"place b1 1h..2h; place c1 1h..2h; place d1 1h..2h; a1 serves; free"})
}

func TestFairInTime(t *testing.T) {
	t.Parallel()
	var many, drift, all strings.Builder
	for i := range 1005 {
		fmt.Fprintf(&many, "put java:%d 1h; ", i)
	}
	for i := range 1100 {
		fmt.Fprintf(&all, "b%d waits; ", i)
	}
	for i := 0; i < 20; i += 2 {
		fmt.Fprintf(&drift, "a1 waits; behind java:%d 5m; a1 leaves; place java:%[1]d 5m..601s; "+
			"wins java:%d 5m; a1 waits; behind java:%d 5m; wins java:%[1]d 5m; redis DEL LOCK; a1 has; "+
			"place java:%[3]d 1s..301s; a1 unlocks; redis HSET LOCK holder:1 1; ", i+1, i, i+2)
	}
	dead := "a1 locks; m1 waits; b1 waits; m2 waits; b2 waits; m3 waits; b3 waits; sleep 1m; fail m; now; " +
		"a1 unlocks; "
	tell(t, kinds["fair"], map[string]string{
		"a dead head blocks all others until its place ends, and they do not spin meanwhile (I9, I10)": "" +
			"now; put java:1 1500ms; a1 waits; a1 has; after 1500ms..1650ms; sent 0..21; a1 unlocks; free",
		"a dead head with a long place": "" +
			"now; put java:1 5m; a1 waits; a1 has; after 5m..300150ms; sent 0..320; a1 unlocks; free",
		"a caller that waits while the lock is held asks for nothing but its place": "" +
			"a1 locks; b1 waits; b2 waits; b3 waits; sleep 1s; now; sleep 10m; sent 0..125; a1 serves; free",
		"a dead process holds up the others for 30 s, not each of its callers": dead +
			"b1 has; b1 unlocks; b2 has; b2 unlocks; b3 has; after 19s..31s; b3 unlocks; free",
		"a caller behind Java keeps its place when Java wins, and takes what it had added off (I4, I10)": "" +
			"a1 locks 1h; put java:1 5m; put java:2 10m; a2 waits; sleep 285s; wins java:1 5m; sleep 1s; " +
			"wins java:2 5m; place a2 10s..30s; b1 refused 0s; queue a2; redis DEL LOCK; a2 has; a2 unlocks",
		"behind Java, which has waited for long, places outlast its win": "" +
			"redis HSET LOCK holder:1 1; put java:1 10s; a1 waits; b1 waits; wins java:1 5m; " +
			"place a1 29s..30s; place b1 29s..30s",
		"behind Java, which waits for longer than is usual, places outlast its win": "" +
			"redis HSET LOCK holder:1 1; put java:1 1h; a1 waits; b1 waits; sleep 15s; wins java:1 1h; " +
			"place a1 10s..30s; place b1 10s..30s",
		"places of Java behind Go last as long as ever after callers of Go have won and left": "" +
			"redis HSET LOCK holder:1 1; put java:0 5m; " + drift.String(),
		"callers are back in the queue within 10 s after it was lost": "" +
			"a1 locks; a2 waits; redis DEL QUEUE SCORES; sleep 11s; queue a2; now; a1 unlocks; a2 has; " +
			"after 0s..0s; a2 unlocks; free",
		"and within 10 s after the list was lost": "" +
			"a1 locks; a2 waits; redis DEL QUEUE; sleep 11s; queue a2; a1 unlocks; a2 has; a2 unlocks; free",
		"they keep their order if the sorted set was lost (I11a)": "" +
			"a1 locks; a2 waits; a3 waits; a4 waits; redis DEL SCORES; sleep 11s; queue a2 a3 a4; now; " +
			"a1 serves; after 0s; free",
		"callers do not spin if Redis refuses to renew their places": "" +
			"a1 locks; a2 waits; a3 waits; a4 waits; deny 4; now; sleep 1m; sent 0..35; a1 unlocks",
		"a head of another process that does not take the lock is notified again": "" +
			"put java:1 1h; listens java:1; now; a1 waits; message java:1 0; after 0s..2s",
		"waiters get the lock when the lease of a dead holder expires, and after a DEL (I8, I10)": "" +
			"redis HSET LOCK java:1 1; redis PEXPIRE LOCK 5000; now; a1 waits; a2 waits; a1 has; " +
			"after 4s..6s; redis DEL LOCK; now; a2 has; after 0s..10s; a2 unlocks",
		"a caller that asks after the sorted set was lost is in the queue once": "" +
			"a1 locks; put java:1 1h; a2 waits; redis ZREM SCORES a2; redis PUBLISH CHANNEL:a2 0; " +
			"sleep 1s; place a2 20s..30s; queue java:1 a2; a2 leaves; a1 unlocks",
		"a bounded wait has a place that ends soon after it": "" +
			"a1 locks; a2 waits 3s; sleep 1s; place a2 2s..3s; sleep 2500ms; queue; a1 unlocks; free",
		"the longest wait has a place as any other": "" +
			"a1 locks; a2 waits 9223372036854775807; sleep 1s; place a2 28900ms..29s; a1 unlocks; a2 has; " +
			"a2 unlocks; free",
		"callers that never unlock follow each other in order, as leases expire": "" +
			"now; a1 locks 1s; b1 waits 10s 1s; a2 waits 10s 1s; b2 waits 10s 1s; queue b1 a2 b2; b1 has; " +
			"queue a2 b2; a2 has; queue b2; b2 has; after 3s..4s",
		"places last as long as ever after callers have left, won and died": "a1 locks 1h; " +
			strings.Repeat("a2 waits; a2 leaves; a2 waits; a3 refused 1s; m1 waits; a3 refused 1s; ", 4) +
			"fail m; a1 unlocks; sleep 35s; b1 waits; places -1h..30s",
		"the places of a thousand callers are renewed, or they would be lost as those ahead are served": "" +
			"a1 locks 1h; " + all.String() + "sleep 45s; places 19s..30s; a1 serves; free",
		"thousands of dead ones at the head are dropped at once": "now; redis RPUSH QUEUE" +
			strings.Repeat(" java:1", 2000) + "; a1 locks; after 0s..500ms; a1 unlocks; free",
		"behind so many others that a look does not reach it, a caller sleeps anyway, and queues again": "" +
			"redis HSET LOCK holder:1 1; " + many.String() + "a1 waits; now; sleep 1m; sent 0..10; " +
			"redis LREM QUEUE 0 a1; redis ZREM SCORES a1; sleep 11s; last a1",
		"callers are served without pub/sub": "" +
			"deny SUBSCRIBE; a1 locks; b1 waits; sleep 5s; a1 unlocks; now; b1 has; after 0s..10s; " +
			"b1 unlocks",
		"a caller whose turn comes before its subscription is there asks when it is": "" +
			"a1 locks; a2 waits; rest SUBSCRIBE; a3 waits; a2 leaves; a1 unlocks; now; wake; a3 has; " +
			"after 0s; a3 unlocks",
	})
}

// A caller whose place was given up while it asks, as Close does, gets an error and no hold.
func TestFairPlaceIsGivenUp(t *testing.T) {
	inBubble(t, func(s *env) {
		key := ""
		s.rdb.AddHook(redistest.Hook(func(_ context.Context, cmds ...redis.Cmder) error {
			if args := cmds[0].Args(); len(args) > 7 && fmt.Sprint(args[2]) == "5" { // the fifth key
				key = fmt.Sprint(args[7])
			}
			return nil
		}))
		p := newPlay(s, kinds["fair"])
		NoError(s, p.tells("b1 locks"))
		next := async(func() error { return ErrOf(s.locks.FairLock(s.name).Lock(s.Context())) })
		synctest.Wait()
		NoError(s, s.look.Set(s.Context(), key, "0", time.Minute).Err())
		NoError(s, p.tells("b1 unlocks"))
		WantErr(s, <-next, rratelimiter.ErrClosed)
	})
}

// A Client that is closed while callers come and go leaves no place in the queue.
func TestFairCloseWhileTheyCome(t *testing.T) {
	s := onRedis(t)
	p := newPlay(s, kinds["fair"])
	NoError(t, p.tells("a1 locks 1h"))
	const callers, few = 40, 20
	for round := range redistest.Rounds(t, 60) {
		ctx := within(t)
		locks, end := open(s, s.rdb)
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				wait := time.Hour
				if i%2 == 0 {
					wait = time.Millisecond
				}
				err := refusal(locks.FairLock(s.name).TryLock(ctx, wait, 0))
				if err != nil && !errors.Is(err, rratelimiter.ErrClosed) {
					t.Errorf("%v; want ErrClosed, or false in time", err)
				}
			})
		}
		redistest.Eventually(t, "some in the queue", func() bool { return len(p.waiting()) >= round%few })
		NoError(t, end())
		all.Wait()
		NoError(t, p.tells("queue"))
	}
}
