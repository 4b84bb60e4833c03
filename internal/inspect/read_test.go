package inspect_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

const mySession = "session:QX3NDKZ7A4MHC2TB"

// No contents of the keys cause a panic, and any can be printed as JSON.
func FuzzRead(f *testing.F) {
	f.Add("5", "1000", "0", "x", "5", []byte("\x10abcdefghijklmnop\x01\x00\x00\x00"), 1e12, uint8(1))
	f.Add("1e300", "-1", "1", "", "1e+17", []byte("abc"), math.Inf(1), uint8(7))
	const most = "9007199254740992"
	f.Add(most, most, "2", "0", "-"+most, []byte{}, math.Inf(-1), uint8(3))
	f.Fuzz(func(
		t *testing.T, rate, interval, typ, session, value string, record []byte, score float64, n uint8,
	) {
		if math.IsNaN(score) {
			return
		}
		ctx := t.Context()
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		rdb.HSet(ctx, "x", "rate", rate, "interval", interval, "type", typ,
			mySession, session, mySession+".0", session, "session:freed", session)
		rdb.Set(ctx, "{x}:value", value, 0)
		for i := range n {
			member := append(slices.Clone(record), i)
			rdb.ZAdd(ctx, "{x}:permits", redis.Z{Score: score + float64(i), Member: member})
		}
		l := redistest.Must(inspect.Read(ctx, rdb, "x", 4, "me"))(t)
		if _, err := json.Marshal(l); err != nil {
			t.Error(err)
		}
		for _, s := range l.Sessions {
			if s.Field != mySession {
				t.Errorf("%s is taken for a Client", s.Field)
			}
		}
		if p := l.Shared(); p.Remaining < 0 || int64(len(p.Records))+p.Unread != p.Total {
			t.Errorf("%+v", p)
		}
		l.Since(l, "")
	})
}

// On a Ring, as on a cluster (testdata/sessions/cluster.txt of cmd/rrl), a limiter is read from its server.
func TestReadOnARing(t *testing.T) {
	addrs := map[string]string{"a": redistest.Start(t).Addr, "b": redistest.Start(t).Addr}
	rdb := redis.NewRing(&redis.RingOptions{Addrs: addrs})
	t.Cleanup(func() { _ = rdb.Close() })
	client := clientOn(t, rdb)
	var names []string
	for i := range 12 {
		name := fmt.Sprintf("limiter-%02d", i)
		names = append(names, name)
		l := client.RateLimiter(name)
		set(t, l, rratelimiter.PerClient, 5, time.Minute)
		take(t, l, 2)
		if p := look(t, rdb, name, "me").PairOf("me"); p.Remaining != 3 || p.Drift != 0 || !p.Checked {
			t.Errorf("%s: %+v", name, p)
		}
		ids, err := inspect.Clients(t.Context(), rdb, name)
		if err != nil || !slices.Equal(ids, []string{"me"}) {
			t.Errorf("%s: %v, %v", name, ids, err)
		}
	}
	found, _, _, err := inspect.Scan{}.All(t.Context(), rdb)
	if err != nil || !slices.Equal(namesOf(found), names) {
		t.Fatal(namesOf(found), err)
	}
	for _, l := range found {
		if l.Clients != 1 || len(l.InUse()) != 1 || l.InUse()[0].Outstanding != 2 {
			t.Errorf("%+v", l)
		}
	}
}

func namesOf(limiters []*inspect.Limiter) (names []string) {
	for _, l := range limiters {
		names = append(names, l.Name)
	}
	return names
}

// Remaining is what Go finds, whatever the drift.
func TestRemainingIsWhatGoFinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		random := rand.New(rand.NewPCG(1, 2))
		for i := range 300 {
			rate := 1 + random.Int64N(40)
			l := limiter(t, rdb, rratelimiter.RateType(i%2), rate, time.Second)
			for range random.IntN(20) {
				redistest.Must(l.TryAcquire(t.Context(), 1+random.Int64N(rate), 0))(t)
				if random.IntN(10) == 0 {
					redistest.Must(l.Charge(t.Context(), 1+random.Int64N(3*rate)))(t)
				}
				time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond)
			}
			if random.IntN(2) == 0 {
				value := wire.KeysOf(l.Name(), "me").Pairs[i%2].Value
				rdb.IncrBy(t.Context(), value, random.Int64N(2*rate)-rate)
			}
			time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
			p := look(t, rdb, l.Name(), "me").InUse()[0]
			r, err := l.Peek(t.Context())
			if err != nil || r.Remaining != p.Remaining || r.Debt != p.Debt {
				t.Errorf("%d: %d and %d, Go finds %d and %d, %v: %+v", i, p.Remaining, p.Debt,
					r.Remaining, r.Debt, err, p)
			}
		}
	})
}

// No contents of the keys cause a panic, and any can be printed as JSON.
func FuzzReadLock(f *testing.F) {
	f.Add("5e4f0f64-8d3c-4bb4-9a63-3a0c6f1c2a11:52", "1", "7", "svc:31", 1e12, "x")
	f.Add("a:-1", "-5", "", "", -1e300, "a{b")
	f.Fuzz(func(t *testing.T, owner, count, token, waiter string, score float64, name string) {
		if math.IsNaN(score) {
			return
		}
		ctx := t.Context()
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		rdb.HSet(ctx, name, owner, count)
		rdb.Set(ctx, "redisson_lock_token:{"+name+"}", token, 0)
		rdb.RPush(ctx, "redisson_lock_queue:{"+name+"}", waiter, owner, waiter)
		rdb.ZAdd(ctx, "redisson_lock_timeout:{"+name+"}", redis.Z{Score: score, Member: waiter})
		l := redistest.Must(inspect.ReadLock(ctx, rdb, name, 2))(t)
		if _, err := json.Marshal(l); err != nil {
			t.Error(err)
		}
		if l.There() && l.Kind == inspect.Plain && len(l.Owners) == 0 {
			t.Errorf("%+v", l)
		}
	})
}
