package formtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// onRedis checks what only a real server shows.
func (s Suite) onRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	far := redis.NewClient(&redis.Options{Addr: proxy.Addr, ReadTimeout: time.Minute, MaxRetries: 2})
	t.Cleanup(func() { _ = far.Close() })
	b := bench{s, server, proxy, far}
	t.Run("a call is one round trip, and a look writes nothing", b.trips)
	t.Run("permits of a caller that left go back", b.late)
	t.Run("a lost reply is an error, and takes its permits once", b.lost)
	if _, ok := redistest.Must(s.New(1, time.Hour).OnRedis(far, "name"))(t).Limiter.(limit.Ledger); ok {
		t.Run("a settlement whose reply is lost takes effect once", b.settlesOnce)
	}
	t.Run("anything may stand under the key", b.hostile)
	t.Run("another type under the key is an error", b.wrongType)
	t.Run("unusable names", b.names)
}

// A bench is a server, a way to it through a proxy, and an algorithm.
type bench struct {
	Suite
	server *redistest.Server
	proxy  *redistest.Proxy
	far    redis.UniversalClient // through the proxy
}

// both returns handles of a fresh limiter of 10 in an hour: through the proxy, and past it.
func (b bench) both(t *testing.T) (far, near Limiter) {
	t.Helper()
	a, name := b.New(10, time.Hour), redistest.Name(t)
	far = redistest.Must(a.OnRedis(b.far, name))(t).Limiter
	return far, redistest.Must(a.OnRedis(b.server.Admin(), name))(t).Limiter
}

// used returns a limiter of 10 in an hour of which one is taken, and its only key.
func (b bench) used(t *testing.T, rdb *redis.Client) (l Limiter, key string) {
	t.Helper()
	name := redistest.Name(t)
	l = redistest.Must(b.New(10, time.Hour).OnRedis(rdb, name))(t).Limiter
	Allow(t, l, 1, true)
	keys := rdb.Keys(t.Context(), "{"+name+"}*").Val()
	if len(keys) != 1 {
		t.Fatalf("the keys are %q, want one", keys)
	}
	return l, keys[0]
}

func (b bench) trips(t *testing.T) {
	rdb := b.server.Client(t)
	l, key := b.used(t, rdb)
	trips := redistest.RoundTrips(rdb)
	for name, call := range map[string]func(){
		"Allow": func() { redistest.Must(l.Allow(t.Context(), 1))(t) },
		"Peek":  func() { peek(t, l) },
	} {
		before := trips.Load()
		if call(); trips.Load()-before != 1 {
			t.Errorf("%s takes %d round trips", name, trips.Load()-before)
		}
	}
	before := rdb.Dump(t.Context(), key).Val()
	peek(t, l)
	if after := rdb.Dump(t.Context(), key).Val(); after != before {
		t.Errorf("a look has changed %q to %q", before, after)
	}
}

// late cancels calls whose requests are on the way.
func (b bench) late(t *testing.T) {
	far, near := b.both(t)
	_ = near.Release(t.Context(), 1) // the server knows the script
	// A request that gives back must name the time of the grant: other callers may have the
	// permits when it arrives.
	var returned, nameless atomic.Int64
	stop := b.proxy.Observe(func(args []string) {
		const n = 4 // EVALSHA, hash, 1, key
		if !redistest.IsScript(args) || len(args) <= n || !strings.HasPrefix(args[n], "-") {
			return
		}
		returned.Add(1)
		if stamp, err := strconv.ParseInt(args[len(args)-1], 10, 64); err != nil || stamp < 1e15 {
			nameless.Add(1)
		}
	})
	defer stop()
	defer func() {
		if n := nameless.Load(); n > 0 {
			t.Errorf("%d requests give back permits of any grant", n)
		}
	}()
	for _, n := range []int64{10, 3} {
		before := returned.Load()
		Leave(t, b.proxy, redistest.IsScript, func(ctx context.Context) error {
			_, err := far.Allow(ctx, n)
			return err
		})
		redistest.Eventually(t, "a request that gives back", func() bool { return returned.Load() > before })
		redistest.Eventually(t, "the permits", func() bool {
			return redistest.Must(near.Allow(t.Context(), 10))(t).Allowed
		})
		redistest.NoError(t, near.Release(t.Context(), 10))
	}
}

// Leave cancels a call whose request, of a kind, is on its way through a proxy to the server, which then
// gets it.
func Leave(t *testing.T, proxy *redistest.Proxy, kind func(args []string) bool,
	call func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before := proxy.Held()
	arrive := proxy.HoldNext(1, kind)
	defer arrive()
	left := make(chan error, 1)
	go func() { left <- call(ctx) }()
	redistest.Eventually(t, "the request", func() bool { return proxy.Held() > before })
	cancel()
	Fails(t, context.Canceled, <-left)
}

// lost swallows a reply. The request must not be sent again: it may have been carried out.
func (b bench) lost(t *testing.T) {
	far, near := b.both(t)
	b.proxy.SwallowReply(1)
	if r, err := far.Allow(t.Context(), 4); err == nil {
		t.Errorf("Allow returns %+v and no error", r)
	}
	Allow(t, near, 7, false) // 4 of 10 are taken
	redistest.NoError(t, near.Release(t.Context(), 4))
	Allow(t, near, 10, true) // 4 were taken once
}

