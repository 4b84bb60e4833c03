package inspect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// The owners of two JVMs, as Redisson names its threads.
const (
	holder = "5e4f0f64-8d3c-4bb4-9a63-3a0c6f1c2a11:52"
	second = "0a9c7b1e-5f2d-4c4e-8b1a-77d0b8e1c3f2:31"
	third  = "5e4f0f64-8d3c-4bb4-9a63-3a0c6f1c2a11:60"
)

// lockOf reads a lock.
func lockOf(t *testing.T, rdb redis.UniversalClient, name string) *inspect.Lock {
	t.Helper()
	l := redistest.Must(inspect.ReadLock(t.Context(), rdb, name, inspect.Few))(t)
	return l
}

// hold writes a lock as Redisson does.
func hold(t *testing.T, rdb redis.UniversalClient, name, owner string) {
	t.Helper()
	rdb.HSet(t.Context(), name, owner, 1)
	redistest.NoError(t, rdb.PExpire(t.Context(), name, 30*time.Second).Err())
}

// enqueue writes a waiter of a fair lock as Redisson does, who counts so long from now on.
func enqueue(t *testing.T, rdb redis.UniversalClient, name, owner string, counts time.Duration) {
	t.Helper()
	rdb.RPush(t.Context(), "redisson_lock_queue:{"+name+"}", owner)
	z := redis.Z{Score: float64(time.Now().Add(counts).UnixMilli()), Member: owner}
	redistest.NoError(t, rdb.ZAdd(t.Context(), "redisson_lock_timeout:{"+name+"}", z).Err())
}

// A lock is read as this module writes it.
func TestReadLock(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	locks := rlock.New(clientOn(t, rdb))
	h := redistest.Must(locks.FencedLock("x").Lock(t.Context()))(t)
	redistest.NoError(t, h.Relock(t.Context()))
	plain := redistest.Must(locks.Lock("y").Lock(t.Context()))(t)
	for name, want := range map[string]inspect.Lock{
		"x": {
			Kind: inspect.Fenced, Token: fmt.Sprint(h.Token()),
			Owners: []inspect.Owner{{Name: h.Owner(), Count: 2}},
		},
		"y": {Kind: inspect.Plain, Owners: []inspect.Owner{{Name: plain.Owner(), Count: 1}}},
	} {
		l := lockOf(t, rdb, name)
		same := l.Kind == want.Kind && l.Token == want.Token && slices.Equal(l.Owners, want.Owners)
		if !l.There() || !same {
			t.Errorf("%+v, want %+v", l, want)
		}
		if ttl := l.TTL(); ttl < 20_000 || ttl > 30_000 || len(l.Findings) > 0 || !l.Holds() {
			t.Errorf("TTL %d, %+v", ttl, l)
		}
	}
}

// Of a lock that nobody holds its token is there, and of one that nobody has held nothing.
func TestReadFreeLock(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	if l := lockOf(t, rdb, "x"); l.There() || len(l.Findings) > 0 || l.TTL() != -2 {
		t.Errorf("%+v", l)
	}
	rdb.Set(t.Context(), "redisson_lock_token:{x}", 7, 0)
	if l := lockOf(t, rdb, "x"); !l.There() || len(l.Owners) > 0 || l.Kind != inspect.Fenced || !l.Holds() {
		t.Errorf("%+v", l)
	}
}

// The waiters of a fair lock are in order, with until when each counts.
func TestReadFairLock(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	hold(t, rdb, "x", holder)
	enqueue(t, rdb, "x", second, -time.Minute)
	enqueue(t, rdb, "x", third, time.Minute)
	l := lockOf(t, rdb, "x")
	if l.Kind != inspect.Fair || !l.Holds() || l.Waiting != 2 || len(l.Waiters) != 2 {
		t.Fatalf("%+v", l)
	}
	first, last := l.Waiters[0], l.Waiters[1]
	if first.Owner != second || !first.Dead || last.Owner != third || last.Dead || last.Until == nil {
		t.Errorf("%+v", l.Waiters)
	}
	if left := last.Until.Sub(l.At); left < 50*time.Second || left > 70*time.Second {
		t.Errorf("%v left", left)
	}
	if len(l.Findings) != 1 || !strings.Contains(l.Findings[0].What, "counts as dead since 1m") {
		t.Errorf("%+v", l.Findings)
	}
}

