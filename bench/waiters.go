package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// waitersPart shows whether waiting is fair, on time and cheap. A line that asks
// Redis again and again would cost more the longer it is, and callers that poll
// overtake one another.
var waitersPart = &part{
	name: "waiters", set: setPage, measure: measureWaiters,
	about: "a thousand waiters at 100 permits a second: order, lateness, script calls",
}

// The limiter of a line: 100 permits a second. All were taken before the
// waiters came, in one moment or one every 10 ms, and come back in that way.
const (
	waitRate     = 100
	waitInterval = time.Second
)

// A waitResult is how one line was served. A line asks Redis when the permits of
// its head are due; calls shows whether it asks more often than that.
type waitResult struct {
	calls     float64 // script calls per grant, once all stood in line
	early     float64 // waiters that got the permit of a waiter ahead of them
	typical   float64 // ms after their permit was due, p50
	late      float64 // the same, p99
	roundTrip float64 // ms of a script that does nothing, p50
}

// A waitData is what the page shows of the lines of one kind.
type waitData struct {
	Name                                   string
	Calls, Early, Typical, Late, RoundTrip num
}

// A waitersData is what the page shows of all lines.
type waitersData struct {
	Lines int
	Kinds []waitData
}

// medianLine returns the medians of some lines, and the worst of them for those
// served out of order: once is too often.
func medianLine(lines []waitResult) waitResult {
	return waitResult{
		median(lines, func(w waitResult) float64 { return w.calls }),
		slices.MaxFunc(lines, func(a, b waitResult) int { return cmp.Compare(a.early, b.early) }).early,
		median(lines, func(w waitResult) float64 { return w.typical }),
		median(lines, func(w waitResult) float64 { return w.late }),
		median(lines, func(w waitResult) float64 { return w.roundTrip }),
	}
}

// measureWaiters measures all lines at the same time, each on a server of its
// own: a line does next to nothing. They start one after the other.
func measureWaiters(ctx context.Context, s *scope) (finding, error) {
	n := amount(s, 1000, 20)
	results := [2][]waitResult{make([]waitResult, s.rounds), make([]waitResult, s.rounds)}
	errs := make([]error, 2*s.rounds)
	lines := make([]*waiting, len(errs))
	for i := range lines {
		server := redistest.Start(s)
		w := &waiting{rdb: server.Client(s), admin: server.Admin(), name: redistest.Name(s)}
		w.n, w.evenly = n, i%2 == 1
		w.limiter = s.client(w.rdb, rratelimiter.WithGoOnly()).RateLimiter(w.name)
		lines[i] = w
	}
	var all sync.WaitGroup
	for i, w := range lines {
		all.Go(func() { results[i%2][i/2], errs[i] = w.measure(ctx) })
		time.Sleep(time.Duration(n) * 100 * time.Microsecond) // they do not all start at once
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return finding{}, err
	}
	f := finding{}
	d := &waitersData{Lines: s.rounds}
	for i, kind := range []struct {
		name  string
		calls float64 // wanted at most: a burst is one call, and evenly each permit needs one
	}{{"in bursts", 0.1}, {"evenly", 1.1}} {
		m := medianLine(results[i])
		d.Kinds = append(d.Kinds, m.data(kind.name))
		f.targets = append(f.targets, m.targets(n, kind.name, kind.calls)...)
	}
	f.data = d
	return f, nil
}

// data returns a row of the page.
func (m waitResult) data(kind string) waitData {
	return waitData{kind, num(m.calls), num(m.early), num(m.typical), num(m.late), num(m.roundTrip)}
}

// targets returns the targets of the lines of one kind.
func (m waitResult) targets(waiters int, kind string, calls float64) []target {
	who := fmt.Sprintf("%s waiters at 100/s, permits come %s: ", thousands(float64(waiters)), kind)
	return []target{
		most("T4", who+"script calls per grant", m.calls, calls, ""),
		most("T4", who+"served out of order", m.early, 0, ""),
		most("T4", who+"late, p99; 3 ms and a round trip", m.late, 3+m.roundTrip, " ms"),
	}
}

// A waiter stands in line from came to served.
type waiter struct{ came, served time.Time }

// waiting is one line that is measured.
type waiting struct {
	rdb     *redis.Client // of the limiter
	admin   *redis.Client // for what is not measured
	limiter *rratelimiter.RateLimiter
	name    string
	evenly  bool // permits come back one by one
	n       int  // waiters
	waiters []waiter
	errs    []error
	records map[string]redis.Z // every record that was seen
}

