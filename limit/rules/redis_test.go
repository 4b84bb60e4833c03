package rules_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit/rules"
)

// A store is a Redis, and the Rules on it.
type store struct {
	rdb    redis.UniversalClient
	client *rratelimiter.Client
	name   string
}

func newStore(t *testing.T, rdb redis.UniversalClient) store {
	t.Helper()
	client := rratelimiter.New(rdb)
	t.Cleanup(func() { _ = client.Close() })
	return store{rdb, client, redistest.Name(t)}
}

// rules returns the Rules of a file, as another process would have them.
func (s store) rules(t *testing.T, text string) *rules.Rules {
	t.Helper()
	return redistest.Must(rules.New(rules.OnRedis(s.client, s.rdb, s.name), parsed(t, text)))(t)
}

// keys returns the keys of the Store in Redis, without its name.
func (s store) keys(t *testing.T) (keys []string) {
	t.Helper()
	all := redistest.Must(s.rdb.Keys(t.Context(), "*"+s.name+"*").Result())(t)
	for _, key := range all {
		keys = append(keys, strings.ReplaceAll(key, s.name, "NAME"))
	}
	slices.Sort(keys)
	return keys
}

const onRedisRules = `
rules:
  - {name: all, also: true, limits: [{rate: 12/1h, algorithm: fixed-window}]}
  - name: search
    match: {route: /search}
    by: user
    limits: [{name: minute, rate: 5/1m}, {name: hour, rate: 8/1h}]
  - {name: rest, by: user, limits: [{rate: 100/1h}]}
`

func TestLimitsOnRedis(t *testing.T) {
	s := newStore(t, redistest.Start(t).Client(t))
	one, other := s.rules(t, onRedisRules), s.rules(t, onRedisRules)
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("gone"))
	if _, err := one.Allow(ended, get("/"), 1); !errors.Is(err, context.Canceled) || len(s.keys(t)) > 0 {
		t.Errorf("%v and %q, want Canceled and nothing", err, s.keys(t))
	}
	search := rules.Call{Path: "/search", User: known("{alice}")}
	if g := allow(t, one, search, 3); !g.Allowed || policies(g) != "all search/minute search/hour" ||
		g.Policy != "search/minute" || g.Remaining != 2 {
		t.Errorf("%+v", g)
	}
	for range 5 {
		g := allow(t, other, search, 3)
		if g.Allowed || g.Policy != "search/minute" || g.Each[0].Remaining != 9 {
			t.Fatalf("%+v, want search/minute to refuse", g)
		}
	}
	// The refused calls got their permits back.
	wantAllowed(t, other, rules.Call{Path: "/", User: known("bob")}, 9)
	teams := s.rules(t, "rules: [{name: team, by: [user, header X-Team], limits: [{rate: 9/1h}]}]")
	const hash = "0d45f5fd462b8c70bffb10021ac1bcff" // of core
	long := strings.Repeat("u", 200-len("|"+hash))
	for _, user := range []string{"eve", long, long + "u"} {
		allow(t, teams, with(of(user), "X-Team", "core"), 1)
	}
	hashed := fmt.Sprintf("#%x", sha256.Sum256([]byte(long+"u|"+hash)))
	got := strings.Join(s.keys(t), " ")
	for _, want := range []string{
		"{NAME:all:all}:fixedwindow", "NAME:search:minute:{%7Balice%7D}", "NAME:search:hour:{%7Balice%7D}",
		"NAME:rest:{bob}", "NAME:team:{eve|" + hash + "}", "NAME:team:{" + long + "|" + hash + "}",
		"NAME:team:{" + hashed + "}",
	} {
		if !strings.Contains(got+" ", want+" ") {
			t.Errorf("%s\nhas no %s", got, want)
		}
	}
}

