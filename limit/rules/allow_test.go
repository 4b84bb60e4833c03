package rules_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/limittest"
	"github.com/redisson-go/rratelimiter/limit/rules"
)

// threeLimits has a wide limit, from which calls of /narrow take before they are refused.
const threeLimits = `
rules:
  - {name: wide, also: true, limits: [{rate: 10/1h}]}
  - name: narrow
    match: {route: /narrow}
    limits:
      - {name: hour, rate: 5/1h}
      - {name: minute, rate: 2/1m, algorithm: fixed-window}
  - {name: rest, limits: [{rate: 100/1h}]}
`

func TestARefusalKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inMemory(t, threeLimits)
		wantAllowed(t, r, get("/narrow"), 2)
		for range 20 {
			g := allow(t, r, get("/narrow"), 1)
			if g.Allowed || policies(g) != "wide narrow/hour narrow/minute" {
				t.Fatalf("%+v, want it refused", g)
			}
		}
		time.Sleep(time.Minute)
		wantAllowed(t, r, get("/narrow"), 2)
		wantAllowed(t, r, get("/"), 10-4)
	})
}

func TestAnErrorKeepsNothing(t *testing.T) {
	r := inMemory(t, threeLimits)
	for _, n := range []int64{3, 6, 11, 1 << 62} { // more than a limit has, the last before the first
		fails(t, limit.ErrPermitsExceedRate, r, get("/narrow"), n)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Allow(ended, get("/narrow"), 1)
	formtest.Fails(t, context.Canceled, err)
	wantAllowed(t, r, get("/"), 10)
}

func TestTheResultIsThatOfTheLimitThatBinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inMemory(t, threeLimits)
		g := allow(t, r, get("/narrow"), 1)
		one := g.Result
		one.Each, one.ResetAfter = nil, 0
		want := limit.Result{Allowed: true, Name: "narrow/minute:all", Policy: "narrow/minute", Limit: 2,
			Interval: time.Minute, Remaining: 1}
		if !reflect.DeepEqual(one, want) {
			t.Errorf("%+v, want %+v", one, want)
		}
		if got := policies(g); got != "wide narrow/hour narrow/minute" {
			t.Errorf("Each has %q", got)
		}
		allow(t, r, get("/narrow"), 1)
		g = allow(t, r, get("/narrow"), 2)
		if g.Allowed || g.Policy != "narrow/minute" || g.RetryAfter != time.Minute {
			t.Errorf("%+v, want narrow/minute to refuse for a minute", g)
		}
		for i, want := range []int64{8, 3, 0} {
			if one := g.Each[i]; one.Remaining != want || one.Allowed != (i < 2) {
				t.Errorf("%+v, want %d left", one, want)
			}
		}
		allow(t, r, get("/"), 8)
		if g = allow(t, r, get("/narrow"), 1); g.Policy != "wide" || g.Each != nil {
			t.Errorf("%+v, want wide alone: the limits behind it are not asked", g)
		}
	})
}

func TestCostMultipliesThePermits(t *testing.T) {
	r := inMemory(t, `
rules:
  - {name: all, also: true, limits: [{rate: 10/1h}]}
  - {name: export, match: {route: /export}, cost: 3, limits: [{rate: 12/1h}]}`)
	if g := allow(t, r, get("/export"), 2); g.Each[0].Remaining != 8 || g.Each[1].Remaining != 6 {
		t.Errorf("%+v, want 2 and 6 taken", g)
	}
	fails(t, limit.ErrPermitsExceedRate, r, get("/export"), 5)
	wantAllowed(t, r, get("/export"), 2)
}

// Many callers of two rules, whose limits refuse in turn, are granted exactly the permits taken from all
// limits: in memory, and by two Rules on Redis.
func TestManyCallersTakeAllOrNone(t *testing.T) {
	const text = `
rules:
  - {name: wide, also: true, limits: [{rate: 1000/1h, algorithm: fixed-window}]}
  - name: narrow
    by: user
    limits: [{name: a, rate: 60/1h}, {name: b, rate: 40/1h, algorithm: fixed-window}]`
	memory, s := inMemory(t, text), newStore(t, redistest.Start(t).Client(t))
	for where, both := range map[string][2]*rules.Rules{
		"memory": {memory, memory}, "Redis": {s.rules(t, text), s.rules(t, text)},
	} {
		var granted [8]atomic.Int64
		var callers sync.WaitGroup
		for user := range granted {
			for i := range 4 {
				callers.Go(func() {
					for range 25 {
						if allow(t, both[i%2], of(strings.Repeat("u", user+1)), 1).Allowed {
							granted[user].Add(1)
						}
					}
				})
			}
		}
		callers.Wait()
		for user := range granted {
			// A refusal by wide could be due to calls that give back; it has room for all here.
			if granted[user].Load() != 40 {
				t.Errorf("%s: user %d was granted %d, want 40", where, user, granted[user].Load())
			}
		}
		if g := allow(t, both[0], of("new"), 1); g.Each[0].Remaining != 1000-8*40-1 {
			t.Errorf("%s: wide has %d left, want 679", where, g.Each[0].Remaining)
		}
	}
}

