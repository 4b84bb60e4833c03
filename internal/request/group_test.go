package request

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A call of a Group names the keys of the type that it tells the script, also if another call
// finds out the type at that moment.
func TestAGroupReadsTheTypeOnce(t *testing.T) {
	rdb := redistest.MiniClient(t, redistest.Mini(t))
	var wrong atomic.Int64
	rdb.AddHook(redistest.Hook(func(_ context.Context, cmds ...redis.Cmder) error {
		const value, typ = 4, 6 // after EVALSHA, the hash and the number of keys
		if args := cmds[0].Args(); cmds[0].Name() == "evalsha" &&
			strings.HasSuffix(args[value].(string), ":value") != (args[typ] == int(wire.Overall)) {
			wrong.Add(1)
		}
		return nil
	}))
	e := newSource(rdb)
	l := e.limiter("l")
	setRate(t, l, wire.PerClient, 1<<30, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	var other sync.WaitGroup
	other.Go(func() {
		for typ := wire.Overall; ctx.Err() == nil; typ = 1 - typ {
			l.noteType(typ)
		}
	})
	for range redistest.Rounds(t, 1000) {
		g := Take([]*Target{l}, []int64{1})
		g.Identify(e.NewSession())
		_, _ = g.Send(ctx) // where the type changes all the time, that is an error
	}
	cancel()
	other.Wait()
	if n := wrong.Load(); n > 0 {
		t.Errorf("%d calls named the keys of the other type", n)
	}
}
