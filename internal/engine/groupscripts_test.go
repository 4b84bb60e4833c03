package engine

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A call of a group does not sum up all records of a PER_CLIENT limiter: the session of the
// Client tells it that the value is right, and the first call of a group begins that session.
func TestAGroupsCallReadsFewRecords(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	ctx := t.Context()
	e := newEngine(t, rdb)
	l := e.limiter("{x}a")
	setRate(t, l, wire.PerClient, 1<<20, time.Hour)
	const records = 20_000 // 20 parts of parts/outstanding.lua
	fill := make([]redis.Z, records)
	for i := range fill {
		member := fmt.Sprintf("\x10%016d\x01\x00\x00\x00", i)
		fill[i] = redis.Z{Score: float64(time.Now().UnixMilli()), Member: member}
	}
	rdb.ZAdd(ctx, "{x}a:permits:id", fill...)
	g := e.Group(l)
	reads := func() int64 {
		before := redistest.Calls(t, rdb, "zrange")
		if v, err := g.Acquire(ctx, []int64{1}, Want{Permits: 1}); !Granted(v) || err != nil {
			t.Fatal(v, err)
		}
		return redistest.Calls(t, rdb, "zrange") - before
	}
	if first := reads(); first < records/1000 {
		t.Fatalf("%d reads by the first call; it must sum up all records", first)
	}
	if second := reads(); second > 3 {
		t.Errorf("%d reads by the second call", second)
	}
	if n := rdb.Get(ctx, "{x}a:value:id").Val(); n != fmt.Sprint(1<<20-records-2) {
		t.Errorf("value %s", n)
	}
}

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
	e := newEngine(t, rdb)
	l := e.limiter("l")
	setRate(t, l, wire.PerClient, 1<<30, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	var other sync.WaitGroup
	other.Go(func() {
		for typ := wire.Overall; ctx.Err() == nil; typ = 1 - typ {
			l.noteType(typ)
		}
	})
	g := e.Group(l)
	for range redistest.Rounds(t, 1000) {
		// Where the type changes all the time, that is an error.
		_, _ = g.Acquire(ctx, []int64{1}, Want{Permits: 1, Timeout: Forever})
	}
	cancel()
	other.Wait()
	if n := wrong.Load(); n > 0 {
		t.Errorf("%d calls named the keys of the other type", n)
	}
}
