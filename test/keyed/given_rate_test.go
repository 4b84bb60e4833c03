package keyed_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	limits "github.com/redisson-go/rratelimiter/limit"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// Validate reports what is wrong with a limiter itself before the first call, and each call does as
// an error that no visitor is to blame for.
func TestValidateReportsWhatIsWrong(t *testing.T) {
	t.Parallel()
	rdb := redistest.MiniClient(t, redistest.Mini(t))
	c := NewClient(t, rdb)
	bad := c.Keyed("bad", 0, time.Second)
	unset := c.RateLimiter("bad").WithRate(1, 0)
	for name, limiter := range map[string]any{
		"a Keyed": bad, "its limiter": bad.For("alice"), "a limiter": c.RateLimiter(""),
		"a limiter with a rate": unset, "a Group of it": c.All(unset),
		"a Group": c.All(), "one for all": limits.Shared(c.RateLimiter("")),
		"that of an option": rratelimiter.New(rdb, nil).Keyed("good", 1, time.Second),
	} {
		err := limits.Validate(limiter)
		if !errors.Is(err, limits.ErrMisconfigured) || !errors.Is(err, limits.ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for want, limiter := range map[string]limits.Limiter{
		`for "bad": rate is 0`: bad.For("alice"), `for "bad": interval is 0s`: unset,
		"interval is 0s": unset.WithFallback(rratelimiter.FallbackAllow),
	} {
		_, err := limiter.Allow(t.Context(), 1)
		if !errors.Is(err, limits.ErrMisconfigured) || !strings.Contains(err.Error(), want) {
			t.Errorf("Allow: %v", err)
		}
	}
	good := c.Keyed("good", 1, time.Second)
	one := c.RateLimiter("a")
	for _, limiter := range []any{
		good, good.For("alice"), one, one.WithRate(1, time.Second), c.All(one), c,
	} {
		NoError(t, limits.Validate(limiter))
	}
	for _, key := range []string{"", "{"} { // these come from visitors
		if _, err := good.For(key).Allow(t.Context(), 1); !errors.Is(err, limits.ErrInvalidArgument) ||
			errors.Is(err, limits.ErrMisconfigured) {
			t.Errorf("key %q: %v", key, err)
		}
	}
}

// A seen is an Observer that keeps all observations.
type seen struct{ all []rratelimiter.Observation }

func (s *seen) Observe(_ context.Context, o rratelimiter.Observation) { s.all = append(s.all, o) }

// A Keyed whose limiters have another rate says so once, and its results have its name if visitors
// may see that.
func TestAKeyedFindsAnotherRate(t *testing.T) {
	t.Parallel()
	told := &seen{}
	c := NewClient(t, redistest.MiniClient(t, redistest.Mini(t)), rratelimiter.WithObserver(told))
	allow := func(keyed *rratelimiter.Keyed, key string) rratelimiter.Result {
		t.Helper()
		r, err := keyed.For(key).Allow(t.Context(), 1)
		NoError(t, err)
		return r
	}
	first := c.Keyed("users", 10, time.Minute)
	if r := allow(first, "alice"); r.Policy != "users" {
		t.Errorf("the policy is %q", r.Policy)
	}
	second := c.Keyed("users", 20, time.Minute, rratelimiter.WithKeepRate())
	for _, key := range []string{"bob", "alice", "alice", "bob"} {
		allow(second, key)
	}
	allow(c.Keyed("users", 20, time.Minute), "alice")
	var others []int
	for i, o := range told.all {
		if o.OtherRate {
			others = append(others, i)
		}
	}
	if len(others) != 1 || others[0] != 2 {
		t.Errorf("calls %v tell of another rate, want the third", others)
	}
	for _, name := range []string{"ä", "a\nb", strings.Repeat("a", 65)} {
		if r := allow(c.Keyed(name, 1, time.Minute), "alice"); r.Policy != "" {
			t.Errorf("visitors see %q", r.Policy)
		}
	}
}
