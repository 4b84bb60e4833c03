package grants

import "time"

// A Grant is permits that count from a time on, until an interval later. Times are Unix ms.
type Grant struct {
	At, Permits int64
	Of          int // the Client that gives it back first
}

// Grants are a sliding log, oldest first and exact to the ms: the outstanding permits of a limiter that
// decides one call after another.
type Grants []Grant

// Within returns the grants that count at a time.
func (g Grants) Within(now, interval int64) (live Grants) {
	for _, one := range g {
		if one.At > now-interval {
			live = append(live, one)
		}
	}
	return live
}

// Sum returns the permits of all.
func (g Grants) Sum() (n int64) {
	for _, one := range g {
		n += one.Permits
	}
	return n
}

// Wait returns how long it takes until n of rate permits are available: 0 if they are, -1 if they never are.
func (g Grants) Wait(now, rate, interval, n int64) time.Duration {
	live := g.Within(now, interval)
	need := n - rate + live.Sum()
	if need <= 0 {
		return 0
	}
	for _, old := range live {
		if need -= old.Permits; need <= 0 {
			return time.Duration(old.At+interval-now) * time.Millisecond
		}
	}
	return -1
}

// Release takes n permits out of the grants: out of the newest of one Client first, and then out of the
// oldest of all. It returns how many it has taken.
func (g Grants) Release(n int64, of int) (taken int64) {
	takes := func(one *Grant) {
		part := min(n-taken, one.Permits)
		one.Permits -= part
		taken += part
	}
	for i := len(g) - 1; i >= 0; i-- {
		if g[i].Of == of {
			takes(&g[i])
		}
	}
	for i := range g {
		takes(&g[i])
	}
	return taken
}
