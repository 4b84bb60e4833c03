package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// The permits that a request needs are behind more than 5,000 records. A caller that
// waits gets the time to look again. A caller of the same batch that wants numbers gets
// the time when everything will be back.
func TestADeepWaitForEither(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	const now = 1_700_000_000_001 // no ms in which a Client without a session checks the value: unseen.lua
	keys := []string{"l", "{l}:value", "{l}:permits"}
	rdb.HSet(t.Context(), keys[0], "rate", 8000, "interval", 10_000, "type", 0, "keepAliveTime", 0)
	rdb.Set(t.Context(), keys[1], 0, 0)
	for i := range 8 { // a record each ms, the last one of now
		var z []redis.Z
		for j := range 1000 {
			member := fmt.Sprintf("\x10%016d\x01\x00\x00\x00", 1000*i+j)
			z = append(z, redis.Z{Score: float64(now - 7_999 + 1000*i + j), Member: member})
		}
		rdb.ZAdd(t.Context(), keys[2], z...)
	}
	ask := func(permits int64, numbers any, runs ...run) (redisx.Reply, []run) {
		t.Helper()
		a := given{argSession: "session:x", argNumber: wire.Number(1), argPermits: permits,
			argRecords: wire.Layouts[0].AppendAll(nil, permits, false), argNow: now, argNumbers: numbers}
		for i, r := range runs {
			a[argRuns+2*i], a[argRuns+2*i+1] = r.permits, r.many
		}
		val, err := rdb.Eval(t.Context(), acquireScript.Source, keys, a.argv(wire.Overall)...).Result()
		if err != nil {
			t.Fatal(err)
		}
		r, err := redisx.Decode(val)
		if err != nil {
			t.Fatal(err)
		}
		return r, runs
	}
	const lower, upper, exact = 7_000 * time.Millisecond, 10 * time.Second, 6_001 * time.Millisecond
	if r, _ := ask(6_000, ""); !r.Brief || wire.Microseconds(r.At(0)) != lower {
		t.Errorf("alone, without numbers: %+v", r)
	}
	r, runs := ask(17_000, "1", run{6_000, -1}, run{6_000, 1}, run{4_001, 1}, run{1_000, 1})
	s := newSplit(named(t, r, runs), runs)
	for i, want := range []struct{ wait, told time.Duration }{
		{lower, upper}, {lower, upper}, {exact, exact}, {3_000 * time.Millisecond, 3_000 * time.Millisecond},
	} {
		a := s.next()
		told := a.RetryAfter() == want.told && a.ResetAfter() == upper
		if a.OK || wire.Microseconds(a.Wait) != want.wait || !told {
			t.Errorf("%d: %+v; want %+v", i, a, want)
		}
	}
	if n := rdb.HExists(t.Context(), keys[0], "session:x").Val(); n {
		t.Error("a call that was refused has written a session")
	}
	r, runs = ask(12_000, "", run{6_000, -1}, run{6_000, 1})
	s = newSplit(named(t, r, runs), runs)
	if a := s.next(); wire.Microseconds(a.Wait) != lower {
		t.Errorf("without numbers: %+v", a)
	}
}

// named returns the reply with its numbers named.
func named(t *testing.T, reply redisx.Reply, runs []run) acquireReply {
	t.Helper()
	a, err := newAcquireReply(reply, len(runs))
	if err != nil {
		t.Fatal(err)
	}
	return a
}
