package rratelimiter

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A call that has to be sent again, for one limiter has too many expired records, notes
// nothing in any: the next copy is judged anew.
func TestAGroupsCallThatComesAgain(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	ctx := context.Background()
	rdb.HSet(ctx, "{x}a", "rate", 10, "interval", 60000, "type", 0)
	rdb.HSet(ctx, "{x}b", "rate", 10000, "interval", 200, "type", 0)
	at := time.Now().Add(-time.Second).UnixMilli()
	var expired []redis.Z
	for i := range 5000 {
		member := fmt.Sprintf("\x10%016d\x01\x00\x00\x00", i)
		expired = append(expired, redis.Z{Score: float64(at), Member: member})
	}
	rdb.ZAdd(ctx, "{x}b:permits", expired...)
	record := string(wire.Layouts[0].Append(make([]byte, 0, wire.RecordSpace), 1, false))
	run := func() (numbers []int64) {
		const sentAgain = 3 // ms ago
		reply, err := rdb.Eval(ctx, allOf(2).Source,
			[]string{"{x}a", "{x}a:value", "{x}a:permits", "{x}b", "{x}b:value", "{x}b:permits"},
			0, "session:S.1", wire.Number(5), 1, record, "", sentAgain, 1, "", "", "", "", "", "session:S",
			0, 1, record, "").Int64Slice()
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	const each = replyJudged + 2
	if first := run(); first[replyAgain] != 1 {
		t.Fatalf("%v; want it to be sent again", first)
	}
	if second := run(); second[replyJudged] != 1 || second[each+replyJudged] != 1 {
		t.Errorf("%v; want both to grant", second)
	}
}

// What a group took of a PER_CLIENT limiter goes back while another rate is set: the Client's
// session does not vouch for the value of that rate when the first one is set again.
func TestAWithdrawalAndARateThatComesBack(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	c := New(rdb, WithID("id"))
	defer c.Close()
	k := c.RateLimiter("{x}a").keys.Load()
	k.believe(PerClient)
	ctx := t.Context()
	set := func(rate int64) { rdb.HSet(ctx, "{x}a", "rate", rate, "interval", 60000, "type", 1) }
	set(10)
	if ok, err := c.RateLimiter("{x}a").TryAcquire(ctx, 8, 0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	set(16)
	req := k.newRelease(0, &withdrawal{1, keptAll, time.Now()})
	req.session = c.sessions.take(c)
	if _, err := req.send(ctx); err != nil {
		t.Fatal(err)
	}
	set(10)
	if ok, err := c.RateLimiter("{x}a").TryAcquire(ctx, 3, 0); ok || err != nil {
		t.Errorf("11 of 10 permits were granted: %v, %v", ok, err)
	}
}
