package outage

import (
	"time"

	"github.com/redisson-go/rratelimiter/internal/engine"
)

const (
	// maxLocals is how many limiters a Client can limit alone: some 10 MB. Another one
	// takes the place of the one with the least to lose among evictionSample of them.
	maxLocals      = 10_000
	evictionSample = 16

	// Limiters that were unused for localIdle are forgotten.
	localIdle = time.Minute
)

// localLimiter returns the local limiter of a limiter. If there is none, it makes one if
// create is set and there is room, and otherwise returns nil. A given rate always has room.
func (g *Guard) localLimiter(limiter *engine.Limiter, now time.Time, create bool) *localLimiter {
	circuit := g.circuit(limiter)
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := g.locals[limiter.Hash]; l != nil || !create {
		return l
	}
	if now.Sub(g.sweptAt) > localIdle {
		g.sweep(now)
	}
	if len(g.locals) >= maxLocals && !g.evict(now, limiter.Given != nil) {
		return nil
	}
	if g.locals == nil {
		g.locals = map[string]*localLimiter{}
	}
	// limiter is the handle of the first caller: all handles of a name have the
	// same keys.
	l := &localLimiter{circuit: circuit, limiter: limiter}
	g.locals[limiter.Hash] = l
	return l
}

// sweep forgets unused limiters. Guarded by mu.
func (g *Guard) sweep(now time.Time) {
	g.sweptAt = now
	for hash, l := range g.locals {
		l.mu.Lock()
		idle := l.idle(now)
		if l.mu.Unlock(); idle {
			delete(g.locals, hash)
		}
	}
}

// evict forgets one limiter, and reports whether it could. It looks at only a few, in the random order of
// a map, so that its time is bounded. A limiter without a given rate does not take the place of another such
// limiter: Redis would be asked about each of them whenever it is used again. Guarded by mu.
func (g *Guard) evict(now time.Time, givenRate bool) bool {
	var evicted *localLimiter
	var least int
	var since time.Time
	left := evictionSample
	for _, l := range g.locals {
		worth, usedAt := l.worth(now)
		if evicted == nil || worth < least || worth == least && usedAt.Before(since) {
			evicted, least, since = l, worth, usedAt
		}
		if left--; left == 0 {
			break
		}
	}
	if least >= rateKnownHere && !givenRate {
		return false
	}
	delete(g.locals, evicted.limiter.Hash)
	return true
}

// What would be lost with a limiter, from the least on.
const (
	grantsCounted  = 1 << iota // its share would be granted again
	grantsUnbooked             // Redis would never know of them
	rateKnownHere              // no call brings the rate, so a later one could not fall back
)

// worth returns what would be lost with the limiter, and when it was last used.
func (l *localLimiter) worth(now time.Time) (worth int, usedAt time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.idle(now) {
		return 0, l.usedAt
	}
	if l.givenRate.Load() == nil && l.rate > 0 {
		worth |= rateKnownHere
	}
	if l.unbookedLocked(now) > 0 {
		worth |= grantsUnbooked
	}
	if len(l.buckets) > 0 {
		worth |= grantsCounted
	}
	return worth, l.usedAt
}

// idle reports whether the limiter may be forgotten: the permits that it granted have come back, and are no
// longer booked. Guarded by mu.
func (l *localLimiter) idle(now time.Time) bool {
	return now.Sub(l.usedAt) > max(localIdle, l.interval) && !l.learning
}

// withKnownRate returns the local limiter if its rate is known, otherwise nil.
func (g *Guard) withKnownRate(limiter *engine.Limiter) *localLimiter {
	g.mu.Lock()
	l := g.locals[limiter.Hash]
	g.mu.Unlock()
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rate <= 0 {
		return nil
	}
	return l
}

// rate returns the rate of a limiter, 0 if it is unknown.
func (g *Guard) rate(limiter *engine.Limiter) int64 {
	if l := g.withKnownRate(limiter); l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.rate
	}
	return 0
}

// unbooked returns the limiters of a circuit that have unbooked permits.
func (g *Guard) unbooked(c *circuit) (all []*localLimiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range g.locals {
		if l.circuit == c && l.unbooked() > 0 {
			all = append(all, l)
		}
	}
	return all
}
