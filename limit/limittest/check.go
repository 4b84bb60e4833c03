package limittest

import (
	"errors"
	"slices"
	"testing"
)

// ErrTooSlow is wrapped in the error of a check that may have failed because its calls took too long.
var ErrTooSlow = errors.New("calls take too long")

// A Finding is the result of the check of one rule.
type Finding struct {
	Rule string // the name of the subtest of TestLimiter or TestKeyed
	Err  error  // how the rule is broken; nil if it is kept
}

// Check checks a Limiter as TestLimiter does, but returns findings instead of failing t: for limiters that
// need not keep all rules, such as those of other libraries. Without a Pair it skips the rule for pairs.
func Check(t *testing.T, spec Spec) []Finding {
	t.Helper()
	return suiteOf(spec).findings(t, limiterChecks)
}

// CheckKeyed is Check for a Keyed.
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