// What is wrong with a lock is found, and what mends it mends it.
func TestFindingsOfLocks(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	const queue, timeouts = "redisson_lock_queue:{x}", "redisson_lock_timeout:{x}"
	const token = "redisson_lock_token:{x}"
	for label, c := range map[string]struct {
		spoil func(ctx context.Context)
		what  string
		mend  string // as in redis-cli, if it is a command
	}{
		"no TTL":     {func(ctx context.Context) { rdb.Persist(ctx, "x") }, "without a pause", ""},
		"two owners": {func(ctx context.Context) { rdb.HSet(ctx, "x", "svc:7", 1) }, "2 owners hold", ""},
		"token":      {func(ctx context.Context) { rdb.Set(ctx, token, "many", 0) }, `"many", no int`, ""},
		"jam": {func(ctx context.Context) { rdb.ZRem(ctx, timeouts, second) }, "head of the queue",
			"UNLINK " + queue + " " + timeouts},
		"jam ahead": {func(ctx context.Context) { rdb.ZRem(ctx, timeouts, third) }, "count: 1. One",
			"UNLINK " + queue + " " + timeouts},
		"twice": {func(ctx context.Context) { rdb.RPush(ctx, queue, second) }, "in the queue twice",
			"LREM " + queue + " -1 " + second},
		"other": {func(ctx context.Context) { rdb.Del(ctx, queue); rdb.Set(ctx, queue, 1, 0) },
			"is a string, must be a list", "UNLINK " + queue},
	} {
		t.Run(label, func(t *testing.T) {
			rdb.FlushDB(t.Context())
			hold(t, rdb, "x", holder)
			enqueue(t, rdb, "x", second, time.Minute)
			enqueue(t, rdb, "x", third, time.Minute)
			if l := lockOf(t, rdb, "x"); len(l.Findings) > 0 {
				t.Fatalf("before: %+v", l.Findings)
			}
			c.spoil(t.Context())
			l := lockOf(t, rdb, "x")
			if l.Holds() || l.Findings[0].Label() != label || !strings.Contains(l.Findings[0].What, c.what) {
				t.Fatalf("%+v", l.Findings)
			}
			if c.mend == "" {
				return
			}
			if !strings.Contains(l.Findings[0].Mend, c.mend) {
				t.Fatalf("mend: %s", l.Findings[0].Mend)
			}
			var args []any
			for word := range strings.FieldsSeq(c.mend) {
				args = append(args, word)
			}
			redistest.NoError(t, rdb.Do(t.Context(), args...).Err())
			if l := lockOf(t, rdb, "x"); !l.Holds() {
				t.Errorf("after: %+v", l.Findings)
			}
		})
	}
}

