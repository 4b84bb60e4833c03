package input_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// Whatever goes wrong with a limiter, the error has its name as it was given,
// quoted: one that needs quoting, and that is mapped to another.
func TestErrorsNameTheLimiter(t *testing.T) {
	const name, hash = "api \"v1\"\n", "app:api"
	named := func(n string) string { return strings.Replace(n, name, hash, 1) }
	list := func(key string) func(ctx context.Context, rdb redis.Cmdable) error {
		return func(ctx context.Context, rdb redis.Cmdable) error {
			return errors.Join(rdb.Del(ctx, key).Err(), rdb.RPush(ctx, key, "x").Err())
		}
	}
	field := func(field, value string) func(ctx context.Context, rdb redis.Cmdable) error {
		return func(ctx context.Context, rdb redis.Cmdable) error {
			return rdb.HSet(ctx, hash, field, value).Err()
		}
	}
	for _, tc := range []struct {
		is    error
		state func(ctx context.Context, rdb redis.Cmdable) error
		least int // methods that cannot go ahead then
	}{
		{rratelimiter.ErrNotInitialized, func(ctx context.Context, rdb redis.Cmdable) error {
			return rdb.Del(ctx, hash).Err()
		}, 8},
		{rratelimiter.ErrNotInitialized, func(ctx context.Context, rdb redis.Cmdable) error {
			return rdb.HDel(ctx, hash, "rate").Err()
		}, 7},
		{rratelimiter.ErrBadState, list(hash), 9},
		{rratelimiter.ErrBadState, list("{" + hash + "}:value"), 5},
		{rratelimiter.ErrBadState, list("{" + hash + "}:permits"), 5},
		{rratelimiter.ErrBadState, field("rate", "x"), 7},
		{rratelimiter.ErrBadState, field("interval", "1e9"), 7},
		{rratelimiter.ErrBadState, field("type", "7"), 1},
		{rratelimiter.ErrBadState, field("keepAliveTime", "-"), 1},
		{rratelimiter.ErrPermitsExceedRate, field("rate", "0"), 3},
	} {
		var errs int
		for method, call := range Methods {
			// A fresh server each, for some methods put things right.
			m := redistest.Mini(t)
			rdb := redistest.MiniClient(t, m)
			c := rratelimiter.New(rdb, rratelimiter.WithNameMapper(named))
			l := c.RateLimiter(name)
			NoError(t, errors.Join(l.SetRate(t.Context(), Overall, 5, time.Hour),
				tc.state(t.Context(), rdb)))
			err := call(t.Context(), l)
			if closeErr := c.Close(); closeErr != nil {
				t.Fatal(closeErr)
			}
			if err == nil {
				continue
			}
			errs++
			if !errors.Is(err, tc.is) {
				t.Errorf("%s: %v, want %v", method, err, tc.is)
			}
			WantText(t, err, strconv.Quote(name))
		}
		if errs < tc.least {
			t.Errorf("%v: %d methods refuse, want %d", tc.is, errs, tc.least)
		}
	}
}

// A TYPE tells what a key holds. Where Redis refuses it, or the key has changed
// since, the error says only what the key must hold.
func TestAnErrorTellsWhatTheKeyHolds(t *testing.T) {
	for _, tc := range []struct {
		answer string
		err    error
		want   string
	}{
		{"list", nil, "key a is a list, must be a hash"},
		{"none", nil, ": key a must be a hash"},
		{"hash", nil, ": key a must be a hash"},
		{"", errors.New("NOPERM"), ": key a must be a hash"},
	} {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		NoError(t, rdb.RPush(t.Context(), "a", "x").Err())
		asked := 0
		rdb.AddHook(Answering(func(cmd redis.Cmder) bool {
			if cmd.Name() == "type" {
				asked++
				cmd.(interface{ SetVal(any) }).SetVal(tc.answer)
				cmd.SetErr(tc.err)
			}
			return cmd.Name() == "type"
		}))
		c := rratelimiter.New(rdb)
		l := c.RateLimiter("a")
		for _, method := range []string{"TryAcquire", "Config"} {
			asked = 0
			err := Methods[method](t.Context(), l)
			if !errors.Is(err, rratelimiter.ErrBadState) || asked != 1 {
				t.Errorf("%s: %v after %d times TYPE", method, err, asked)
			}
			WantText(t, err, tc.want)
		}
		_ = c.Close()
	}
}

// An error of what the server lacks also has the name.
func TestErrorsOfWhatAServerLacks(t *testing.T) {
	rdb := redistest.MiniClient(t, redistest.Mini(t))
	rdb.AddHook(Answering(func(cmd redis.Cmder) bool {
		switch cmd := cmd.(type) {
		case *redis.MapStringStringCmd: // CONFIG GET
			cmd.SetVal(map[string]string{"notify-keyspace-events": "K"})
			return true
		case *redis.DurationCmd:
			if cmd.Name() == "pexpiretime" {
				cmd.SetErr(RedisError("ERR unknown command"))
				return true
			}
		}
		return false
	}))
	for _, tc := range []struct {
		rdb    redis.UniversalClient
		method string
		want   string
	}{
		{rdb, "OnExpired",
			`keyspace notifications are off: notify-keyspace-events is "K", ` +
				`must contain E and x (or A) for "a"`},
		{rdb, "OnDeleted", `must contain E and g (or A) for "a"`},
		{rdb, "ExpireTime", `ExpireTime of "a" needs Redis 7.0`},
		{struct{ redis.UniversalClient }{rdb}, "OnExpired", `listening for "a" on a struct`},
	} {
		c := rratelimiter.New(tc.rdb)
		WantText(t, Methods[tc.method](t.Context(), c.RateLimiter("a")), tc.want)
		_ = c.Close()
	}
}

// Two names are one limiter: each caller's error has the name that it gave.
func TestErrorsHaveTheNameOfTheirCaller(t *testing.T) {
	s := redistest.Start(t)
	c := rratelimiter.New(s.Client(t), rratelimiter.WithNameMapper(func(string) string { return "one" }))
	defer c.Close()
	first, second := c.RateLimiter("first"), c.RateLimiter("second")
	NoError(t, first.SetRate(t.Context(), Overall, 10, time.Hour))
	thaw := s.Freeze(t)
	defer thaw()
	errs := make(chan error, 1)
	go func() { errs <- ErrOf(first.TryAcquire(context.Background(), 1, 200*time.Millisecond)) }()
	err := ErrOf(second.TryAcquire(t.Context(), 1, 200*time.Millisecond))
	for name, err := range map[string]error{"first": <-errs, "second": err} {
		if !errors.Is(err, rratelimiter.ErrNoAnswer) || !strings.Contains(err.Error(), strconv.Quote(name)) {
			t.Errorf("%s: %v, want an ErrNoAnswer with its name", name, err)
		}
	}
}
