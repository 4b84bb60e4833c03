package compat_test

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// script prints a sequence, a step a line.
func script(steps []step) string {
	var b strings.Builder
	for i, s := range steps {
		fmt.Fprintf(&b, "%3d. %v\n", i+1, s)
	}
	return b.String()
}

// simpler are ways to make a step say less.
var simpler = []func(*step){
	func(s *step) { s.pause = 0 },
	func(s *step) { s.patience = 0 },
	func(s *step) { s.keepState = false },
	func(s *step) { s.limit.KeepAlive = 0 },
	func(s *step) { s.limit.Type = overall },
	func(s *step) { s.java = false },
	func(s *step) { s.permits = min(s.permits, 1) },
	func(s *step) { s.permits /= 2 },
	func(s *step) { s.limit.Rate = min(s.limit.Rate, 1) },
	func(s *step) { s.limit.Rate /= 2 },
	func(s *step) {
		if s.setsRate() {
			s.limit.Interval = 5 * time.Minute
		}
	},
}

// shrink looks for a shorter and simpler sequence that fails, too, by removing
// steps, the longer runs first, and by simplifying those that are left, until
// nothing more can go. fails says how a sequence fails, or nil.
func shrink(steps []step, found *disagreement, fails func([]step) *disagreement) ([]step, *disagreement) {
	try := func(smaller []step) bool {
		d := fails(smaller)
		if d != nil {
			steps, found = smaller[:d.at+1], d // nothing behind the failure matters
		}
		return d != nil
	}
	steps = steps[:found.at+1]
	for again := true; again; {
		again = false
		for size := len(steps) / 2; size > 0; size /= 2 {
			for at := 0; at+size <= len(steps); {
				if try(slices.Delete(slices.Clone(steps), at, at+size)) {
					again = true
				} else {
					at++
				}
			}
		}
		for at := 0; at < len(steps); at++ {
			for _, simplify := range simpler {
				smaller := slices.Clone(steps)
				simplify(&smaller[at])
				if smaller[at] != steps[at] && try(smaller) {
					again = true
				}
				if at >= len(steps) {
					break
				}
			}
		}
	}
	return steps, found
}
