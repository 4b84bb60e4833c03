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

// onRedis checks what can only be seen on a real server.
func (s Suite) onRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	far := redis.NewClient(&redis.Options{Addr: proxy.Addr, ReadTimeout: time.Second, MaxRetries: 2})
	t.Cleanup(func() { _ = far.Close() })
	auto := redistest.Must(far.AutoPipeline())(t)
	t.Cleanup(func() { _ = auto.Close() })
	f := field{s, server, proxy, far}
	t.Run("a call is one round trip", f.trips)
	for name, rdb := range map[string]redis.UniversalClient{"a client": far, "an AutoPipeliner": auto} {
		f := field{s, server, proxy, rdb}
		t.Run("what a caller of "+name+" that has left was granted goes back", f.late)
		t.Run("a reply that "+name+" loses is an error, and its permits are taken once", f.lost)
	}
	t.Run("anything may be under the key", f.hostile)
	t.Run("another type under the key is an error", f.wrongType)
	t.Run("bad names", f.names)
}

// A field is where the checks take place.
type field struct {
	Suite
	server *redistest.Server
	proxy  *redistest.Proxy
	far    redis.UniversalClient // through the proxy
}

// both returns handles of a fresh limiter of 10 in an hour: through the proxy, and not.
func (f field) both(t *testing.T) (far, near limit.Releaser) {
	t.Helper()
	a, name := f.New(10, time.Hour), redistest.Name(t)
	far = redistest.Must(a.OnRedis(f.far, name))(t)
	return far, redistest.Must(a.OnRedis(f.server.Admin(), name))(t)
}

func (f field) trips(t *testing.T) {
	var trips redistest.RoundTrips
	rdb := f.server.Client(t)
	rdb.AddHook(&trips)
	l := redistest.Must(f.New(10, time.Hour).OnRedis(rdb, redistest.Name(t)))(t)
	_, _ = l.Allow(t.Context(), 1) // the script may have to be loaded
	before := trips.Load()
	redistest.Must(l.Allow(t.Context(), 1))(t)
	if n := trips.Load() - before; n != 1 {
		t.Errorf("%d round trips", n)
	}
}

// late has the context of a call end while its reply is on the way.
func (f field) late(t *testing.T) {
	far, near := f.both(t)
	_ = near.Release(t.Context(), 1) // the server knows the script
	// What is given back is said by its time: others may have it when the request arrives.
	var nameless atomic.Int64
	stop := f.proxy.Observe(func(args []string) {
		const n = 4 // EVALSHA, hash, 1, key
		if !isScript(args) || len(args) <= n || !strings.HasPrefix(args[n], "-") {
			return
		}
		if place, err := strconv.ParseInt(args[len(args)-1], 10, 64); err != nil || place < 1e15 {
			nameless.Add(1)
		}
	})
	defer stop()
	defer func() {
		if n := nameless.Load(); n > 0 {
			t.Errorf("%d requests give back what anybody has taken", n)
		}
	}()
	for _, n := range []int64{10, 3} {
		f.leaves(t, far, n)
		redistest.Until(t, "what was granted to be given back", func() error {
			r, err := near.Allow(t.Context(), 10)
			if err == nil && !r.Allowed {
				err = fmt.Errorf("%+v", r)
			}
			return err
		})
		redistest.NoError(t, near.Release(t.Context(), 10))
	}
}

// scripts says how many scripts the server has run.
func (f field) scripts(t *testing.T) string {
	t.Helper()
	stats := redistest.Must(f.server.Admin().InfoMap(t.Context(), "commandstats").Result())(t)
	calls, _, _ := strings.Cut(stats["Commandstats"]["cmdstat_evalsha"], ",")
	return calls
}

// leaves has a caller leave whose request was carried out, and its reply is late.
func (f field) leaves(t *testing.T, far limit.Releaser, n int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before := f.scripts(t)
	f.proxy.Delay(300 * time.Millisecond)
	defer f.proxy.Delay(0)
	left := make(chan error, 1)
	go func() {
		_, err := far.Allow(ctx, n)
		left <- err
	}()
	redistest.Until(t, "the request to be carried out", func() error {
		if f.scripts(t) == before {
			return errors.New("not yet")
		}
		return nil
	})
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller has left, and Allow returns %v", err)
	}
}

// isScript reports whether a command runs a script.
func isScript(args []string) bool {
	return strings.HasPrefix(strings.ToLower(args[0]), "eval")
}

