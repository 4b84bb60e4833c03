package rlock_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// everything returns the error of each method of a lock.
func everything(ctx context.Context, l *rlock.Lock) map[string]error {
	all := map[string]error{}
	_, all["Lock"] = l.Lock(ctx)
	_, all["LockFor"] = l.LockFor(ctx, time.Second)
	_, _, all["TryLock"] = l.TryLock(ctx, 0, 0)
	_, _, all["TryLock, wait"] = l.TryLock(ctx, time.Second, time.Second)
	_, all["ForceUnlock"] = l.ForceUnlock(ctx)
	_, all["IsLocked"] = l.IsLocked(ctx)
	_, all["RemainTimeToLive"] = l.RemainTimeToLive(ctx)
	return all
}

// Bad arguments are refused at the door: the error names the argument, its value and the bound, and nothing
// is sent.
func TestBadInput(t *testing.T) {
	s := onRedis(t)
	sent := s.count()
	lease := func(d time.Duration) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := s.locks.Lock("l").LockFor(ctx, d)
			if d != 0 { // which stands for a hold that is renewed
				_, _, err2 := s.locks.FencedLock("l").TryLock(ctx, time.Second, d)
				want(t, "TryLock", fmt.Sprint(err2), fmt.Sprint(err))
			}
			return err
		}
	}
	watchdog := func(d time.Duration) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			return alike(t, everything(ctx, s.client(rlock.WithWatchdogTimeout(d)).Lock("l")))
		}
	}
	limiters := rratelimiter.New(s.rdb)
	t.Cleanup(func() { _ = limiters.Close() })
	for name, tc := range map[string]struct {
		ask  func(ctx context.Context) error
		text []string
	}{
		"no name": {func(ctx context.Context) error { return alike(t, everything(ctx, s.locks.Lock(""))) },
			[]string{"name is", "not be empty"}},
		"lease 0":          {lease(0), []string{`"l"`, "lease is 0s", "1ms"}},
		"lease below 1 ms": {lease(999 * time.Microsecond), []string{"lease is 999µs", "at least 1ms"}},
		"lease of Java":    {lease(-time.Millisecond), []string{"lease is -1ms", "at least 1ms"}},
		"lease too long":   {lease(math.MaxInt64), []string{"lease is 2562047h", "at most 87840h"}},
		"watchdog":         {watchdog(29 * time.Millisecond), []string{"watchdog timeout is 29ms", "30ms"}},
		"watchdog, long": {
			watchdog(math.MaxInt64), []string{"watchdog timeout is 2562047h", "at most 87840h"},
		},
		"no client": {func(ctx context.Context) error {
			return alike(t, everything(ctx, rlock.New(nil).Lock("l")))
		}, []string{"limiters is nil"}},
		"no option": {func(ctx context.Context) error {
			return alike(t, everything(ctx, rlock.New(limiters, nil).Lock("l")))
		}, []string{"opts[0] is nil"}},
		"client of no use": {func(ctx context.Context) error {
			return alike(t, everything(ctx, rlock.New(rratelimiter.New(nil)).Lock("l")))
		}, []string{"rdb"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.ask(t.Context())
			WantErr(t, err, rratelimiter.ErrInvalidArgument)
			WantText(t, err, tc.text...)
		})
	}
	want(t, "requests", sent.Load(), 0)
}

// alike returns the error that all have, and fails the test if they differ.
func alike(t testing.TB, errs map[string]error) (one error) {
	t.Helper()
	for what, err := range errs {
		if one == nil {
			one = err
		}
		if err == nil || err.Error() != one.Error() {
			t.Errorf("%s: %v; others: %v", what, err, one)
		}
	}
	return one
}

// Names whose keys would be in different slots of a cluster, and names that are mapped to an empty one, are
// refused there.
func TestBadNames(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}}) // never asked
	t.Cleanup(func() { _ = rdb.Close() })
	limiters := rratelimiter.New(rdb)
	t.Cleanup(func() { _ = limiters.Close() })
	for _, name := range []string{"a{b", "{}a", "a}{b"} {
		err := alike(t, everything(t.Context(), rlock.New(limiters).Lock(name)))
		WantErr(t, err, rratelimiter.ErrInvalidArgument)
		WantText(t, err, name, "{tag}", "different slots")
	}
	mapped := rratelimiter.New(rdb, rratelimiter.WithNameMapper(func(string) string { return "" }))
	t.Cleanup(func() { _ = mapped.Close() })
	WantText(t, alike(t, everything(t.Context(), rlock.New(mapped).Lock("l"))), "mapped to an empty name")
}

