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

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/cmd/rrl/internal/golden"
	"github.com/redisson-go/rratelimiter/cmd/rrl/internal/picture"
	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// used returns a limiter of 20 permits in 10 s after 9 s: Go and Java have taken some.
func used(t *testing.T, rdb *redis.Client, typ rratelimiter.RateType) *rratelimiter.RateLimiter {
	t.Helper()
	c := rratelimiter.New(rdb, rratelimiter.WithID("me"))
	t.Cleanup(func() { _ = c.Close() })
	l := c.RateLimiter("api")
	redistest.NoError(t,
		l.SetRate(t.Context(), typ, 20, 10*time.Second, rratelimiter.WithKeepAlive(time.Minute)))
	for _, n := range []int64{3, 1, 1, 4, 1, 1} {
		if ok, err := l.TryAcquire(t.Context(), n, 0); !ok || err != nil {
			t.Fatal(ok, err)
		}
		time.Sleep(1500 * time.Millisecond)
	}
	keys := wire.KeysOf("api", "me").Pairs[typ]
	at := float64(time.Now().Add(-200 * time.Millisecond).UnixMilli())
	rdb.ZAdd(t.Context(), keys.Permits, redis.Z{Score: at, Member: redistest.JavaRecord(1, 2)})
	rdb.DecrBy(t.Context(), keys.Value, 2)
	return l
}

// What inspect prints, of limiters of each kind. The README has a picture of one.
func TestInspectPrints(t *testing.T) {
	const pictured = "inspect.golden"
	session := regexp.MustCompile(`session:\w{16}`)
	for name, c := range map[string]struct {
		typ   rratelimiter.RateType
		spoil func(ctx context.Context, rdb *redis.Client)
	}{
		pictured:                {rratelimiter.Overall, func(context.Context, *redis.Client) {}},
		"inspect-client.golden": {rratelimiter.PerClient, func(context.Context, *redis.Client) {}},
		"inspect-b4.golden": {rratelimiter.Overall, func(ctx context.Context, rdb *redis.Client) {
			rdb.DecrBy(ctx, "{api}:value", 5)
		}},
		"inspect-half.golden": {rratelimiter.Overall, func(ctx context.Context, rdb *redis.Client) {
			rdb.HDel(ctx, "api", "type")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rdb := redistest.MiniClient(t, redistest.Mini(t))
				used(t, rdb, c.typ)
				c.spoil(t.Context(), rdb)
				l := redistest.Must(inspect.Read(t.Context(), rdb, "api", inspect.Few, "me"))(t)
				var b strings.Builder
				report{Limiter: l}.print(&b)
				got := session.ReplaceAllString(b.String(), "session:QX3NDKZ7A4MHC2TB")
				golden.Check(t, filepath.Join("testdata", name), got)
				if name == pictured {
					golden.Check(t, "../../docs/inspect.svg", picture.SVG("$ rrl inspect api\n"+got, 78,
						2+strings.Count(got, "\n"), "rrl inspect on a terminal: a limiter with its records"))
				}
			})
		})
	}
}

// prefixed has limiters under names that a mapper has given them.
type prefixed struct {
	*testing.T
	addr string
	rdb  *redis.Client
	id   string
}

func newPrefixed(t *testing.T) *prefixed {
	s := redistest.Start(t)
	p := &prefixed{t, s.Addr, s.Client(t), "me"}
	c := rratelimiter.New(p.rdb, rratelimiter.WithID(p.id),
		rratelimiter.WithNameMapper(func(name string) string { return "p:" + name }))
	defer c.Close()
	for name, typ := range map[string]rratelimiter.RateType{
		"api": rratelimiter.Overall, "own": rratelimiter.PerClient, "\x1b[31m": rratelimiter.Overall,
	} {
		l := c.RateLimiter(name)
		redistest.NoError(t, l.SetRate(t.Context(), typ, 50, time.Hour))
		for range 30 {
			if ok, err := l.TryAcquire(t.Context(), 1, 0); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
	}
	return p
}

// inspect runs rrl inspect and returns what it printed.
func (p *prefixed) inspect(code int, args ...string) string {
	p.Helper()
	args = append([]string{"inspect", "--redis", p.addr, "--name-prefix", "p:"}, args...)
	got, stdout, stderr := rrl(p.Context(), args...)
	if got != code || strings.Contains(stdout+stderr, "\x1b") {
		p.Errorf("%q: code %d; printed\n%s%s", args, got, stdout, stderr)
	}
	return stdout + stderr
}

func TestInspect(t *testing.T) {
	p := newPrefixed(t)
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"api"}, 0, []string{"\nOVERALL, 50 permits per 1h", " 20 of 50\n",
			"30: 30 by Go, 0 by others", "{p:api}:value", "10 records more, --all",
			"value 20 + permits of all records 30 = rate 50"}},
		{[]string{"api", "--check"}, 0, nil},
		{[]string{"own"}, 0, []string{"Client me", "{p:own}:value:me"}},
		{[]string{"own", "--id", "another"}, 0, []string{"Client another", "50 of 50"}},
		{[]string{"\x1b[31m"}, 0, []string{`"\x1b[31m" at`}},
		{[]string{"api", "--records", "4"}, 0,
			[]string{"26 of 30 records were not read", "30, of which 4 were read: 4 by Go"}},
		{[]string{"api", "--records", "4", "--check"}, 1, nil},
		{[]string{"api", "--records", "1"}, 2, []string{"records is 1, must be between 2 and 100000"}},
		{[]string{"nothing"}, 1, []string{"Neither a limiter nor a lock that is held"}},
		{[]string{""}, 2, []string{`NAME is "" (argument 1), must not be empty; run`}},
		{nil, 2, []string{`0 arguments, must be as in "rrl inspect NAME"; run 'rrl help'`}},
	} {
		out := p.inspect(c.code, c.args...)
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%q: no %q in\n%s", c.args, want, out)
			}
		}
	}
	if n := strings.Count(p.inspect(0, "api", "--all"), "Bc0I/16"); n != 30 {
		t.Errorf("%d records with --all", n)
	}
}

