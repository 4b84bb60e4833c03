package limittest

import (
	"errors"
	"slices"
	"testing"
)

// ErrTooSlow is in the error of a check that failed where calls took so long that this may
// be the reason.
var ErrTooSlow = errors.New("calls take too long")

// A Finding is what has come of one rule.
type Finding struct {
	Rule string // as the subtest of TestLimiter or TestKeyed is named
	Err  error  // says how it is broken; nil if it is kept
}

// Check checks a Limiter as TestLimiter does, and returns what it finds instead of
// failing t: for a limiter that need not keep all rules, as those of other libraries.
// A rule that cannot be checked, as that of a Pair that there is none of, is left out.
func Check(t *testing.T, spec Spec) []Finding {
	t.Helper()
	return suiteOf(spec).findings(t, limiterChecks)
}

// CheckKeyed is Check of a Keyed.
func CheckKeyed(t *testing.T, spec KeyedSpec) []Finding {
	t.Helper()
	return suiteOfKeyed(spec).findings(t, slices.Concat(limiterChecks, keyedChecks))
}

func (s suite) findings(t *testing.T, checks []check) (all []Finding) {
	t.Helper()
	s.each(t, checks, func(_ *testing.T, rule string, err error) {
		all = append(all, Finding{rule, err})
	})
	return all
}