func TestInvalidArgumentsAreRefused(t *testing.T) {
	set, r := parsed(t, threeLimits), inMemory(t, threeLimits)
	made := func(store rules.Store, set *rules.Set) error { _, err := rules.New(store, set); return err }
	rdb := redistest.MiniClient(t, redistest.Mini(t))
	client := rratelimiter.New(rdb)
	defer client.Close()
	allow(t, r, get("/"), 3)
	for what, err := range map[string]error{
		"no store": made(nil, set), "no set": made(rules.InMemory(), nil), "Reload": r.Reload(nil),
		"no client": made(rules.OnRedis(nil, rdb, "a"), set),
		"no rdb":    made(rules.OnRedis(client, nil, "a"), set),
		"no name":   made(rules.OnRedis(client, rdb, ""), set),
		"braces":    made(rules.OnRedis(client, rdb, "{a}"), set),
		"long name": made(rules.OnRedis(client, rdb, strings.Repeat("a", 201)), set),
		"no time":   r.Watch(t.Context(), "a", 0, func(error) {}),
		"no notify": r.Watch(t.Context(), "a", every, nil),
	} {
		if !errors.Is(err, limit.ErrInvalidArgument) {
			t.Errorf("%s: %v, want ErrInvalidArgument", what, err)
		}
	}
	wantAllowed(t, r, get("/"), 7) // the rules are as they were
}

func TestRulesAreALimiter(t *testing.T) {
	limittest.TestKeyed(t, limittest.KeyedSpec[limit.Func]{
		New: func(t *testing.T, rate int64, interval time.Duration) limit.Keyed[limit.Func] {
			r := inMemory(t, file("by: user", "limits: [{rate: "+slashed(rate, interval)+"}]"))
			return limit.KeyedFunc(func(key string) limit.Func {
				return func(ctx context.Context, n int64) (limit.Result, error) {
					g, err := r.Allow(ctx, of(key), n)
					return g.Result, err
				}
			})
		},
		Algorithm: limittest.SlidingLog,
		Synctest:  true,
	})
}

// A slow store delays a refused call by 100 ms, and the permits of each limit come back later.
func TestARefusedCallWaits100msForASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		clock := limit.WithClock(func() time.Time {
			if slow.Load() {
				time.Sleep(time.Second)
			}
			return time.Now()
		})
		r := redistest.Must(rules.New(rules.InMemory(clock), parsed(t, `
rules:
  - {name: one, also: true, limits: [{rate: 5/1h}]}
  - {name: two, also: true, limits: [{rate: 5/1h}]}
  - {name: narrow, match: {route: /narrow}, limits: [{rate: 1/1h}]}`)))(t)
		allow(t, r, get("/narrow"), 1)
		slow.Store(true)
		start := time.Now()
		allow(t, r, get("/narrow"), 1)
		if took := time.Since(start); took != 3*time.Second+100*time.Millisecond {
			t.Errorf("the call took %v, want 3 slow limits and 100 ms", took)
		}
		time.Sleep(time.Minute)
		slow.Store(false)
		if g := allow(t, r, get("/"), 1); g.Each[0].Remaining != 3 || g.Each[1].Remaining != 3 {
			t.Errorf("%+v, want 3 left of both", g.Each)
		}
	})
}

// Timeout bounds the limits, without the lookup of the user.
func TestTimeoutBoundsTheLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := limit.WithClock(func() time.Time {
			time.Sleep(60 * time.Millisecond)
			return time.Now()
		})
		r := redistest.Must(rules.New(rules.InMemory(slow), parsed(t, `
rules:
  - {name: one, match: {route: /one}, by: user, limits: [{rate: 5/1h}]}
  - {name: two, by: user,
     limits: [{name: a, rate: 5/1h}, {name: b, rate: 5/1h}, {name: c, rate: 5/1h}]}`)))(t)
		call := of("alice")
		call.Path, call.Timeout = "/one", 100*time.Millisecond
		call.User = func() (string, error) {
			time.Sleep(time.Minute)
			return "alice", nil
		}
		allow(t, r, call, 1)
		call.Path = "/"
		fails(t, context.DeadlineExceeded, r, call, 1)
		time.Sleep(time.Second) // until the permits are back
		call.Timeout = 0
		if g := allow(t, r, call, 5); !g.Allowed {
			t.Errorf("%+v, want all permits", g)
		}
	})
}

// The context of a request begins, with the timeout of httplimit, when its rules were found: a path that
// takes long to read must not use up the time of the limiter.
func TestRulesAreFoundBeforeTheContextBegins(t *testing.T) {
	r := inMemory(t, file("by: user", "limits: [{rate: 2/1h}]"))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for ctx, want := range map[context.Context]error{t.Context(): nil, ended: context.Canceled} {
		asked := false
		begin := func() context.Context {
			if !asked {
				t.Error("the context begins before the user is known")
			}
			return ctx
		}
		user := func(*http.Request) (string, error) { asked = true; return "alice", nil }
		_, _, _, err := r.AllowRequest(begin, httptest.NewRequest(http.MethodGet, "/", nil), user, nil, 1)
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	wantAllowed(t, r, of("alice"), 1)
}

// Of three limits of a call, the first two lend: the third may refuse.
func TestACallForThreeLimitsAllocatesLittle(t *testing.T) {
	const most = 21 // with the race detector; 19 without
	r := inMemory(t, file("match: {route: GET /search, user: true}", "by: user", `limits:
      - {name: second, rate: 1000000000/1h}
      - {name: minute, rate: 1000000000/2h}
      - {name: hour, rate: 1000000000/3h}`))
	call, ctx, least := of("alice"), context.Background(), math.Inf(1)
	call.Path = "/search"
	for range 300 {
		least = min(least, testing.AllocsPerRun(1, func() {
			if g, err := r.Allow(ctx, call, 1); err != nil || len(g.Each) != 3 {
				t.Fatal(g, err)
			}
		}))
	}
	if t.Logf("%v allocations", least); least > most {
		t.Errorf("%v allocations, want at most %v", least, most)
	}
}