// measure lets the line form and be served.
func (w *waiting) measure(ctx context.Context) (r waitResult, err error) {
	if r.roundTrip, err = roundTrip(ctx, w.rdb); err != nil {
		return r, err
	}
	w.waiters, w.errs, w.records = make([]waiter, w.n), make([]error, w.n), map[string]redis.Z{}
	watched, done := make(chan error, 1), make(chan struct{})
	go func() { watched <- w.watch(ctx, done) }()
	if err := w.fill(ctx); err != nil {
		close(done)
		return r, errors.Join(err, <-watched)
	}
	var all sync.WaitGroup
	w.come(ctx, &all)
	stand := time.Now()
	before, err := readUsage(ctx, w.admin)
	all.Wait()
	after, err2 := readUsage(ctx, w.admin)
	close(done)
	if err := errors.Join(append(w.errs, err, err2, <-watched)...); err != nil {
		return r, err
	}
	// Waiters that were served while others still came do not count: the calls
	// since stand did not serve them.
	grants := 0
	for _, one := range w.waiters {
		if one.served.After(stand) {
			grants++
		}
	}
	r.calls = after.since(before).scripts().calls / float64(grants)
	r.early, r.typical, r.late = w.compare()
	return r, nil
}

// come lets the waiters come one by one.
func (w *waiting) come(ctx context.Context, all *sync.WaitGroup) {
	// A waiter comes when the one before has begun: the order in which they came
	// is known, and can be compared with the order in which they are served.
	coming := make(chan struct{})
	for i := range w.n {
		all.Go(func() {
			coming <- struct{}{}
			w.waiters[i].came = time.Now()
			w.errs[i] = w.limiter.Acquire(ctx, 1)
			w.waiters[i].served = time.Now()
		})
		<-coming
		time.Sleep(time.Millisecond) // many times what it takes to stand in line
	}
}

// fill takes all permits, so that the first waiter waits for a whole interval at
// least.
func (w *waiting) fill(ctx context.Context) error {
	_, err := w.limiter.TrySetRate(ctx, rratelimiter.Overall, waitRate, waitInterval)
	if err != nil || !w.evenly {
		return errors.Join(err, take(ctx, w.limiter, waitRate))
	}
	tick := time.NewTicker(waitInterval / waitRate)
	defer tick.Stop()
	for range waitRate {
		if err := take(ctx, w.limiter, 1); err != nil {
			return err
		}
		<-tick.C
	}
	return nil
}

// take takes permits that must be there.
func take(ctx context.Context, l *rratelimiter.RateLimiter, permits int64) error {
	ok, err := l.TryAcquire(ctx, permits, 0)
	if err == nil && !ok {
		err = errRefused
	}
	return err
}

// watch collects the records until done is closed, and once more after that.
// It looks five times per interval: a record lives for one.
func (w *waiting) watch(ctx context.Context, done <-chan struct{}) error {
	tick := time.NewTicker(waitInterval / 5)
	defer tick.Stop()
	for last := false; ; {
		all, err := w.admin.ZRangeWithScores(ctx, keysOf(w.name, "").permits, 0, -1).Result()
		if err != nil || last {
			return err
		}
		for _, z := range all {
			w.records[z.Member.(string)] = z
		}
		select {
		case <-tick.C:
		case <-done:
			last = true
		}
	}
}

// compare compares when each waiter was served with when its permit was due: an
// interval after it was taken, by the time in its record. Permits are due in
// the order in which they are handed out, so a waiter that was served earlier
// has got the permit of a waiter ahead.
func (w *waiting) compare() (early, typical, late float64) {
	var due []time.Time
	for member, z := range w.records {
		permits, _ := wire.Permits(member) // 0 leaves a due time out, which shows below
		for range permits {
			due = append(due, time.UnixMilli(int64(z.Score)).Add(waitInterval))
		}
	}
	slices.SortFunc(due, time.Time.Compare)
	if len(due) < w.n {
		return float64(w.n), math.Inf(1), math.Inf(1)
	}
	lates := make([]float64, w.n)
	slices.SortFunc(w.waiters, func(a, b waiter) int { return a.came.Compare(b.came) })
	for i, one := range w.waiters {
		lates[i] = millis(one.served.Sub(due[i]))
		if lates[i] < 0 {
			early++
		}
	}
	return early, quantile(lates, 0.5), quantile(lates, 0.99)
}

// roundTrip returns the ms of a script that does nothing, p50.
func roundTrip(ctx context.Context, rdb *redis.Client) (float64, error) {
	spreads, err := inTurns(ctx, []ask{newFloor(rdb).one("none")}, 500)
	if err != nil {
		return 0, err
	}
	return millis(spreads[0].p50), nil
}
