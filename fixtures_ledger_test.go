package rratelimiter_test

import "time"

// A ledger knows what a limiter must answer.
type ledger struct {
	rate, interval int64
	grants         []grant
}

type grant struct{ at, permits int64 }

// wait returns after how long n permits will be there: 0 if they are there, -1 if
// there are never so many.
func (g *ledger) wait(now, n int64) time.Duration {
	left, need := g.rate, int64(0)
	for _, old := range g.grants {
		if old.at > now-g.interval {
			left -= old.permits
		}
	}
	if need = n - left; need <= 0 {
		return 0
	}
	for _, old := range g.grants {
		if old.at <= now-g.interval {
			continue
		}
		if need -= old.permits; need <= 0 {
			return time.Duration(old.at+g.interval-now) * time.Millisecond
		}
	}
	return -1
}

// reset returns how long it takes until all is back.
func (g *ledger) reset(now int64) time.Duration {
	if len(g.grants) == 0 {
		return 0
	}
	return time.Duration(g.grants[len(g.grants)-1].at+g.interval-now) * time.Millisecond
}

// out returns what was taken within an interval and not given back.
func (g *ledger) out(now, interval int64) (n int64) {
	for _, old := range g.grants {
		if old.at > now-interval {
			n += old.permits
		}
	}
	return n
}

// release gives back from the newest grants on.
func (g *ledger) release(now, interval, n int64) {
	for i := len(g.grants) - 1; i >= 0 && n > 0; i-- {
		if newest := &g.grants[i]; newest.at > now-interval {
			back := min(n, newest.permits)
			newest.permits -= back
			n -= back
		}
	}
}
