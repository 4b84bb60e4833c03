package request

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// oddly plays a number of rounds, each with a limiter in an odd state, on miniredis and on Redis. wrote are
// the commands that left it.
func oddly(t *testing.T, rounds int, play func(t *testing.T, l *Target, random *rand.Rand, wrote [][]any)) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for on, rdb := range map[string]*redis.Client{
		"miniredis": redistest.MiniClient(t, redistest.Mini(t)), "Redis": redistest.Start(t).Client(t),
	} {
		t.Run(on, func(t *testing.T) {
			random, e := rand.New(rand.NewPCG(seed, 1)), newSource(rdb)
			for n := range redistest.Rounds(t, rounds) {
				l := e.limiter(fmt.Sprint("n", n))
				l.noteType(random.IntN(2))
				play(t, l, random, leaveOdd(t, rdb, random, l))
				redistest.NoError(t, rdb.FlushDB(t.Context()).Err())
			}
		})
	}
}

// After heal.lua an acquire and a release decide, whatever Java, an operator or another version left:
// what heal cannot end would be asked for again and again.
func TestAfterHealRequestsDecide(t *testing.T) {
	oddly(t, 600, func(t *testing.T, l *Target, random *rand.Rand, wrote [][]any) {
		req := l.Acquire([]Run{{1 + random.Int64N(12), 1 - 2*random.Int64N(2)}}, nil, Options{})
		if random.IntN(3) == 0 {
			req = releaseOf(l, random)
		}
		req.healed, req.options.Numbers, req.ambiguous = true, random.IntN(2) == 0, random.IntN(4) == 0
		if random.IntN(3) == 0 && !req.Releases {
			interval := time.Duration(1+random.IntN(2000)) * time.Millisecond
			given := NewGivenRate(Rate{Permits: 5000, Interval: interval}, random.IntN(2) == 0)
			req.options.GivenRate = given.text
		}
		for tries := 1; healThenRun(t, l, req, wrote); tries++ {
			if tries == 3 { // more records may have expired meanwhile
				t.Fatalf("%q: %v, given %v", req.room.number, wrote, req.options.GivenRate)
			}
		}
	})
}

// A limiter in such a state takes a booking, and a rate that keeps its records.
func TestOddLimitersAreBookedAndSet(t *testing.T) {
	oddly(t, 300, func(t *testing.T, l *Target, random *rand.Rand, wrote [][]any) {
		interval := time.Duration(500+random.IntN(1000)) * time.Millisecond
		rate := Rate{Type: l.Type(), Permits: 50, Interval: interval}
		steps := []func() error{func() error {
			_, err := l.SetRate(t.Context(), Change{Rate: rate, KeepState: true})
			return err
		}, func() error {
			records := []Booking{{time.Now().UnixMilli(), l.NewRecord(3)}}
			return l.Book(t.Context(), nil, l.NextNumber(), records)
		}}
		if err := steps[random.IntN(len(steps))](); err != nil {
			t.Fatal(err, wrote)
		}
	})
}

// While records are joined, other clients find no more than is left, although the value was lost or cannot be
// right. If the call that joins them does not come to its end, the next one heals again, and decides.
func TestNothingIsLeftUntilAllIsSummed(t *testing.T) {
	const rate, many, permits = 10_000, 2100, 3
	for _, value := range []int64{0, rate + 1} { // 0: lost
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		l, ctx := newSource(rdb).limiter("l"), t.Context()
		pair := l.Keys().Pairs[wire.Overall]
		redistest.Must(l.SetRate(ctx, Change{Rate: Rate{Permits: rate, Interval: time.Hour}}))(t)
		for range many {
			at := float64(time.Now().UnixMilli())
			record := redis.Z{Score: at, Member: l.NewRecord(permits)}
			redistest.NoError(t, rdb.ZAdd(ctx, pair.Permits, record).Err())
		}
		if value > 0 {
			redistest.NoError(t, rdb.Set(ctx, pair.Value, value, 0).Err())
		}
		args := argumentsOf(l.source.session.boxed, "", 0, "", l.source.now())
		_, _, err := l.run(ctx, newCall(healScript, args))
		redistest.NoError(t, err)
		const most = rate - many*permits
		// For Java nothing is left until records expire: it adds these to a number from which it comes back.
		if left := redistest.Must(rdb.Get(ctx, pair.Value).Int64())(t); left != 0 {
			t.Errorf("value %d: %d permits are left, want none", value, left)
		}
		for _, n := range []int64{most + 1, most} {
			if v := send(t, newSource(rdb).limiter("l"), n); v.OK != (n == most) {
				t.Errorf("value %d: %d permits: %v", value, n, v.OK)
			}
		}
	}
}

