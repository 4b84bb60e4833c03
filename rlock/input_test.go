package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
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

// Bad arguments are refused at the door: the error names the argument, its value and the
// bound, and nothing is sent.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	var sent atomic.Int64
	s.rdb.AddHook(counter{&sent})
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
			if !errors.Is(err, rratelimiter.ErrInvalidArgument) {
				t.Errorf("%v, want ErrInvalidArgument", err)
			}
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
		if !errors.Is(err, rratelimiter.ErrInvalidArgument) {
			t.Errorf("%s: %v, want ErrInvalidArgument", name, err)
		}
		wantText(t, err, name, "{tag}", "different slots")
	}
	mapped := rratelimiter.New(rdb, rratelimiter.WithNameMapper(func(string) string { return "" }))
	t.Cleanup(func() { _ = mapped.Close() })
	wantText(t, alike(t, everything(t.Context(), rlock.New(mapped).Lock("l"))), "mapped to an empty name")
}

// Any other name will do, and so will waits and leases at their bounds.
func TestOddInput(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *stage) {
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

// What others have put where a lock is, or beside it, gives an error or is waited for. It
// never makes a caller spin.
func TestHostileKeys(t *testing.T) {
	t.Parallel()
	token := func(n string) string { return "redisson_lock_token:{" + n + "}" }
	for what, tc := range map[string]struct {
		put  func(ctx context.Context, rdb redis.UniversalClient, name string) error
		bad  bool // an ErrBadState, otherwise it is waited for
		text string
	}{
		"a string": {func(ctx context.Context, rdb redis.UniversalClient, name string) error {
			return rdb.Set(ctx, name, "text", 0).Err()
		}, true, "WRONGTYPE"},
		"a string as token": {func(ctx context.Context, rdb redis.UniversalClient, name string) error {
			return rdb.Set(ctx, token(name), "text", 0).Err()
		}, true, "not an integer"},
		"a token that ends": {func(ctx context.Context, rdb redis.UniversalClient, name string) error {
			return rdb.Set(ctx, token(name), "9223372036854775807", 0).Err()
		}, true, "overflow"},
		"a list as token": {func(ctx context.Context, rdb redis.UniversalClient, name string) error {
			return rdb.RPush(ctx, token(name), "text").Err()
		}, true, "WRONGTYPE"},
		"without a TTL": {func(ctx context.Context, rdb redis.UniversalClient, name string) error {
			return rdb.HSet(ctx, name, "java:1", 1).Err()
		}, false, ""},
		"an odd hash": {func(ctx context.Context, rdb redis.UniversalClient, name string) error {
			return rdb.HSet(ctx, name, "", "text", "x", "").Err()
		}, false, ""},
		"for ever": {func(ctx context.Context, rdb redis.UniversalClient, name string) error {
			return errors.Join(rdb.HSet(ctx, name, "java:1", 1).Err(),
				rdb.PExpire(ctx, name, 200*365*24*time.Hour).Err())
		}, false, ""},
		"for longer than a time.Duration": {
			func(ctx context.Context, rdb redis.UniversalClient, name string) error {
				return errors.Join(rdb.HSet(ctx, name, "java:1", 1).Err(),
					rdb.Do(ctx, "PEXPIRE", name, int64(math.MaxInt64/1000)).Err())
			}, false, "",
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := onRedis(t) // miniredis says it in other words
			ctx, name := within(s), redistest.Name(s)
			noError(s, tc.put(ctx, s.look, name))
			if !tc.bad {
				_, ok, err := s.locks.FairLock(name).TryLock(ctx, time.Second, 0)
				noError(s, err)
				want(s, "a fair lock", ok, false)
			}
			_, ok, err := s.locks.FencedLock(name).TryLock(ctx, time.Second, 0)
			if tc.bad {
				if !errors.Is(err, rratelimiter.ErrBadState) {
					s.Errorf("%v, want ErrBadState", err)
				}
				wantText(s, err, tc.text, name)
			} else if ok || err != nil {
				s.Errorf("%v, %v; want false", ok, err)
			}
			if n := s.scripts(); n > 16 { // the first one is not known, and one comes with the subscription
				s.Errorf("%d scripts for two callers", n)
			}
			if !tc.bad {
				must(s.locks.Lock(name).ForceUnlock(ctx))(s)
			} else {
				noError(s, s.look.Del(ctx, name, token(name)).Err())
			}
			h := took(s.locks.FencedLock(name).TryLock(ctx, time.Minute, 0))(s)
			noError(s, h.Unlock(ctx))
		})
	}
}

