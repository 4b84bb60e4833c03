package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// free checks that nobody holds a lock.
func free(t *testing.T, server *redistest.Server, name string) {
	t.Helper()
	if all := server.Admin().HGetAll(t.Context(), name).Val(); len(all) > 0 {
		t.Errorf("%s is held: %v", name, all)
	}
}

// Without a command, a lock is held for its lease, and unlocked by force, which asks first.
func TestLockAndUnlock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	steps(t, server, "",
		step{"lock x", 2, "", "--lease is missing"},
		step{"lock x --lease 1h --id svc", 0, `"x": locked by svc:`, ""},
		step{"lock x --lease 1h --wait 0", 1, `"x": refused, somebody else holds it`, ""},
		step{"lock x --lease 1h --wait 1ms", 1, "holds it, waited ", ""},
		step{"lock x --lease 1h --wait 0 --quiet --refused-code 75", 75, "", ""},
		step{"lock x --lease 1h --wait 0 --json", 1, `{ "name": "x", "locked": false }`, ""},
		step{"unlock x", 2, "", "--force is missing"},
		step{"unlock x --force", 2, "", "held by svc:"},
		step{"unlock x --force --json --yes", 0, `"unlocked": true, "owners": [ { "owner": "svc:`, ""},
		step{"unlock x --force", 1, `"x": nobody holds it`, ""},
	)
	free(t, server, "x")
	steps(t, server, "",
		step{"lock x --lease 1h --fenced --wait 0", 0, "for 1h, token 1", ""},
		step{"--name-prefix p: lock x --lease 1h --fenced --json", 0, `, "lease_ms": 3600000`, ""},
	)
	steps(t, server, "yes\n",
		step{"unlock x --force", 0, `"x": unlocked`, "It is unlocked, whether"},
		step{"--name-prefix p: unlock x --force", 0, `"x": unlocked`, `"x": held by`},
	)
	free(t, server, "p:x")
}

func TestBadArgumentsOfLocks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	steps(t, server, "",
		step{"set api 5 1h", 0, "set", ""},
		step{"unlock api --force --yes", 2, "", `"api" is no lock, but a hash of something else`},
		step{"lock x --lease 1us", 2, "", "lease is 1µs, must be at least 1ms"},
		step{"lock x --lease -1s", 2, "", "lease is -1s"},
		step{"lock x --wait -1s -- true", 2, "", "--wait is -1s, must not be negative"},
		step{"lock x --grace -1s -- true", 2, "", "--grace is -1s, must not be negative"},
		step{"lock x --refused-code 0 -- true", 2, "", "--refused-code is 0, must be between 1 and 255"},
		step{"lock x --lost-code 256 -- true", 2, "", "--lost-code is 256, must be between 1 and 255"},
		step{"lock x true", 2, "", `unexpected argument "true": a command needs -- before it`},
		step{"lock api --lease 1m", 2, "", "a rate limiter has this name"},
	)
	if n := server.Admin().HLen(t.Context(), "api").Val(); n < 3 {
		t.Errorf("the limiter has %d fields", n)
	}
}

// A call that is interrupted while it does not know yet that it has the lock leaves nothing locked.
func TestLockInterruptedWhileAsking(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"lock x --lease 1h", "lock x --lease 1h --wait 0", "lock x -- echo ran"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			interruptedAsking(t, s, "x", strings.Fields(args)...)
			redistest.Until(t, "the lock is given back", func() error {
				if s.Admin().Exists(t.Context(), "x").Val() > 0 {
					return errors.New("it is held")
				}
				return nil
			})
		})
	}
}

// A result that cannot be printed is none: the lock is given back.
func TestLockThatCannotBePrinted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	full := unwritable{errors.New("no space left on device")}
	for _, c := range []struct {
		args           []string
		stdout, stderr io.Writer
	}{
		{[]string{"lock", "x", "--lease", "1h"}, full, io.Discard},
		{[]string{"lock", "x", "--json", "--", "true"}, io.Discard, full},
	} {
		args := append([]string{"--redis", s.Addr}, c.args...)
		if code := run(t.Context(), args, nil, c.stdout, c.stderr); code != exitError {
			t.Errorf("%q: code %d", c.args, code)
		}
		free(t, s, "x")
	}
}

// waitsFor returns when somebody waits for a lock.
func waitsFor(t *testing.T, server *redistest.Server, name string) {
	t.Helper()
	redistest.Until(t, "it waits", func() error {
		channels := "redisson_lock__channel:{" + name + "}*" // of a fair lock each waiter has one
		if len(server.Admin().PubSubChannels(t.Context(), channels).Val()) == 0 {
			return errors.New("nobody has subscribed")
		}
		return nil
	})
}

// Who waits gets the lock when it is unlocked.
func TestLockIsWaitedFor(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	h := held(t, server, "x")
	done := make(chan string)
	go func() {
		code, stdout, stderr := rrl(t.Context(), "--redis", server.Addr, "lock", "x", "--lease", "1h")
		done <- fmt.Sprint(code, stdout, stderr)
	}()
	waitsFor(t, server, "x")
	redistest.NoError(t, h.Unlock(t.Context()))
	if got := <-done; !strings.HasPrefix(got, `0"x": locked by`) {
		t.Error(got)
	}
}

// held returns a lock that a service holds.
func held(t *testing.T, server *redistest.Server, name string) *rlock.Hold {
	t.Helper()
	c := rratelimiter.New(server.Client(t))
	t.Cleanup(func() { _ = c.Close() })
	h := redistest.Must(rlock.New(c).Lock(name).Lock(t.Context()))(t)
	return h
}

// fairly writes a fair lock with waiters as Redisson does: two of them count for a minute, the first has not
// counted for as long.
func fairly(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	const jvm = "5e4f0f64-8d3c-4bb4-9a63-3a0c6f1c2a11:"
	ctx := t.Context()
	rdb.HSet(ctx, "orders", jvm+"52", 2)
	rdb.PExpire(ctx, "orders", 30*time.Second)
	for i, waiter := range []string{jvm + "60", jvm + "61", "0a9c7b1e-5f2d-4c4e-8b1a-77d0b8e1c3f2:31"} {
		until := time.Now().Add(time.Duration(min(i, 1)*2-1)*time.Minute + time.Duration(i)*time.Second)
		rdb.RPush(ctx, "redisson_lock_queue:{orders}", waiter)
		z := redis.Z{Score: float64(until.UnixMilli()), Member: waiter}
		redistest.NoError(t, rdb.ZAdd(ctx, "redisson_lock_timeout:{orders}", z).Err())
	}
}