// lost swallows a reply. The request may not be sent again: nobody knows whether it was
// carried out.
func (f field) lost(t *testing.T) {
	far, near := f.both(t)
	f.proxy.SwallowReplyTo(1, isScript)
	if r, err := far.Allow(t.Context(), 4); err == nil {
		t.Errorf("Allow returns %+v and no error", r)
	}
	if r, err := near.Allow(t.Context(), 7); err != nil || r.Allowed {
		t.Errorf("7 are granted after 4 of 10, or there is an error: %+v %v", r, err)
	}
	if err := near.Release(t.Context(), 4); err != nil {
		t.Error(err)
	}
	if r, err := near.Allow(t.Context(), 10); err != nil || !r.Allowed {
		t.Errorf("more than once 4 were taken: %+v %v", r, err)
	}
}

// garbage is what others may have written.
var garbage = []string{
	"", "x", "nan", "-nan", "inf", "-inf", "-1", "-1e300", "1e300", "99999999999999999999", "0x10", "1.5",
	"\x00",
	"9007199254740993", "1e", "{}", strings.Repeat("9", 400),
}

func (f field) hostile(t *testing.T) {
	rdb, ctx := f.server.Admin(), t.Context()
	for _, g := range garbage {
		name := redistest.Name(t)
		l := redistest.Must(f.New(10, time.Hour).OnRedis(rdb, name))(t)
		redistest.Must(l.Allow(ctx, 1))(t)
		keys := rdb.Keys(ctx, "{"+name+"}*").Val()
		if len(keys) != 1 {
			t.Fatalf("the keys are %q, want one", keys)
		}
		spoil(t, rdb, keys[0], g)
		f.bears(t, l, g)
		if ttl := rdb.PTTL(ctx, keys[0]).Val(); ttl <= 0 || ttl > 3*time.Hour {
			t.Errorf("%.20q: the time to live is %v", g, ttl)
		}
	}
}

// spoil writes something else into a key of any type.
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

// bears expects sound results, and no more than the limit, whatever is under the key.
func (f field) bears(t *testing.T, l limit.Releaser, g string) {
	t.Helper()
	taken := int64(0)
	for i := range int64(14) {
		n := 1 + i%3
		r, err := l.Allow(t.Context(), n)
		if err != nil {
			t.Errorf("%.20q: %v", g, err)
			return
		}
		if r.Remaining < 0 || r.Remaining > 10 || r.RetryAfter < 0 || r.RetryAfter > f.Full*time.Hour ||
			r.ResetAfter < 0 || r.ResetAfter > f.Full*time.Hour || r.Allowed != (r.RetryAfter == 0) {
			t.Errorf("%.20q: %+v", g, r)
		}
		if r.Allowed {
			taken += n
		}
	}
	if taken > 10*f.Worst {
		t.Errorf("%.20q: %d of 10 are granted", g, taken)
	}
	if err := l.Release(t.Context(), 3); err != nil {
		t.Errorf("%.20q: %v", g, err)
	}
	_, _ = l.Allow(t.Context(), 1) // so that there is a key
}

func (f field) wrongType(t *testing.T) {
	rdb, ctx, name := f.server.Admin(), t.Context(), redistest.Name(t)
	l := redistest.Must(f.New(10, time.Hour).OnRedis(rdb, name))(t)
	redistest.Must(l.Allow(ctx, 1))(t)
	key := rdb.Keys(ctx, "{"+name+"}*").Val()[0]
	redistest.NoError(t, errors.Join(rdb.Del(ctx, key).Err(), rdb.LPush(ctx, key, "x").Err()))
	if r, err := l.Allow(ctx, 1); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") || r.Allowed {
		t.Errorf("a list is under the key: %+v %v", r, err)
	}
}

func (f field) names(t *testing.T) {
	a, rdb := f.New(10, time.Hour), f.server.Admin()
	for _, name := range []string{"", strings.Repeat("x", 1025)} {
		if l, err := a.OnRedis(rdb, name); l != nil || !errors.Is(err, limit.ErrInvalidArgument) {
			t.Errorf("OnRedis with a name of %d bytes: %v %v", len(name), l, err)
		}
		if l, err := a.OnRedisKeyed(rdb, name); l != nil || !errors.Is(err, limit.ErrInvalidArgument) {
			t.Errorf("OnRedisKeyed with a name of %d bytes: %v %v", len(name), l, err)
		}
	}
	for _, none := range []redis.UniversalClient{nil, (*redis.Client)(nil), (*redis.ClusterClient)(nil)} {
		if l, err := a.OnRedis(none, "name"); l != nil || !errors.Is(err, limit.ErrInvalidArgument) {
			t.Errorf("OnRedis without a client, a %T: %v %v", none, l, err)
		}
	}
}
