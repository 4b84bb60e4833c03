package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A lockShare is what callers of Go and threads of Java had of a lock that all want, while
// both wanted it.
type lockShare struct {
	golang, java           float64 // holds
	fewest, most           float64 // of one caller of Go
	goWithout, javaWithout float64 // ms, the longest time that nobody of a side had it
	perSecond              float64
}

// besideCallers are those of each side.
const besideCallers = 32

// beside lets Go and Java share a lock, as often as there are rounds.
func (a *lockArena) beside(ctx context.Context) (*lockBeside, error) {
	golang, err := a.goSide(lockEntrants[0], 1)
	if err != nil {
		return nil, err
	}
	java, err := a.javaSide(ctx, a.server.Addr, 1)
	if err != nil {
		return nil, err
	}
	var all []lockShare
	for range a.scope.rounds {
		share, err := a.share(ctx, golang, java)
		if err != nil {
			return nil, err
		}
		all = append(all, share)
	}
	return besideOf(all), nil
}

// share lets both take the lock: Java so many rounds, which last longer than Go's time.
func (a *lockArena) share(ctx context.Context, golang *goLocks, java *javaLocks) (lockShare, error) {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	c := lockCrowd{
		processes: 1, callers: besideCallers, rounds: amount(a.scope, 250, 20), name: redistest.Name(a.scope),
	}
	crowd := java.start(c)
	c.rounds = 1 << 20 // more than there is time for
	c.until = time.Now().Add(amount(a.scope, 4*time.Second, 300*time.Millisecond))
	ofGo, err := golang.run(ctx, c)
	got, err2 := crowd.Wait(ctx)
	if err = errors.Join(err, err2, thrown(got)); err != nil {
		return lockShare{}, err
	}
	ofJava := javaHolds(got)
	if err := c.inside(ctx, a.admin, len(ofGo)+len(ofJava)); err != nil {
		return lockShare{}, err
	}
	return shareOf(ofGo, ofJava), nil
}

// shareOf counts the holds while both sides wanted the lock. Neither may be without any.
func shareOf(golang, java []lockHold) lockShare {
	if len(golang) == 0 || len(java) == 0 {
		return lockShare{golang: float64(len(golang)), java: float64(len(java))}
	}
	inOrder(golang)
	inOrder(java)
	from, to := golang[0].from, golang[len(golang)-1].from
	if other := java[0].from; other.After(from) {
		from = other
	}
	if other := java[len(java)-1].from; other.Before(to) {
		to = other
	}
	golang, java = within(golang, from, to), within(java, from, to)
	of := make([]float64, besideCallers)
	for _, h := range golang {
		of[h.caller]++
	}
	s := lockShare{
		golang: float64(len(golang)), java: float64(len(java)), fewest: slices.Min(of), most: slices.Max(of),
		goWithout: without(golang, from, to), javaWithout: without(java, from, to),
	}
	s.perSecond = (s.golang + s.java) / to.Sub(from).Seconds()
	return s
}

// inOrder sorts holds by their begin.
func inOrder(holds []lockHold) {
	slices.SortFunc(holds, func(a, b lockHold) int { return a.from.Compare(b.from) })
}

// within returns the holds that began in a span.
func within(holds []lockHold, from, to time.Time) []lockHold {
	return slices.DeleteFunc(holds, func(h lockHold) bool { return h.from.Before(from) || h.from.After(to) })
}

// without returns the ms of the longest time in a span in which no hold began.
func without(holds []lockHold, from, to time.Time) (longest float64) {
	for _, h := range append(holds, lockHold{from: to}) {
		longest = max(longest, millis(h.from.Sub(from)))
		from = h.from
	}
	return longest
}
