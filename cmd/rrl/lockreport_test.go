package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/cmd/rrl/internal/golden"
	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// What inspect prints, of locks of each kind.
func TestInspectPrintsLocks(t *testing.T) {
	const token = "redisson_lock_token:{orders}"
	const queue, timeouts = "redisson_lock_queue:{orders}", "redisson_lock_timeout:{orders}"
	for name, spoil := range map[string]func(ctx context.Context, rdb *redis.Client){
		"lock-fair.golden": func(ctx context.Context, rdb *redis.Client) {
			rdb.Set(ctx, "redisson_unlock_latch:{orders}:00112233445566778899aabbccddeeff", 1, time.Minute)
		},
		"lock-fenced.golden": func(ctx context.Context, rdb *redis.Client) {
			rdb.Del(ctx, queue, timeouts)
			rdb.Set(ctx, token, 7, 0)
		},
		"lock-jam.golden": func(ctx context.Context, rdb *redis.Client) {
			rdb.Del(ctx, "orders", timeouts)
			for range 10 {
				rdb.RPush(ctx, queue, "svc:1")
			}
		},
		"lock-endless.golden": func(ctx context.Context, rdb *redis.Client) {
			rdb.Del(ctx, queue, timeouts)
			rdb.Persist(ctx, "orders")
			rdb.HSet(ctx, "orders", "a b:1", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rdb := redistest.MiniClient(t, redistest.Mini(t))
				fairly(t, rdb)
				time.Sleep(time.Second)
				spoil(t.Context(), rdb)
				var a app
				l := redistest.Must(a.lockAt(t.Context(), rdb, "orders", inspect.Few))(t)
				var b strings.Builder
				lockReport{Lock: l}.print(&b)
				golden.Check(t, filepath.Join("testdata", name), b.String())
			})
		})
	}
}

// inspect knows a lock by its keys, whether it is held or not.
func TestInspectALock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Admin()
	fairly(t, rdb)
	rdb.Set(t.Context(), "redisson_lock_token:{old}", 7, 0)
	rdb.RPush(t.Context(), "redisson_lock_queue:{jam}", "svc:1", "svc:2")
	rdb.HSet(t.Context(), "p:other", "svc:1", 1)
	rdb.HSet(t.Context(), "person", "name", "Ada")
	steps(t, server, "",
		step{"inspect orders", 0, "held by 5e4f0f64-8d3c-4bb4-9a63-3a0c6f1c2a11:52 2 times, for ", ""},
		step{"inspect orders --check", 0, "note: The head of the queue", ""},
		step{"inspect orders --records 2", 0, "Waiters that were not read: 1 of 3.", ""},
		step{"inspect old", 0, "fenced lock, free last token 7 KEY", ""},
		step{"inspect jam", 1, "fair lock, free", ""},
		step{"inspect jam --check", 1, "WRONG: \"redisson_lock_timeout:{jam}\" is lost", ""},
		step{"--name-prefix p: inspect other", 1, "other at", ""},
		step{"--name-prefix p: inspect other --check", 1, "WRONG: The lock has no TTL", ""},
		step{"inspect person", 1, "No rate is set.", ""},
		step{"inspect nothing", 1, "Neither a limiter nor a lock that is held has this name.", ""},
	)
	_, stdout, _ := rrl(t.Context(), "--redis", server.Addr, "inspect", "orders", "--json")
	var l inspect.Lock
	redistest.NoError(t, json.Unmarshal([]byte(stdout), &l))
	if l.Name != "orders" || l.Kind != inspect.Fair || len(l.Waiters) != 3 || !l.Waiters[0].Dead {
		t.Errorf("%s", stdout)
	}
	for range 12 {
		rdb.RPush(t.Context(), "redisson_lock_queue:{orders}", "svc:1")
	}
	steps(t, server, "",
		step{"inspect orders", 1, "5 more, --all prints them", ""},
		step{"inspect orders --all", 1, " 15 svc:1 unknown", ""},
	)
}

// list shows limiters and locks, each in a table.
func TestListOfLocks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Admin()
	fairly(t, rdb)
	rdb.HSet(t.Context(), "orders2", "5e4f0f64-8d3c-4bb4-9a63-3a0c6f1c2a11:7", 1)
	rdb.Set(t.Context(), "redisson_lock_token:{orders2}", 7, 0)
	const locks = `
LOCK     KIND    HELD BY                                  TIMES  TTL   WAITING  TOKEN  WRONG
orders   fair    5e4f0f64-8d3c-4bb4-9a63-3a0c6f1c2a11:52  2      TIME  3        -
orders2  fenced  5e4f0f64-8d3c-4bb4-9a63-3a0c6f1c2a11:7   1      none  -        7      no TTL
`
	times, gaps := regexp.MustCompile(` [0-9.]+s `), regexp.MustCompile(` +(\n| )`)
	list := func(want, wantErr string, args ...string) {
		t.Helper()
		code, stdout, stderr := rrl(t.Context(), append([]string{"--redis", server.Addr, "list"}, args...)...)
		stdout = times.ReplaceAllString(stdout, " TIME ")
		stdout, want = gaps.ReplaceAllString(stdout, "$1"), gaps.ReplaceAllString(want, "$1")
		if code != 0 || stdout != strings.TrimPrefix(want, "\n") || !strings.HasPrefix(stderr, wantErr) {
			t.Errorf("%q: code %d, printed\n%s\n%s\nwant\n%s", args, code, stdout, stderr, want)
		}
	}
	list(locks, "0 limiters, 2 locks, found in ")
	steps(t, server, "", step{"set api 5 1h", 0, "set", ""})
	list(`
NAME  TYPE     RATE  INTERVAL  REMAINING  OUTSTANDING  TTL   KEEP ALIVE  CLIENTS  WRONG
api   OVERALL  5     1h        5          0            none  none        -
`+locks, "1 limiter, 2 locks, found in ")
	list("", "0 limiters, found in ", "z*")
	steps(t, server, "", step{"list --json z*", 0, `"limiters": [], "locks": [],`, "0 limiters, found"})
	code, stdout, _ := rrl(t.Context(), "list", "--json", "--redis", server.Addr, "orders*")
	var l listing
	err := json.Unmarshal([]byte(stdout), &l)
	if err != nil || code != 0 || len(l.Locks) != 2 || l.Done.Locks != 2 {
		t.Errorf("%v: %s", err, stdout)
	}
}
