package inspect_test

import (
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

// Owners in two JVMs, as Redisson names its threads.
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

// enqueue writes a waiter of a fair lock as Redisson does, who counts for a time from now on.
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
		if !l.There() || !same || l.At.Location() != time.UTC {
			t.Errorf("%+v, want %+v", l, want)
		}
		if ttl := l.TTL(); ttl < 20_000 || ttl > 30_000 || len(l.Findings) > 0 || !l.Holds() {
			t.Errorf("TTL %d, %+v", ttl, l)
		}
	}
}

// Each fault of a lock is found, and its remedy works. cmd/rrl has reports of free and of fair locks as
// golden files.
func TestFindingsOfLocks(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	const queue, timeouts = "redisson_lock_queue:{x}", "redisson_lock_timeout:{x}"
	const token = "redisson_lock_token:{x}"
	for _, c := range []struct {
		label, what string
		spoil       []string // commands
		mend        string   // a command; empty for none
	}{
		{"no TTL", "without a pause", []string{"PERSIST x"}, ""},
		{"no TTL", "does not end if its holder dies.", []string{
			"DEL " + queue + " " + timeouts, "PERSIST x",
		}, ""},
		{"no TTL", "takes a refusal for a grant", []string{
			"DEL " + queue + " " + timeouts, "SET " + token + " 7", "PERSIST x",
		}, ""},
		{"two owners", "2 owners hold", []string{"HSET x svc:7 1"}, ""},
		{"token", `"many", not an int`, []string{"SET " + token + " many"}, ""},
		{"token", "tokens begin again at 1", []string{"SET " + token + " 7 EX 9"}, ""},
		{"two kinds", "a fenced and for a fair lock", []string{"SET " + token + " 7"}, ""},
		{"jam", "head of the queue", []string{"ZREM " + timeouts + " " + second},
			"UNLINK " + queue + " " + timeouts},
		{"jam", "is lost: without timeouts", []string{"DEL x " + timeouts},
			"UNLINK " + queue + " " + timeouts},
		{"jam ahead", "without a timeout: 1. If one", []string{"ZREM " + timeouts + " " + third},
			"UNLINK " + queue + " " + timeouts},
		{"twice", "in the queue twice", []string{"RPUSH " + queue + " " + second},
			"LREM " + queue + " -1 " + second},
		{"another program", "is a string, must be a list", []string{"SET " + queue + " 1"},
			"UNLINK " + queue},
	} {
		t.Run(c.label, func(t *testing.T) {
			do := func(command string) {
				t.Helper()
				var args []any
				for word := range strings.FieldsSeq(command) {
					args = append(args, word)
				}
				redistest.NoError(t, rdb.Do(t.Context(), args...).Err())
			}
			do("FLUSHDB")
			hold(t, rdb, "x", holder)
			enqueue(t, rdb, "x", second, time.Minute)
			enqueue(t, rdb, "x", third, time.Minute)
			if l := lockOf(t, rdb, "x"); len(l.Findings) > 0 {
				t.Fatalf("before: %+v", l.Findings)
			}
			for _, command := range c.spoil {
				do(command)
			}
			l := lockOf(t, rdb, "x")
			found := l.Findings
			if len(found) == 0 || l.Holds() != found[0].Remark || !l.There() {
				t.Fatalf("%+v", l)
			}
			if i := slices.IndexFunc(found, func(f inspect.Finding) bool {
				return f.Label == c.label && strings.Contains(f.What, c.what) &&
					strings.Contains(f.Mend, c.mend)
			}); i < 0 {
				t.Fatalf("no %q in %+v", c.what, found)
			}
			if c.mend != "" {
				do(c.mend)
				if !lockOf(t, rdb, "x").Holds() {
					t.Errorf("after %s: %+v", c.mend, found)
				}
			}
		})
	}
}

// A name whose braces a cluster takes for a hash tag is a remark elsewhere.
func TestBracesInTheNameOfALock(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	hold(t, rdb, "a}b{c", holder)
	if l := lockOf(t, rdb, "a}b{c"); len(l.Findings) != 1 || l.Findings[0].Label != "braces" || !l.Holds() {
		t.Errorf("%+v", l)
	}
}

func TestOtherHashesAreNoLocks(t *testing.T) {
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

// Only the first waiters are read, and a finding says so.
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

// The idempotency keys of a lock are counted without those of other locks.
func TestEndedHoldsAreCounted(t *testing.T) {
	counts := func(rdb redis.UniversalClient) {
		t.Helper()
		for _, name := range []string{"x", "x*", "xy"} {
			for i := range 3 {
				rdb.Set(t.Context(), fmt.Sprintf("redisson_unlock_latch:{%s}:%032d", name, i), 1, time.Minute)
			}
			found, err := inspect.EndedHoldsOf(t.Context(), rdb, name)
			if err != nil || found.Found != 3 || found.AtLeast {
				t.Errorf("%s: %+v, %v", name, found, err)
			}
		}
	}
	counts(redistest.Start(t).Client(t))
	counts(redistest.StartCluster(t).Client(t))
}

// A list has the locks that are held, and no similar hashes.
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

// A name whose braces put its keys on different servers is a finding.
func TestLockOnDifferentServers(t *testing.T) {
	rdb := redistest.StartCluster(t).Client(t)
	hold(t, rdb, "a}b{c", holder)
	l := lockOf(t, rdb, "a}b{c")
	if l.Holds() || l.Findings[0].Label != "braces" || l.Owners[0].Name != holder {
		t.Errorf("%+v", l)
	}
	if _, err := json.Marshal(l); err != nil {
		t.Error(err)
	}
}

// No contents of the keys cause a panic, and any can be printed as JSON.
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