// What others change about a lock while it is held does not keep its holder from letting go
// of it, nor the next one from having it.
func TestHostileKeysOfAHold(t *testing.T) {
	t.Parallel()
	for what, put := range map[string]func(ctx context.Context, s *stage, h *rlock.Hold, name string) error{
		"another owner beside": func(ctx context.Context, s *stage, _ *rlock.Hold, name string) error {
			return s.look.HSet(ctx, name, "java:1", 1).Err()
		},
		"a count that is none": func(ctx context.Context, s *stage, h *rlock.Hold, name string) error {
			return s.look.HSet(ctx, name, h.Owner(), "text").Err()
		},
		"a count below 0": func(ctx context.Context, s *stage, h *rlock.Hold, name string) error {
			return s.look.HSet(ctx, name, h.Owner(), "-5").Err()
		},
		"no TTL": func(ctx context.Context, s *stage, _ *rlock.Hold, name string) error {
			return s.look.Persist(ctx, name).Err()
		},
		"a string as token": func(ctx context.Context, s *stage, _ *rlock.Hold, name string) error {
			return s.look.Set(ctx, "redisson_lock_token:{"+name+"}", "text", 0).Err()
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := onRedis(t)
			ctx, name := within(s), redistest.Name(s)
			h := must(s.locks.FencedLock(name).Lock(ctx))(s)
			noError(s, h.Relock(ctx))
			noError(s, put(ctx, s, h, name))
			next := make(chan error, 1)
			go func() {
				h, err := s.locks.FencedLock(name).Lock(ctx)
				if err == nil {
					err = h.Unlock(ctx)
				}
				next <- err
			}()
			if what != "a string as token" {
				noError(s, h.Relock(ctx))
				noError(s, h.Unlock(ctx))
			}
			noError(s, h.Unlock(ctx))
			noError(s, h.Err())
			noError(s, h.Unlock(ctx))
			err := comes(s, next)
			if what != "a string as token" {
				noError(s, err)
			} else if !errors.Is(err, rratelimiter.ErrBadState) {
				s.Errorf("the next one: %v, want ErrBadState", err)
			}
			want(s, "locks", must(s.look.Exists(ctx, name).Result())(s), 0)
		})
	}
}

// A name that a limiter has is refused, and the limiter stays what it is: its hash would count as a
// lock that nobody unlocks.
func TestTheNameOfALimiter(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	limiters := rratelimiter.New(s.rdb)
	t.Cleanup(func() { _ = limiters.Close() })
	for _, keep := range []time.Duration{0, time.Hour} {
		ctx, name := within(s), redistest.Name(s)
		noError(s, limiters.RateLimiter(name).SetRate(ctx, rratelimiter.Overall, 5, time.Minute,
			rratelimiter.WithKeepAlive(keep)))
		for what, ask := range map[string]func() error{
			"Lock": func() error { _, err := s.locks.Lock(name).Lock(ctx); return err },
			"FencedLock": func() error {
				_, _, err := s.locks.FencedLock(name).TryLock(ctx, 0, 0)
				return err
			},
			"FairLock":    func() error { _, err := s.locks.FairLock(name).Lock(ctx); return err },
			"ForceUnlock": func() error { _, err := s.locks.Lock(name).ForceUnlock(ctx); return err },
			"ForceUnlock fair": func() error {
				_, err := s.locks.FairLock(name).ForceUnlock(ctx)
				return err
			},
		} {
			err := ask()
			if !errors.Is(err, rratelimiter.ErrBadState) {
				s.Errorf("%s, keep alive %v: %v, want ErrBadState", what, keep, err)
			}
			wantText(s, err, "a rate limiter has this name", name)
		}
		want(s, "the rate", must(limiters.RateLimiter(name).Config(ctx))(s).Rate, 5)
		want(s, "keys of a queue", must(s.look.Exists(ctx, "redisson_lock_queue:{"+name+"}").Result())(s), 0)
	}
}