// A call is short, whatever the clocks of other clients have left: it brings 250 records of the future back.
// Many refused runs read the records once.
func TestCallsReadAndWriteFewRecords(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	l, ctx := newSource(rdb).limiter("l"), t.Context()
	setRate(t, l, wire.Overall, 1000, time.Hour)
	permits := l.Keys().Pairs[wire.Overall].Permits
	for range 1000 {
		at := float64(time.Now().Add(2 * time.Hour).UnixMilli())
		redistest.NoError(t, rdb.ZAdd(ctx, permits, redis.Z{Score: at, Member: l.NewRecord(1)}).Err())
	}
	before := redistest.Calls(t, rdb, "zadd")
	args := argumentsOf(l.source.session.boxed, "", 0, "", l.source.now())
	_, _, err := l.run(ctx, newCall(healScript, args))
	redistest.NoError(t, err)
	if n := redistest.Calls(t, rdb, "zadd") - before; n > 250 {
		t.Errorf("heal.lua has brought %d records back", n)
	}
	_, err = l.heal(ctx, nil)
	redistest.NoError(t, err)

	const mostRuns = 256 // of a batch
	var runs []Run
	for i := range int64(mostRuns) {
		runs = append(runs, Run{800 + i%100, 1})
	}
	before = redistest.Calls(t, rdb, "zrange")
	req := l.Acquire(runs, nil, Options{})
	_, err = req.Send(ctx)
	redistest.NoError(t, err)
	// For each run one that says when its permits are there.
	if n := redistest.Calls(t, rdb, "zrange") - before; n > mostRuns+25 {
		t.Errorf("%d runs read %d times", mostRuns, n)
	}
}

// healThenRun heals a limiter, sends a request and reports whether it asks for heal again.
func healThenRun(t *testing.T, l *Target, req *Request, wrote [][]any) (again bool) {
	t.Helper()
	_, err := l.heal(t.Context(), req.options.GivenRate)
	var reply redisx.Reply
	if err == nil {
		reply, _, err = l.run(t.Context(), req.call())
	}
	if err != nil {
		t.Fatal(err, wrote)
	}
	return asksForHeal(reply)
}

// releaseOf returns a release of some permits, or the withdrawal of a grant.
func releaseOf(l *Target, random *rand.Rand) *Request {
	l.source.requests.Add(random.Int64N(3))
	if random.IntN(2) == 0 {
		return l.Release(1+random.Int64N(3000), nil)
	}
	after := l.source.requests.Load() - random.Int64N(2)
	return l.Withdraw(&Withdrawal{session: l.source.session.boxed, after: after, kept: 1})
}