// settlesOnce swallows the reply of a settlement, which must not take effect twice.
func (b bench) settlesOnce(t *testing.T) {
	for _, tt := range []struct{ actual, left int64 }{{2, 8}, {9, 1}} {
		far, near := b.both(t)
		r, _, err := far.(limit.Ledger).TryReserve(t.Context(), 6)
		redistest.NoError(t, err)
		b.proxy.SwallowReply(1)
		first := r.Settle(t.Context(), tt.actual)
		if again := r.Settle(t.Context(), tt.actual); first == nil || !errors.Is(again, first) {
			t.Errorf("Settle returns %v, then %v; want an error twice", first, again)
		}
		if r := Allow(t, near, 10, false); r.Remaining != tt.left {
			t.Errorf("left are %d, want %d", r.Remaining, tt.left)
		}
	}
}

// garbage is foreign data.
var garbage = []string{
	"", "x", "nan", "-nan", "inf", "-inf", "-1", "-1e300", "1e300", "99999999999999999999", "0x10", "1.5",
	"\x00",
	"9007199254740993", "1e", "{}", strings.Repeat("9", 400),
}

func (b bench) hostile(t *testing.T) {
	rdb, ctx := b.server.Admin(), t.Context()
	for _, g := range garbage {
		l, key := b.used(t, rdb)
		spoil(t, rdb, key, g)
		b.bears(t, l, g)
		if ttl := rdb.PTTL(ctx, key).Val(); ttl <= 0 || ttl > 3*time.Hour {
			t.Errorf("%.20q: the time to live is %v", g, ttl)
		}
	}
}

// spoil writes garbage into a key of any type.
func spoil(t *testing.T, rdb *redis.Client, key, g string) {
	t.Helper()
	ctx := t.Context()
	switch kind := rdb.Type(ctx, key).Val(); kind {
	case "string":
		redistest.NoError(t, rdb.Set(ctx, key, g, 0).Err())
	case "hash":
		for _, name := range rdb.HKeys(ctx, key).Val() {
			redistest.NoError(t, rdb.HSet(ctx, key, name, g, g, g).Err())
		}
	case "zset":
		for i, z := range rdb.ZRangeWithScores(ctx, key, 0, -1).Val() {
			z.Member = fmt.Sprint(g, i)
			redistest.NoError(t, rdb.ZAdd(ctx, key, z, redis.Z{Score: z.Score, Member: g}).Err())
			redistest.NoError(t, rdb.ZAdd(ctx, key, redis.Z{Score: 1e300, Member: g + "late"}).Err())
			redistest.NoError(t, rdb.ZAdd(ctx, key, redis.Z{Score: -1e300, Member: g + "early"}).Err())
		}
	default:
		t.Fatalf("the key is a %s", kind)
	}
	redistest.NoError(t, rdb.Persist(ctx, key).Err())
}

// bears expects sound results, and no more permits than the limit.
func (b bench) bears(t *testing.T, l limit.Releaser, g string) {
	t.Helper()
	taken := int64(0)
	for i := range int64(14) {
		n := 1 + i%3
		r, err := l.Allow(t.Context(), n)
		if err != nil {
			t.Errorf("%.20q: %v", g, err)
			return
		}
		if r.Remaining < 0 || r.Remaining > 10 || r.RetryAfter < 0 || r.RetryAfter > full*time.Hour ||
			r.ResetAfter < 0 || r.ResetAfter > full*time.Hour || r.Allowed != (r.RetryAfter == 0) {
			t.Errorf("%.20q: %+v", g, r)
		}
		if r.Allowed {
			taken += n
		}
	}
	if taken > 10*b.Worst {
		t.Errorf("%.20q: %d of 10 are granted", g, taken)
	}
	if err := l.Release(t.Context(), 3); err != nil {
		t.Errorf("%.20q: %v", g, err)
	}
	_, _ = l.Allow(t.Context(), 1) // so that the key exists
}

func (b bench) wrongType(t *testing.T) {
	rdb, ctx := b.server.Admin(), t.Context()
	l, key := b.used(t, rdb)
	redistest.NoError(t, errors.Join(rdb.Del(ctx, key).Err(), rdb.LPush(ctx, key, "x").Err()))
	if r, err := l.Allow(ctx, 1); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") || r.Allowed {
		t.Errorf("over a list: %+v %v", r, err)
	}
}

func (b bench) names(t *testing.T) {
	a, rdb := b.New(10, time.Hour), redis.UniversalClient(b.server.Admin())
	for _, tt := range []struct {
		rdb  redis.UniversalClient
		name string
	}{
		{rdb, ""}, {rdb, strings.Repeat("x", 1025)},
		{nil, "name"}, {(*redis.Client)(nil), "name"}, {(*redis.ClusterClient)(nil), "name"},
	} {
		if _, err := a.OnRedis(tt.rdb, tt.name); !errors.Is(err, limit.ErrInvalidArgument) {
			t.Errorf("on a %T with a name of %d bytes: %v", tt.rdb, len(tt.name), err)
		}
	}
}