// More is found where there is no queue, or no lock, or a name for several kinds.
func TestMoreFindingsOfLocks(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	ctx := t.Context()
	hold(t, rdb, "expires", holder)
	rdb.Set(ctx, "redisson_lock_token:{expires}", 7, time.Hour)
	hold(t, rdb, "endless", holder)
	rdb.Persist(ctx, "endless")
	hold(t, rdb, "fenced", holder)
	rdb.Set(ctx, "redisson_lock_token:{fenced}", 7, 0)
	rdb.Persist(ctx, "fenced")
	rdb.RPush(ctx, "redisson_lock_queue:{jam}", second, third) // Z is lost, and nobody holds the lock
	hold(t, rdb, "both", holder)
	enqueue(t, rdb, "both", second, time.Minute)
	rdb.Set(ctx, "redisson_lock_token:{both}", 7, 0)
	hold(t, rdb, "a}b{c", holder)
	for name, want := range map[string]struct {
		label, what string
		remark      bool
	}{
		"expires": {"token", "tokens begin again at 1", false},
		"endless": {"no TTL", "does not end if its holder dies.", false},
		"fenced":  {"no TTL", "takes a refusal for a grant", false},
		"jam":     {"jam", "is lost: nobody knows", false},
		"both":    {"other", "a fenced and for a fair lock", true},
		"a}b{c":   {"other", "different slots of a cluster", true},
	} {
		l := lockOf(t, rdb, name)
		if len(l.Findings) != 1 || l.Holds() != want.remark || l.Findings[0].Label() != want.label ||
			!strings.Contains(l.Findings[0].What, want.what) || !l.There() {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

// What is no lock is not taken for one.
func TestNoLocks(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	set(t, clientOn(t, rdb).RateLimiter("limiter"), rratelimiter.Overall, 5, time.Minute)
	for name, fields := range map[string][]any{
		"text": {holder, "often"}, "float": {holder, "1.5"}, "mode": {"mode", "read", holder, "1"},
		"writer": {holder + ":write", "1"}, "colon": {":5", "1"}, "plus": {"a:+5", "1"},
		"many": {"a:1", 1, "a:2", 1, "a:3", 1, "a:4", 1, "a:5", 1},
	} {
		rdb.HSet(t.Context(), name, fields...)
	}
	rdb.Set(t.Context(), "string", "1", 0)
	rdb.Set(t.Context(), "redisson_lock_token:{text}", "1", 0)
	for _, name := range []string{
		"text", "float", "mode", "writer", "colon", "plus", "many", "string", "limiter", "nothing",
	} {
		if l := lockOf(t, rdb, name); l.There() || len(l.Owners) > 0 || len(l.Findings) > 0 {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

// However many waiters there are, a bounded number of them is read, and said so.
func TestReadLockIsBounded(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	hold(t, rdb, "x", holder)
	const all = 10
	for i := range all {
		enqueue(t, rdb, "x", fmt.Sprintf("svc:%d", i), time.Duration(i+1)*time.Hour)
	}
	l, err := inspect.ReadLock(t.Context(), rdb, "x", 4)
	if err != nil || len(l.Waiters) != 4 || l.Waiting != all || !l.Holds() || len(l.Findings) != 1 ||
		!strings.Contains(l.Findings[0].What, "not read: 6 of 10") {
		t.Errorf("%+v, %v", l, err)
	}
	rdb.ZAdd(t.Context(), "redisson_lock_timeout:{x}", redis.Z{Score: 1e15, Member: "svc:0"})
	l, err = inspect.ReadLock(t.Context(), rdb, "x", 4)
	if err != nil || !l.Holds() || l.Waiters[0].Until != nil {
		t.Errorf("a time that was not read: %+v, %v", l, err)
	}
	for _, n := range []int{1, inspect.Most + 1} {
		if _, err := inspect.ReadLock(t.Context(), rdb, "x", n); err == nil {
			t.Errorf("%d waiters", n)
		}
	}
}

// The latches of a lock are counted, and not those of others.
func TestLatches(t *testing.T) {
	latches := func(rdb redis.UniversalClient) {
		t.Helper()
		for _, name := range []string{"x", "x*", "xy"} {
			for i := range 3 {
				rdb.Set(t.Context(), fmt.Sprintf("redisson_unlock_latch:{%s}:%032d", name, i), 1, time.Minute)
			}
			found, err := inspect.LatchesOf(t.Context(), rdb, name)
			if err != nil || found.Found != 3 || found.AtLeast {
				t.Errorf("%s: %+v, %v", name, found, err)
			}
		}
	}
	latches(redistest.Start(t).Client(t))
	latches(redistest.StartCluster(t).Client(t))
}

// A list has the locks that are held, and nothing that only looks like one.
func TestScanOfLocks(t *testing.T) {
	scanLocks(t, redistest.Start(t).Client(t))
	scanLocks(t, redistest.StartCluster(t).Client(t))
}

func scanLocks(t *testing.T, rdb redis.UniversalClient) {
	ctx := t.Context()
	set(t, clientOn(t, rdb).RateLimiter("limiter"), rratelimiter.Overall, 5, time.Minute)
	hold(t, rdb, "java", holder)
	hold(t, rdb, "fair", holder)
	enqueue(t, rdb, "fair", second, time.Minute)
	rdb.HSet(ctx, "endless", holder, 1)
	locks := rlock.New(clientOn(t, rdb)) // whose ID is no UUID
	if _, err := locks.Lock("named").Lock(ctx); err != nil {
		t.Fatal(err)
	}
	rdb.HSet(ctx, "cart", "item:1", 3)
	rdb.HSet(ctx, "person", "name", "Ada")
	limiters, found, done, err := inspect.Scan{Page: 10}.All(ctx, rdb)
	var names []string
	for _, l := range found {
		names = append(names, l.Name)
	}
	want := []string{"endless", "fair", "java", "named"}
	if err != nil || !slices.Equal(names, want) || len(limiters) != 1 {
		t.Fatalf("%v, %d limiters, %v", names, len(limiters), err)
	}
	if done.Locks != 4 || done.Limiters != 1 || found[1].Kind != inspect.Fair || found[0].Holds() {
		t.Errorf("%+v, %+v", done, found)
	}
	limiters, found, done, err = inspect.Scan{Limit: 2}.All(ctx, rdb)
	if err != nil || len(found)+len(limiters) > 2 || !done.Stopped {
		t.Errorf("%d, %d, %+v, %v", len(limiters), len(found), done, err)
	}
	only, _, err := inspect.Scan{}.Limiters(ctx, rdb)
	if err != nil || len(only) != 1 {
		t.Errorf("%v, %v", namesOf(only), err)
	}
}

// Where the braces in a name put its keys on different servers, that is found.
func TestLockOnDifferentServers(t *testing.T) {
	rdb := redistest.StartCluster(t).Client(t)
	hold(t, rdb, "a}b{c", holder)
	l := lockOf(t, rdb, "a}b{c")
	if l.Holds() || l.Findings[0].Label() != "braces" || l.Owners[0].Name != holder {
		t.Errorf("%+v", l)
	}
	if _, err := json.Marshal(l); err != nil {
		t.Error(err)
	}
}

// What anybody has written makes no panic, and can be printed as JSON.
func FuzzReadLock(f *testing.F) {
	f.Add(holder, "1", "7", second, 1e12, "x")
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