func TestInspectADrift(t *testing.T) {
	p := newPrefixed(t)
	p.rdb.Set(t.Context(), "{p:api}:value", 1, 0)
	if out := p.inspect(1, "api", "--check"); !strings.Contains(out, "WRONG, looks like B4: 19 permits") {
		t.Error(out)
	}
	var l inspect.Limiter
	redistest.NoError(t, json.Unmarshal([]byte(p.inspect(1, "api", "--json")), &l))
	if l.Name != "api" || l.Shared().Drift != -19 || len(l.Findings) != 1 || len(l.Shared().Records) != 30 {
		t.Errorf("%+v", l)
	}
}

// What anybody has written is shown, and does nothing to the terminal.
func TestInspectShowsHostileTexts(t *testing.T) {
	p := newPrefixed(t)
	p.rdb.Set(t.Context(), "{p:\x1b[31m}:value", "\x1b[2J", 0)
	p.rdb.Expire(t.Context(), "{p:\x1b[31m}:permits", time.Hour)
	out := p.inspect(1, "\x1b[31m") // which checks that there is no escape sequence
	for _, want := range []string{`  none        "\x1b[2J"`, `PERSIST "{p:\x1b[31m}:permits"`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

func TestList(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	c := rratelimiter.New(rdb, rratelimiter.WithID("me"))
	defer c.Close()
	for name, typ := range map[string]rratelimiter.RateType{
		"p:a*1": rratelimiter.Overall, "p:a2": rratelimiter.PerClient,
		"p:b": rratelimiter.Overall, "a3": rratelimiter.Overall,
	} {
		l := c.RateLimiter(name)
		redistest.NoError(t, l.SetRate(t.Context(), typ, 50, time.Hour))
		if ok, err := l.TryAcquire(t.Context(), 7, 0); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	rdb.Set(t.Context(), "{p:b}:value", 1, 0)
	for _, c := range []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"", 0, `
NAME   TYPE        RATE  INTERVAL  REMAINING  OUTSTANDING  TTL   KEEP ALIVE  CLIENTS  WRONG
a3     OVERALL     50    1h        43         7            none  none        -
p:a*1  OVERALL     50    1h        43         7            none  none        -
p:a2   PER_CLIENT  50    1h        43         7            none  none        1
p:b    OVERALL     50    1h        1          7            none  none        -        B4
`, "4 limiters, found in "},
		{"--name-prefix p: a*", 0, `
NAME  TYPE        RATE  INTERVAL  REMAINING  OUTSTANDING  TTL   KEEP ALIVE  CLIENTS  WRONG
a*1   OVERALL     50    1h        43         7            none  none        -
a2    PER_CLIENT  50    1h        43         7            none  none        1
`, "2 limiters, found in "},
		{"z*", 0, "", "0 limiters, found in 1 round trip\n"},
		{"--limit -1", 2, "", "--limit is -1, must be 0 or more"},
		{"--page 5", 2, "", "--page is 5, must be between 10 and 10000"},
	} {
		args := append([]string{"list", "--redis", s.Addr}, strings.Fields(c.args)...)
		code, stdout, stderr := rrl(t.Context(), args...)
		stdout = regexp.MustCompile(` +\n`).ReplaceAllString(stdout, "\n")
		if code != c.code || stdout != strings.TrimPrefix(c.stdout, "\n") ||
			!strings.Contains(stderr, c.stderr) {
			t.Errorf("%s: code %d, printed\n%s\n%s", c.args, code, stdout, stderr)
		}
	}
	code, stdout, stderr := rrl(t.Context(), "list", "--json", "--limit", "2", "--redis", s.Addr)
	var l listing
	err := json.Unmarshal([]byte(stdout), &l)
	if code != 0 || err != nil || len(l.Limiters) != 2 || !l.Done.Stopped ||
		!strings.HasSuffix(stderr, "; there are more\n") {
		t.Errorf("%d, %v: %s, %s", code, err, stdout, stderr)
	}
}

// A server of a cluster that is taken for a single one says what to do.
func TestClusterTakenForOne(t *testing.T) {
	c := redistest.StartCluster(t)
	client := rratelimiter.New(c.Client(t))
	defer client.Close()
	moved := 0
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		redistest.NoError(t,
			client.RateLimiter(name).SetRate(t.Context(), rratelimiter.Overall, 5, time.Second))
		switch code, _, stderr := rrl(t.Context(), "inspect", name, "--redis", c.Addrs[0]); code {
		case 2:
			moved++
			if !strings.Contains(stderr, "use --redis redis+cluster://") {
				t.Error(stderr)
			}
		case 0:
		default:
			t.Errorf("%s: %d, %s", name, code, stderr)
		}
		code, _, stderr := rrl(t.Context(), "inspect", name, "--redis", "redis+cluster://"+c.Addrs[0])
		if code != 0 {
			t.Errorf("%s: %d, %s", name, code, stderr)
		}
	}
	if moved == 0 {
		t.Error("all are on the first server")
	}
	_, stdout, _ := rrl(t.Context(), "list", "--redis", "redis+cluster://"+strings.Join(c.Addrs, ","))
	if strings.Count(stdout, "\n") != 7 {
		t.Errorf("list:\n%s", stdout)
	}
}
