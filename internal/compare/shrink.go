package compare

import (
	"slices"
	"time"

	"github.com/redisson-go/rratelimiter"
)

// simplifications make a step say less.
var simplifications = []func(*Step){
	func(s *Step) { s.Pause = 0 },
	func(s *Step) { s.Patience = 0 },
	func(s *Step) { s.KeepState = false },
	func(s *Step) { s.Limit.KeepAlive = 0 },
	func(s *Step) { s.Limit.Type = rratelimiter.Overall },
	func(s *Step) { s.Java = false },
	func(s *Step) { s.Permits = min(s.Permits, 1) },
	func(s *Step) { s.Permits /= 2 },
	func(s *Step) { s.Limit.Rate = min(s.Limit.Rate, 1) },
	func(s *Step) { s.Limit.Rate /= 2 },
	func(s *Step) {
		if s.setsRate() {
			s.Limit.Interval = 5 * time.Minute
		}
	},
}

// A shrinker looks for a shorter and simpler sequence that fails as well.
type shrinker struct {
	steps []Step
	found *Divergence
	fails func([]Step) *Divergence // plays a sequence
}

// shrink removes steps, the longer runs first, and simplifies those that are
// left, until nothing more can go.
func shrink(steps []Step, found *Divergence, fails func([]Step) *Divergence) ([]Step, *Divergence) {
	s := &shrinker{steps[:found.At+1], found, fails}
	for again := true; again; {
		removed := s.remove()
		again = s.simplify() || removed
	}
	return s.steps, s.found
}

// try keeps a sequence if it fails.
func (s *shrinker) try(smaller []Step) bool {
	d := s.fails(smaller)
	if d != nil {
		s.steps, s.found = smaller[:d.At+1], d // nothing after the failure matters
	}
	return d != nil
}

// remove tries to leave out runs of steps, and reports whether it could.
func (s *shrinker) remove() (could bool) {
	for size := len(s.steps) / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(s.steps); {
			if s.try(slices.Delete(slices.Clone(s.steps), at, at+size)) {
				could = true
			} else {
				at++
			}
		}
	}
	return could
}

// simplify tries each simplification on each step, and reports whether one was
// possible.
func (s *shrinker) simplify() (could bool) {
	for at := 0; at < len(s.steps); at++ {
		for _, simplify := range simplifications {
			if at >= len(s.steps) { // the sequence has become shorter
				break
			}
			smaller := slices.Clone(s.steps)
			simplify(&smaller[at])
			if smaller[at] != s.steps[at] && s.try(smaller) {
				could = true
			}
		}
	}
	return could
}
