package inspect_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A list has the limiters among other keys, page by page.
func TestScan(t *testing.T) {
	scanOn(t, redistest.Start(t).Client(t))
	t.Setenv("REDIS_SERVER", redistest.Releases[0].Binary(t)) // its SCAN has no TYPE
	scanOn(t, redistest.Start(t).Client(t))
}

func scanOn(t *testing.T, rdb *redis.Client) {
	c := rratelimiter.New(rdb, rratelimiter.WithID("me"))
	defer c.Close()
	want := []string{}
	for i := range 40 {
		name := fmt.Sprintf("limiter:%02d", i)
		want = append(want, name)
		set(t, c.RateLimiter(name), rratelimiter.Overall, 9, time.Minute)
		take(t, c.RateLimiter(name), 2)
		rdb.HSet(t.Context(), fmt.Sprint("hash", i), "rate", "1")
		rdb.Set(t.Context(), fmt.Sprint("string", i), "1", 0)
		rdb.SAdd(t.Context(), fmt.Sprint("limiter:set", i), "1")
	}
	var last inspect.Progress
	scan := inspect.Scan{Match: "limiter:*", Page: 10, Progress: func(p inspect.Progress) { last = p }}
	found, _, done, err := scan.All(t.Context(), rdb)
	if err != nil || !slices.Equal(namesOf(found), want) {
		t.Fatalf("%v, %v", namesOf(found), err)
	}
	if done.Keys < 200 || done.Limiters != 40 || done.Stopped || done != last {
		t.Errorf("%+v, at last %+v", done, last)
	}
	if p := found[7].Shared(); p.Remaining != 7 || p.Outstanding != 2 {
		t.Errorf("%+v", p)
	}
	scan.Limit, scan.Progress = 5, nil
	found, _, done, err = scan.All(t.Context(), rdb)
	if err != nil || len(found) != 5 || !done.Stopped {
		t.Errorf("%d, %+v, %v", len(found), done, err)
	}
}

// The clients of a PER_CLIENT limiter are counted, and some of them read.
func TestScanClients(t *testing.T) {
	rdb := redistest.MiniClient(t, redistest.Mini(t))
	for i := range inspect.MostClients + 4 {
		c := rratelimiter.New(rdb, rratelimiter.WithID(fmt.Sprintf("id-%02d", i)))
		for _, name := range []string{"a:value:b", "[x]*", "u:{7}"} {
			set(t, c.RateLimiter(name), rratelimiter.PerClient, 9, time.Minute)
			take(t, c.RateLimiter(name), int64(i%9+1))
		}
		_ = c.Close()
	}
	found, _, done, err := inspect.Scan{}.All(t.Context(), rdb)
	if err != nil || len(found) != 3 {
		t.Fatalf("%v, %+v, %v", namesOf(found), done, err)
	}
	for _, l := range found {
		if l.Clients != inspect.MostClients+4 || len(l.InUse()) != inspect.MostClients ||
			l.InUse()[3].Outstanding != 4 {
			t.Errorf("%s: %d clients, %d read", l.Name, l.Clients, len(l.InUse()))
		}
		ids, err := inspect.Clients(t.Context(), rdb, l.Name)
		if err != nil || len(ids) != inspect.MostClients+4 || ids[0] != "id-00" {
			t.Errorf("%s: %v, %v", l.Name, ids, err)
		}
	}
}

// Reading needs exactly the rights that docs/keys.md lists.
func TestRights(t *testing.T) {
	rights := redistest.Rights(t, "../../docs/keys.md", "looker", 1)
	s := redistest.Start(t)
	admin := s.Admin()
	set(t, clientOn(t, s.Client(t)).RateLimiter("a"), rratelimiter.PerClient, 5, time.Minute)
	admin.HSet(t.Context(), "lock", "5e4f0f64-8d3c-4bb4-9a63-3a0c6f1c2a11:52", 1)
	admin.PExpire(t.Context(), "lock", time.Minute)
	looks := func(rights []string) error {
		redistest.Allow(t, "looker", rights, admin)
		rdb := s.Client(t, func(o *redis.Options) { o.Username, o.Password = "looker", "secret" })
		found, locks, _, err := inspect.Scan{}.All(t.Context(), rdb)
		if err == nil && (len(found) != 1 || len(found[0].Findings) > 0) {
			err = errors.New("the limiter was not read")
		}
		if err == nil && (len(locks) != 1 || len(locks[0].Findings) > 0) {
			err = errors.New("the lock was not read")
		}
		return errors.Join(err, rdb.Ping(t.Context()).Err())
	}
	if err := looks(rights); err != nil || len(rights) < 10 {
		t.Fatalf("with %v: %v", rights, err)
	}
	for i, right := range rights {
		if i < 2 {
			continue // on, and the password
		}
		if err := looks(slices.Delete(slices.Clone(rights), i, i+1)); err == nil {
			t.Errorf("%s is not needed", right)
		}
	}
}

// Keys that a user may not read, or that other programs wrote, do not prevent a list of the others.
func TestScanOfWhatCannotBeRead(t *testing.T) {
	s := redistest.Start(t)
	c := clientOn(t, s.Client(t))
	set(t, c.RateLimiter("mine"), rratelimiter.Overall, 5, time.Minute)
	set(t, c.RateLimiter("others"), rratelimiter.Overall, 5, time.Minute)
	s.Admin().HSet(t.Context(), "mine:loan", "rate", "3.5%", "interval", "monthly", "type", "loan")
	s.Admin().HSet(t.Context(), "mine:broken", "rate", 5, "interval", "monthly", "type", "0")
	s.Admin().HSet(t.Context(), "mine:negative", "rate", -5, "interval", "1000", "type", "0")
	s.Admin().Do(t.Context(), "ACL", "SETUSER", "app", "on", "nopass", "+@all", "~mine*", "~{mine}*",
		"~{mine:negative}*", "%R~{mine:broken}:value")
	rdb := s.Client(t, func(o *redis.Options) { o.Username, o.Password = "app", "any" })
	found, _, _, err := inspect.Scan{}.All(t.Context(), rdb)
	if err != nil || !slices.Equal(namesOf(found), []string{"mine", "mine:broken", "mine:negative"}) {
		t.Fatal(namesOf(found), err)
	}
	if f := found[1].Findings; len(f) != 1 || !strings.Contains(f[0].What, "NOPERM") {
		t.Errorf("%+v", f)
	}
	if f := found[2].Findings; len(f) != 1 || f[0].Fault != "B22" {
		t.Errorf("%+v", f)
	}
}
