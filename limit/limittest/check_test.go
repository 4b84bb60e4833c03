package limittest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// Check finds the rules that are broken, and those only, and does not fail the test.
func TestCheckFindsWhatIsBroken(t *testing.T) {
	spec := specOf(SlidingLog)
	spec.New = changed(SlidingLog, func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
		r, err := m.Allow(ctx, n)
		r.Limit = 0
		return r, err
	})
	wantBroken(t, Check(t, spec), len(limiterChecks),
		"Limit and Interval are those of the limiter", "a Result agrees with itself")
	spec.Pair = nil
	if found := Check(t, spec); len(found) != len(limiterChecks)-1 {
		t.Errorf("%d findings without a Pair", len(found))
	}
}

func TestCheckKeyedFindsWhatIsBroken(t *testing.T) {
	found := CheckKeyed(t, KeyedSpec{
		New: func(t *testing.T, rate int64, interval time.Duration) limit.Keyed {
			s := newShelf(t, rate, interval)
			s.breaks = strings.ToLower
			return s
		},
		Synctest: true,
	})
	wantBroken(t, found, len(limiterChecks)-1+len(keyedChecks),
		"a strange key is refused or has a limit of its own")
}

// wantBroken expects so many findings, of which these rules are broken.
func wantBroken(t *testing.T, found []Finding, n int, broken ...string) {
	t.Helper()
	var got []string
	for _, f := range found {
		if f.Err != nil {
			got = append(got, f.Rule)
		}
	}
	if len(found) != n || strings.Join(got, "; ") != strings.Join(broken, "; ") {
		t.Errorf("%d findings, want %d; broken: %q, want %q", len(found), n, got, broken)
	}
}
