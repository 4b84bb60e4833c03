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
)

// wantText fails the test unless an error has all parts in its text.
func wantText(t testing.TB, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v, want %q in it", err, part)
		}
	}
}

// everything returns what each method of a lock says.
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
			wantErr(t, "each method", err, rratelimiter.ErrInvalidArgument)
			wantText(t, err, tc.text...)
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

// Names that would spread over a cluster, and none after the name mapper, are refused there.
func TestBadNames(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}}) // never asked
	t.Cleanup(func() { _ = rdb.Close() })
	limiters := rratelimiter.New(rdb)
	t.Cleanup(func() { _ = limiters.Close() })
	for _, name := range []string{"a{b", "{}a", "a}{b"} {
		err := alike(t, everything(t.Context(), rlock.New(limiters).Lock(name)))
		wantErr(t, name, err, rratelimiter.ErrInvalidArgument)
		wantText(t, err, name, "{tag}", "different slots")
	}
	mapped := rratelimiter.New(rdb, rratelimiter.WithNameMapper(func(string) string { return "" }))
	t.Cleanup(func() { _ = mapped.Close() })
	wantText(t, alike(t, everything(t.Context(), rlock.New(mapped).Lock("l"))), "mapped to an empty name")
}

// Any other name will do, and so will waits and leases at their bounds.
func TestOddInput(t *testing.T) {
	onBoth(t, func(s *env) {
		ctx := within(s)
		names := []string{" ", "a b", "ä\x00\xff\r\n", "{a}b", "a{b", "{}", strings.Repeat("x", 10_000)}
		for _, name := range names {
			h := took(s.locks.FencedLock(name).TryLock(ctx, math.MaxInt64, 87840*time.Hour))(s)
			noError(s, h.Unlock(ctx))
			h = took(s.locks.Lock(name).TryLock(ctx, math.MinInt64, 0))(s)
			noError(s, h.Unlock(ctx))
		}
	})
}

// oneLock is the lock of specs that send commands to a server of their own, oneToken the key of its token.
const oneLock, oneToken = "l", "redisson_lock_token:{l}"

// sends sends commands to the server as another program.
func (s *env) sends(commands ...[]any) {
	s.Helper()
	for _, command := range commands {
		noError(s, s.look.Do(s.Context(), command...).Err())
	}
}

// Foreign data where a lock is, or beside it, gives an error or is waited for. It never makes a caller
// spin.
func TestHostileKeys(t *testing.T) {
	t.Parallel()
	held := []any{"HSET", oneLock, "java:1", 1}
	for what, tc := range map[string]struct {
		commands [][]any
		text     string // of an ErrBadState; without it, the lock is waited for
	}{
		"a string":          {[][]any{{"SET", oneLock, "text"}}, "WRONGTYPE"},
		"a string as token": {[][]any{{"SET", oneToken, "text"}}, "not an integer"},
		"a token that ends": {[][]any{{"SET", oneToken, math.MaxInt64}}, "overflow"},
		"a list as token":   {[][]any{{"RPUSH", oneToken, "text"}}, "WRONGTYPE"},
		"without a TTL":     {[][]any{held}, ""},
		"an odd hash":       {[][]any{{"HSET", oneLock, "", "text", "x", ""}}, ""},
		"for ever":          {[][]any{held, {"EXPIRE", oneLock, 200 * 365 * 24 * 3600}}, ""},
		"for longer than a time.Duration": {
			[][]any{held, {"PEXPIRE", oneLock, int64(math.MaxInt64 / 1000)}}, "",
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := onRedis(t) // miniredis says it in other words
			ctx := within(s)
			s.sends(tc.commands...)
			first := s.locks.FencedLock(oneLock)
			if tc.text == "" {
				noError(s, refusal(s.locks.FairLock(oneLock).TryLock(ctx, time.Second, 0)))
				noError(s, refusal(first.TryLock(ctx, time.Second, 0)))
			} else {
				err := taken(first.TryLock(ctx, time.Second, 0))
				wantErr(s, "TryLock", err, rratelimiter.ErrBadState)
				wantText(s, err, tc.text, oneLock)
			}
			if n := s.scripts(); n > 16 { // the first one is not known, and one comes with the subscription
				s.Errorf("%d scripts for two callers", n)
			}
			if tc.text == "" {
				must(s.locks.Lock(oneLock).ForceUnlock(ctx))(s)
			} else {
				s.sends([]any{"DEL", oneLock, oneToken})
			}
			noError(s, took(first.TryLock(ctx, time.Minute, 0))(s).Unlock(ctx))
		})
	}
}

// Whatever other programs change about a lock while it is held, its holder can unlock it and the next caller
// gets it.
func TestHostileKeysOfAHold(t *testing.T) {
	t.Parallel()
	const token = "a string as token"
	for what, command := range map[string]func(owner string) []any{
		"another owner beside": func(string) []any { return []any{"HSET", oneLock, "java:1", 1} },
		"a count that is none": func(owner string) []any { return []any{"HSET", oneLock, owner, "text"} },
		"a count below 0":      func(owner string) []any { return []any{"HSET", oneLock, owner, "-5"} },
		"no TTL":               func(string) []any { return []any{"PERSIST", oneLock} },
		token:                  func(string) []any { return []any{"SET", oneToken, "text"} },
	} {
		t.Run(what, func(t *testing.T) {
			s := onRedis(t)
			ctx := within(s)
			h := must(s.locks.FencedLock(oneLock).Lock(ctx))(s)
			noError(s, h.Relock(ctx))
			s.sends(command(h.Owner()))
			next := async(func() error { return pass(ctx, s.locks.FencedLock(oneLock)) })
			if what != token {
				noError(s, h.Relock(ctx))
				noError(s, h.Unlock(ctx))
			}
			noError(s, h.Unlock(ctx))
			noError(s, h.Err())
			noError(s, h.Unlock(ctx))
			if err := comes(s, next); what == token {
				wantErr(s, "the next one", err, rratelimiter.ErrBadState)
			} else {
				noError(s, err)
			}
			want(s, "locks", must(s.look.Exists(ctx, oneLock).Result())(s), 0)
		})
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
		noError(s, limiters.RateLimiter(name).SetRate(ctx, rratelimiter.Overall, 5, time.Minute,
			rratelimiter.WithKeepAlive(keep)))
		for what, err := range map[string]error{
			"Lock":             errOf(s.locks.Lock(name).Lock(ctx)),
			"FencedLock":       taken(s.locks.FencedLock(name).TryLock(ctx, 0, 0)),
			"FairLock":         errOf(s.locks.FairLock(name).Lock(ctx)),
			"ForceUnlock":      errOf(s.locks.Lock(name).ForceUnlock(ctx)),
			"ForceUnlock fair": errOf(s.locks.FairLock(name).ForceUnlock(ctx)),
		} {
			wantErr(s, fmt.Sprintf("%s, keep alive %v", what, keep), err, rratelimiter.ErrBadState)
			wantText(s, err, "a rate limiter has this name", name)
		}
		want(s, "the rate", must(limiters.RateLimiter(name).Config(ctx))(s).Rate, 5)
		want(s, "keys of a queue", must(s.look.Exists(ctx, "redisson_lock_queue:{"+name+"}").Result())(s), 0)
	}
}
