package main

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// Those who wait share a limiter of 100 permits a second, all of which were
// taken before they came: in one moment, or one every 10 ms.
const (
	waitRate     = 100
	waitInterval = time.Second
)

// A waitResult is how those who waited were served.
type waitResult struct {
	calls     float64 // script calls for each grant, once all stood in line
	early     float64 // so many of them were served with the permit of somebody ahead
	typical   float64 // ms after their permit came back, p50
	late      float64 // the same, p99
	roundTrip float64 // ms of a script that does nothing, p50
}

type waitersResult struct{ bursts, evenly []waitResult }

// median returns the medians of all lines of a kind; who was not served in
// order counts in the worst of them.
func (r *waitersResult) median(evenly bool) waitResult {
	lines := r.bursts
	if evenly {
		lines = r.evenly
	}
	return waitResult{
		median(lines, func(w waitResult) float64 { return w.calls }),
		slices.MaxFunc(lines, func(a, b waitResult) int { return cmp.Compare(a.early, b.early) }).early,
		median(lines, func(w waitResult) float64 { return w.typical }),
		median(lines, func(w waitResult) float64 { return w.late }),
		median(lines, func(w waitResult) float64 { return w.roundTrip }),
	}
}

// measureWaiters measures all lines at the same time, each on a server of its
// own: there is next to nothing to do. They come one after the other.
func measureWaiters(ctx context.Context, s *scope, pl plan) (*waitersResult, error) {
	r := &waitersResult{make([]waitResult, pl.rounds), make([]waitResult, pl.rounds)}
	errs := make([]error, 2*pl.rounds)
	lines := make([]*waiting, len(errs))
	for i := range lines {
		server := redistest.Start(s)
		w := &waiting{rdb: server.Client(s), admin: server.Admin(), n: pl.waiters, evenly: i%2 == 1, name: redistest.Name(s)}
		w.limiter = s.client(w.rdb, rratelimiter.WithGoOnly()).RateLimiter(w.name)
		lines[i] = w
	}
	var all sync.WaitGroup
	for i, w := range lines {
		to := &r.bursts[i/2]
		if w.evenly {
			to = &r.evenly[i/2]
		}
		all.Go(func() { *to, errs[i] = w.measure(ctx) })
		time.Sleep(time.Duration(pl.waiters) * 100 * time.Microsecond) // so that they do not come together
	}
	all.Wait()
	return r, errors.Join(errs...)
}

// A waiter is one of those who stand in line.
type waiter struct{ came, served time.Time }

// waiting is one line that is measured.
type waiting struct {
	rdb, admin *redis.Client
	limiter    *rratelimiter.RateLimiter
	name       string
	evenly     bool
	n          int
	waiters    []waiter
	errs       []error
	records    map[string]redis.Z // all that were seen
}

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
	grants := 0
	for _, one := range w.waiters {
		if one.served.After(stand) {
			grants++
		}
	}
	r.calls = after.since(before).scripts / float64(grants)
	r.early, r.typical, r.late = w.compare()
	return r, nil
}

// come lets the waiters come, each when the one before stands in line.
func (w *waiting) come(ctx context.Context, all *sync.WaitGroup) {
	coming := make(chan struct{})
	for i := range w.n {
		all.Go(func() {
			coming <- struct{}{}
			w.waiters[i].came = time.Now()
			w.errs[i] = w.limiter.Acquire(ctx, 1)
			w.waiters[i].served = time.Now()
		})
		<-coming
		time.Sleep(time.Millisecond) // it stands there long before that is over
	}
}

// fill takes all permits.
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

func take(ctx context.Context, l *rratelimiter.RateLimiter, permits int64) error {
	ok, err := l.TryAcquire(ctx, permits, 0)
	if err == nil && !ok {
		err = errors.New("an acquire was refused")
	}
	return err
}

// watch collects the records until done is closed, and once more.
func (w *waiting) watch(ctx context.Context, done <-chan struct{}) error {
	tick := time.NewTicker(waitInterval / 5)
	defer tick.Stop()
	for last := false; ; {
		all, err := w.admin.ZRangeWithScores(ctx, "{"+w.name+"}:permits", 0, -1).Result()
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

// compare holds against each waiter the moment when its permit came back: an
// interval after it was taken, by the times of the records. Nobody can have a
// permit before that unless it takes that of somebody ahead, for permits come
// back in the order in which they are handed out.
func (w *waiting) compare() (early, typical, late float64) {
	var due []time.Time
	for member, z := range w.records {
		permits, _ := rratelimiter.RecordPermits(member) // 0 is found below: a due time would be missing
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

// roundTrip returns the ms that a script takes which does nothing, p50.
func roundTrip(ctx context.Context, rdb *redis.Client) (float64, error) {
	once := newFloor(rdb)("none", 1)[0]
	took := make([]time.Duration, 500)
	for i := range took {
		start := time.Now()
		if _, err := once(ctx); err != nil {
			return 0, err
		}
		took[i] = time.Since(start)
	}
	return millis(quantile(took, 0.5)), nil
}