// Any other name will do, and so will waits and leases at their bounds.
func TestOddInput(t *testing.T) {
	onBoth(t, func(s *env) {
		ctx := within(s)
		names := []string{" ", "a b", "ä\x00\xff\r\n", "{a}b", "a{b", "{}", strings.Repeat("x", 10_000)}
		for _, name := range names {
			h := must(took(s.locks.FencedLock(name).TryLock(ctx, math.MaxInt64, 87840*time.Hour)))(s)
			NoError(s, h.Unlock(ctx))
			h = must(took(s.locks.Lock(name).TryLock(ctx, math.MinInt64, 0)))(s)
			NoError(s, h.Unlock(ctx))
		}
	})
}

// Foreign data where a lock is, or beside it, gives an error or is waited for. It never makes a caller spin.
func TestHostileKeys(t *testing.T) {
	t.Parallel()
	const forever, most = "6307200000", "9223372036854775"
	specs, foreign := map[string]string{}, map[string]string{}
	for what, command := range map[string]string{
		"a string ! WRONGTYPE":               "SET LOCK text",
		"a string as token ! not an integer": "SET TOKEN text",
		"a token that ends ! overflow":       "SET TOKEN 9223372036854775807",
		"a list as token ! WRONGTYPE":        "RPUSH TOKEN text",
	} {
		name, text, _ := strings.Cut(what, " ! ")
		specs[name] = "now; redis " + command + "; a1 takes 1s ! ErrBadState LOCK " + text +
			"; ran 1..16; redis DEL LOCK TOKEN; a1 takes; a1 unlocks"
	}
	for what, steps := range map[string]string{
		"without a TTL": "redis HSET LOCK java:1 1; ", "an odd hash": "redis HSET LOCK x text; ",
		"for ever":                        "redis HSET LOCK java:1 1; redis EXPIRE LOCK " + forever + "; ",
		"for longer than a time.Duration": "redis HSET LOCK java:1 1; redis PEXPIRE LOCK " + most + "; ",
	} {
		foreign[what] = "now; " + steps + "a1 refused 1s; ran 1..8; queue; a forces yes; a1 takes; a1 unlocks"
	}
	for what, command := range map[string]string{
		"another owner beside": "HSET LOCK java:1 1", "a count that is none": "HSET LOCK a1 text",
		"a count below 0": "HSET LOCK a1 -5", "no TTL": "PERSIST LOCK",
	} {
		specs["of a hold: "+what] = "a1 locks; a1 relocks; redis " + command + "; a2 waits; a1 relocks; " +
			"a1 unlocks; a1 unlocks; a1 err; a1 unlocks; a2 has; a2 unlocks; hash"
	}
	specs["of a hold: a string as token"] = "a1 locks; a1 relocks; redis SET TOKEN text; a2 waits; " +
		"a1 unlocks; a1 err; a1 unlocks; a2 has ! ErrBadState; hash"
	tell(t, kinds["fenced"], specs)
	for kind, of := range kinds {
		t.Run(kind, func(t *testing.T) { tell(t, of, foreign) })
	}
}

// A name that a limiter has is refused, and the limiter stays what it is: its hash would count as a lock
// that is never unlocked.
func TestLockRejectsTheNameOfALimiter(t *testing.T) {
	s := onRedis(t)
	limiters := rratelimiter.New(s.rdb)
	t.Cleanup(func() { _ = limiters.Close() })
	for _, keep := range []time.Duration{0, time.Hour} {
		ctx, name := within(s), redistest.Name(s)
		NoError(s, limiters.RateLimiter(name).SetRate(ctx, rratelimiter.Overall, 5, time.Minute,
			rratelimiter.WithKeepAlive(keep)))
		for _, err := range map[string]error{
			"Lock":             ErrOf(s.locks.Lock(name).Lock(ctx)),
			"FencedLock":       ErrOf(took(s.locks.FencedLock(name).TryLock(ctx, 0, 0))),
			"FairLock":         ErrOf(s.locks.FairLock(name).Lock(ctx)),
			"ForceUnlock":      ErrOf(s.locks.Lock(name).ForceUnlock(ctx)),
			"ForceUnlock fair": ErrOf(s.locks.FairLock(name).ForceUnlock(ctx)),
		} {
			WantErr(s, err, rratelimiter.ErrBadState, "a rate limiter has this name", name)
		}
		want(s, "the rate", must(limiters.RateLimiter(name).Config(ctx))(s).Rate, 5)
		want(s, "keys of a queue", must(s.look.Exists(ctx, "redisson_lock_queue:{"+name+"}").Result())(s), 0)
	}
}