// Peek says what an acquire finds, which asks for heal.lua where the limiter is not plain. It sums where an
// acquire trusts a value below 1, or counts a part of the expired records; records that heal.lua joins may
// come back later.
func TestPeekSaysWhatAnAcquireFinds(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rdb, now := redistest.Start(t).Client(t), time.Now().UnixMilli()|1
	random, e := rand.New(rand.NewPCG(seed, 1)), newSource(rdb, withClock(&now))
	for n := range redistest.Rounds(t, 1500) {
		l := e.limiter(fmt.Sprint("n", n))
		l.noteType(random.IntN(2))
		wrote := leaveOdd(t, rdb, random, l)
		recent := fmt.Sprintf("%s %d 0 %d", wire.Number(0), now, now) // it does not look
		redistest.NoError(t, rdb.HSet(t.Context(), l.Hash, l.source.session.boxed, recent).Err())
		if random.IntN(3) == 0 {
			other := l
			l = &Target{}
			l.InitWith(other, NewGivenRate(Rate{Permits: 5000, Interval: time.Second}, false))
		}
		records := rdb.ZCard(t.Context(), l.keysOf(l.Type())[2].(string)).Val()
		value, _ := rdb.Get(t.Context(), l.keysOf(l.Type())[1].(string)).Int64()
		got, err := l.Peek(t.Context())
		redistest.NoError(t, err)
		peers, err := l.Peers(t.Context(), l.Given)
		redistest.NoError(t, err)

		req := l.Acquire([]Run{{1, 1}}, nil, Options{})
		req.options = Options{Numbers: true}
		if l.Given != nil {
			req.options.GivenRate = l.Given.Argument
		}
		ask := func() redisx.Reply {
			call := req.call()
			call.Args[argPermits-1] = int64(1) << 62 // above the rate: it takes nothing
			reply, _, err := l.run(t.Context(), call)
			redistest.NoError(t, err)
			return reply
		}
		reply := ask()
		if asksForHeal(reply) {
			_, err = l.heal(t.Context(), req.options.GivenRate)
			redistest.NoError(t, err)
			req.healed = true
			reply = ask()
		}
		found, err := newReply(reply, 1)
		redistest.NoError(t, err)
		alike := got.Left == found.Left || records > 2000 || !req.healed && (value < 1 || records > 1000)
		if !alike || got.Reset != found.reset || got.Limit != found.Rate || peers.Left != max(0, got.Left) {
			t.Errorf("peek %+v, peers %+v, acquire %+v: %v", got, peers, found, wrote)
		}
		redistest.NoError(t, rdb.FlushDB(t.Context()).Err())
	}
}

// leaveOdd leaves a limiter in an odd state, and returns the commands that did.
func leaveOdd(t *testing.T, rdb *redis.Client, random *rand.Rand, l *Target) (wrote [][]any) {
	t.Helper()
	of := func(all ...any) any { return all[random.IntN(len(all))] }
	keys, now := l.keysOf(l.Type()), time.Now().UnixMilli()
	write := func(words ...any) {
		wrote = append(wrote, words[:min(len(words), 20)])
		redistest.NoError(t, rdb.Do(t.Context(), words...).Err())
	}
	interval := of(1000, 1000, 60_000, 7, 0, -1000, int64(1)<<53)
	write("HSET", keys[0], "rate", of(10, 10, 5000, 0, -5, int64(1)<<53), "interval", interval,
		"type", l.Type(), "keepAliveTime", of(0, 0, 5000, -5),
		"session:"+keys[1].(string), of("x", fmt.Sprintf("%016d %d 0 0 10", interval, now)))
	number := wire.Number(l.source.requests.Load() + 2)
	for range random.IntN(3) {
		write("HSET", keys[0], of("longest", "longest", "checked", "waiting", l.source.session.boxed),
			of("x", "", now, fmt.Sprint("3000 ", now+2000), fmt.Sprint("500 ", now+9),
				fmt.Sprint("90000 ", now-1), "9999999999999999 1 1 1",
				fmt.Sprintf("%s %d 3 %d", number, now, now)))
	}
	if value := of("", "", 10, 0, -3, 4, "7.5", "x", int64(1)<<53); value != "" {
		write("SET", keys[1], value)
	}
	from, within := random.Int64N(4000)-1000, 1+random.Int64N(3000) // ms before now
	layout := &wire.Layouts[random.IntN(len(wire.Layouts))]
	if random.IntN(2) == 0 {
		layout = layout.ForClient()
	}
	for left := of(0, 1, 5, 12, 50, of(900, 1500, 2500, 2900, 6000).(int)).(int); left > 0; left -= 500 {
		add := []any{"ZADD", keys[2]}
		for range min(left, 500) {
			record := string(layout.AppendAll(make([]byte, 0, wire.RecordSpace), random.Int64N(4)))
			add = append(add, now-from-random.Int64N(within), record)
		}
		write(add...)
	}
	if random.IntN(3) == 0 {
		write("ZADD", keys[2], of("inf", "-inf", fmt.Sprint(now, ".5"), now+90_000, "1e300"),
			of("a", "", "\x10\xd2GoRLease12345678abcd"))
	}
	return wrote
}
