package rratelimiter

// An answer is what one caller gets.
type answer struct {
	ok    bool
	wait  int64 // us until the permits are there, if refused; 0 not known, -1 never
	again bool  // wait is when to look again: the permits may be there no sooner than all
	limit int64
	left  int64 // permits, may be negative
	reset int64 // ms until all are back
}

func (a answer) result() Result {
	retry, reset := microseconds(max(0, a.wait)), milliseconds(a.reset)
	if a.again {
		retry = reset
	}
	return Result{a.ok, a.limit, min(max(0, a.left), max(0, a.limit)), retry, reset}
}

// A split hands out the answers to the callers of a request, in their order.
type split struct {
	r    reply
	runs []run
	done int64 // of the first of runs
	left int64 // permits for the next caller
	any  bool  // somebody was granted
}

func newSplit(r reply, runs []run) *split {
	s := &split{r: r, runs: runs, left: r.numbers[2]}
	for i, run := range runs {
		granted, _ := s.verdict(i)
		s.left += granted * run.permits
	}
	return s
}

// verdict says how many of a run are granted, and how long the next one waits.
func (s *split) verdict(i int) (granted, wait int64) {
	if s.r.answers == nil {
		return s.runs[i].size(), 0
	}
	return s.r.answers[2*i], s.r.answers[2*i+1]
}

func (s *split) next() answer {
	granted, wait := s.verdict(0)
	a := answer{ok: s.done < granted, limit: s.r.numbers[1]}
	if a.ok {
		s.left -= s.runs[0].permits
		s.any = true
	} else if a.wait = wait; wait < -1 { // scripts/due.lua
		a.wait, a.again = -wait, true
	}
	a.left, a.reset = s.left, s.r.numbers[3]
	if s.any {
		a.reset = s.r.numbers[4]
	}
	if s.done++; s.done == s.runs[0].size() {
		s.runs, s.done = s.runs[1:], 0
		if s.r.answers != nil {
			s.r.answers = s.r.answers[2:]
		}
	}
	return a
}
