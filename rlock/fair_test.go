package rlock_test

import (
	"context"
	_ "embed" // testdata
	"errors"
	"fmt"
	"maps"
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

//go:embed testdata/fair.txt
var fair string

// A fair lock serves its callers in the order of a queue in Redis.
func TestFair(t *testing.T) {
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
	specs := Rows(fair)
	maps.Copy(specs, map[string]string{
		"a dead process holds up the others for 30 s, not each of its callers": dead +
			"b1 has; b1 unlocks; b2 has; b2 unlocks; b3 has; after 19s..31s; b3 unlocks; free",
		"places of Java behind Go last as long as ever after callers of Go have won and left": "" +
			"redis HSET LOCK holder:1 1; put java:0 5m; " + drift.String(),
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
	})
	tell(t, kinds["fair"], specs)
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
