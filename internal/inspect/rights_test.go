package inspect_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// An error names the missing right.
func TestReadWithoutARight(t *testing.T) {
	s := redistest.Start(t)
	s.Admin().Do(t.Context(), "ACL", "SETUSER", "app", "on", "nopass", "~*", "+@all", "-zcard")
	rdb := s.Client(t, func(o *redis.Options) { o.Username, o.Password = "app", "any" })
	if _, err := inspect.Read(t.Context(), rdb, "x", inspect.Few); err == nil ||
		!strings.Contains(err.Error(), "NOPERM") || !strings.Contains(err.Error(), "zcard") {
		t.Error(err)
	}
}

// Looking needs exactly the rights that docs/keys.md lists.
func TestRights(t *testing.T) {
	rights := redistest.Rights(t, "../../docs/keys.md", "looker", 1)
	s := redistest.Start(t)
	admin := s.Admin()
	set(t, clientOn(t, s.Client(t)).RateLimiter("a"), rratelimiter.PerClient, 5, time.Minute)
	hold(t, admin, "lock", holder)
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
		if err == nil { // as inspect does
			_, err = inspect.EndedHoldsOf(t.Context(), rdb, "lock")
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

// A name whose keys are on different servers does not prevent a list of the others.
func TestKeysOnDifferentServers(t *testing.T) {
	rdb := redistest.StartCluster(t).Client(t)
	c := clientOn(t, rdb)
	set(t, c.RateLimiter("good"), rratelimiter.Overall, 5, time.Minute)
	for _, name := range []string{"a{b", "a{}b", "a}b"} {
		redistest.NoError(t, rdb.HSet(t.Context(), name, "rate", 5, "interval", 1000, "type", 0).Err())
	}
	found, _, err := inspect.Scan{}.Limiters(t.Context(), rdb)
	if err != nil || len(found) != 4 {
		t.Fatal(namesOf(found), err)
	}
	for _, l := range found {
		if wrong := l.Name != "good"; l.Holds() == wrong || wrong && l.Findings[0].Fault != "B23" {
			t.Errorf("%s: found %+v", l.Name, l.Findings)
		}
		if got := look(t, rdb, l.Name); len(got.Findings) != len(l.Findings) || got.Shared() == nil {
			t.Errorf("%+v", got)
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
	found, _, err := inspect.Scan{}.Limiters(t.Context(), rdb)
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