// On Redis, permits stay taken when the rate changes.
func TestReloadOnRedisKeepsWhatWasTaken(t *testing.T) {
	s := newStore(t, redistest.Start(t).Client(t))
	for algorithm, left := range map[string]int{
		"rratelimiter": 4, "fixed-window": 4, "token-bucket": 2, // which keeps its tokens
	} {
		text := func(rate int) string {
			const format = "rules: [{name: %s, limits: [{rate: %d/1h, algorithm: %[1]s}]}]"
			return fmt.Sprintf(format, algorithm, rate)
		}
		r := s.rules(t, text(5))
		allow(t, r, get("/"), 3)
		redistest.NoError(t, r.Reload(parsed(t, text(7))))
		t.Log(algorithm)
		wantAllowed(t, r, get("/"), left)
	}
}

// An error of a limit gives back the permits of the limits before it.
func TestAnErrorOnRedisKeepsNothing(t *testing.T) {
	s := newStore(t, redistest.Start(t).Client(t))
	redistest.NoError(t, s.rdb.Set(t.Context(), s.name+":broken:{all}", "x", 0).Err())
	r := s.rules(t, `
rules:
  - {name: wide, also: true, limits: [{rate: 5/1h, algorithm: fixed-window}]}
  - {name: rest, match: {route: /rest}, limits: [{rate: 100/1h}]}
  - {name: broken, limits: [{rate: 5/1h}]}`)
	for range 10 {
		if _, err := r.Allow(t.Context(), get("/"), 1); err == nil {
			t.Fatal("a broken limiter grants")
		}
	}
	wantAllowed(t, r, get("/rest"), 5)
}

// With Client.Redis the fallback of the Client covers the limits of every algorithm, otherwise only its own.
func TestAFallbackCoversEveryAlgorithm(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t, func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 })
	client := rratelimiter.New(rdb, rratelimiter.WithFallback(rratelimiter.FallbackAllow))
	defer client.Close()
	server.Stop()
	for _, algorithm := range []string{"rratelimiter", "fixed-window", "token-bucket"} {
		set := parsed(t, file("limits: [{rate: 5/1h, algorithm: "+algorithm+"}]"))
		all := redistest.Must(rules.New(rules.OnRedis(client, client.Redis(), "all"), set))(t)
		if g := allow(t, all, get("/"), 1); !g.Allowed || !g.Degraded {
			t.Errorf("%s: %+v, want it allowed by the fallback", algorithm, g)
		}
		without := redistest.Must(rules.New(rules.OnRedis(client, rdb, "own"), set))(t)
		_, err := without.Allow(t.Context(), get("/"), 1)
		if covered := algorithm == "rratelimiter"; covered != (err == nil) {
			t.Errorf("%s without Client.Redis: %v", algorithm, err)
		}
	}
}

// Two to four limits of a rule decide in one script call.
func TestLimitsOfARuleDecideInOneCall(t *testing.T) {
	server := redistest.Start(t)
	s, admin := newStore(t, server.Client(t)), server.Admin()
	for _, n := range []int{2, 4} {
		text := "rules: [{name: a, limits: ["
		for i := range n {
			text += fmt.Sprintf("{name: l%d, rate: 9/1h}, ", i)
		}
		r := s.rules(t, text+"]}]")
		allow(t, r, get("/"), 1) // the script is known from here on
		redistest.NoError(t, admin.ConfigResetStat(t.Context()).Err())
		allow(t, r, get("/"), 1)
		if calls := redistest.Calls(t, admin, "evalsha"); calls != 1 {
			t.Errorf("%d limits: %d script calls", n, calls)
		}
	}
}

// The limiters of a rule and a key share a slot, so that they decide together.
func TestRulesOnACluster(t *testing.T) {
	s := newStore(t, redistest.StartCluster(t).Client(t))
	r := s.rules(t, onRedisRules)
	for _, user := range []string{"alice", "bob", "carol"} {
		search := rules.Call{Path: "/search", User: known(user)}
		if g := allow(t, r, search, 4); !g.Allowed || g.Each[1].Remaining != 1 || g.Each[2].Remaining != 4 {
			t.Errorf("%s: %+v", user, g)
		}
	}
}
