package main

import (
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
	"github.com/redisson-go/rratelimiter/internal/shares"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// The limiter of a line: 100 permits a second. All were taken before the waiters came, in one moment or one
// every 10 ms, and come back in that way.
const (
	waitRate     = 100
	waitInterval = time.Second
)

// A waitResult is how one line was served. A line asks Redis when the permits of its head are due; Calls
// shows whether it asks more often than that.
type waitResult struct {
	Calls     num // script calls per grant, once all stood in line
	Early     num // waiters that got the permit of a waiter ahead of them
	Typical   num // ms after their permit was due, p50
	Late      num // the same, p99
	RoundTrip num // ms of a script that does nothing, p50
}

type waitRow struct {
	Name string
	waitResult
}

// measureWaiters measures all lines at the same time, each on a server of its own: a line does next to
// nothing. They start one by one.
func measureWaiters(ctx context.Context, s *scope) finding {
	n := amount(s, 1000, 20)
	results := [2][]waitResult{make([]waitResult, s.rounds), make([]waitResult, s.rounds)}
	lines := make([]*waiting, 2*s.rounds)
	for i := range lines {
		server := redistest.Start(s)
		w := &waiting{rdb: server.Client(s), admin: server.Admin(), name: redistest.Name(s)}
		w.evenly, w.waiters, w.records = i%2 == 1, make([]waiter, n), map[string]redis.Z{}
		w.limiter = s.client(w.rdb, rratelimiter.WithGoOnly()).RateLimiter(w.name)
		lines[i] = w
	}
	must(inParallel(len(lines), len(lines), func(i int) (err error) {
		time.Sleep(time.Duration(i*n) * 100 * time.Microsecond) // they do not all start at once
		results[i%2][i/2], err = lines[i].measure(ctx)
		return err
	}))
	var kinds []waitRow
	var targets []target
	for i, kind := range []struct {
		name  string
		calls float64 // wanted at most: a burst is one call, and evenly each permit needs one
	}{{"in bursts", 0.1}, {"evenly", 1.1}} {
		m := medians(results[i])
		for _, line := range results[i] { // once out of order is too often
			m.Early = max(m.Early, line.Early)
		}
		kinds = append(kinds, waitRow{kind.name, m})
		who := fmt.Sprintf("%s waiters at 100/s, permits come %s: ", thousands(float64(n)), kind.name)
		targets = append(targets,
			most("T4", who+"script calls per grant", m.Calls, kind.calls, ""),
			most("T4", who+"served out of order", m.Early, 0, ""),
			most("T4", who+"late, p99; 3 ms and a round trip", m.Late, float64(3+m.RoundTrip), " ms"))
	}
	return finding{struct {
		Lines int
		Kinds []waitRow
	}{s.rounds, kinds}, targets}
}

// A waiter stands in line from came to served.
type waiter struct {
	came, served time.Time
	err          error
}

type waiting struct {
	rdb     *redis.Client // of the limiter
	admin   *redis.Client // for what is not measured
	limiter *rratelimiter.RateLimiter
	name    string
	evenly  bool // permits come back one by one
	waiters []waiter
	records map[string]redis.Z // every record that was seen
}

// measure lets the line form and be served.
func (w *waiting) measure(ctx context.Context) (r waitResult, err error) {
	spreads, err := inTurns(ctx, []ask{newFloor(w.rdb)("none")}, 500)
	if err != nil {
		return r, err
	}
	r.RoundTrip = spreads[0].P50 / 1000
	watched, done := make(chan error, 1), make(chan struct{})
	go func() { watched <- w.watch(ctx, done) }()
	err = w.fill(ctx)
	var used usage
	var stand time.Time
	if err == nil {
		var all sync.WaitGroup
		w.come(ctx, &all)
		stand = time.Now()
		used, err = usageDuring(ctx, w.admin, func() error {
			all.Wait()
			return nil
		})
		all.Wait() // also after an error
	}
	close(done)
	err = errors.Join(err, <-watched)
	// Waiters that were served while others still came do not count: those calls did not serve them.
	grants := num(0)
	for _, one := range w.waiters {
		if one.served.After(stand) {
			grants++
		}
		err = errors.Join(err, one.err)
	}
	r.Calls = used.scripts().calls / grants
	w.compare(&r)
	return r, err
}

// come lets the waiters come one by one.
func (w *waiting) come(ctx context.Context, all *sync.WaitGroup) {
	// A waiter comes when the one before has begun: the order in which they came is known, and can be
	// compared with the order in which they are served.
	coming := make(chan struct{})
	for i := range w.waiters {
		one := &w.waiters[i]
		all.Go(func() {
			coming <- struct{}{}
			one.came = time.Now()
			one.err = w.limiter.Acquire(ctx, 1)
			one.served = time.Now()
		})
		<-coming
		time.Sleep(time.Millisecond) // many times what it takes to stand in line
	}
}

// fill takes all permits, so that the first waiter waits for a whole interval at least.
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

// watch collects the records until done is closed, and once more after that. It looks five times per
// interval: a record lives for one.
func (w *waiting) watch(ctx context.Context, done <-chan struct{}) error {
	for last := false; ; {
		all, err := w.admin.ZRangeWithScores(ctx, pairOf(w.name).Permits, 0, -1).Result()
		for _, z := range all {
			w.records[z.Member.(string)] = z
		}
		if err != nil || last {
			return err
		}
		select {
		case <-time.After(waitInterval / 5):
		case <-done:
			last = true
		}
	}
}

// compare compares when each waiter was served with when its permit was due: an interval after it was taken,
// by the time in its record. Permits are due in the order in which they are handed out, so a waiter that was
// served earlier has got the permit of a waiter ahead.
func (w *waiting) compare(r *waitResult) {
	var due []time.Time
	for member, z := range w.records {
		permits, _ := wire.Permits(member) // 0 leaves a due time out, which shows below
		for range permits {
			due = append(due, time.UnixMilli(int64(z.Score)).Add(waitInterval))
		}
	}
	slices.SortFunc(due, time.Time.Compare)
	if len(due) < len(w.waiters) {
		r.Early, r.Typical, r.Late = num(len(w.waiters)), num(math.Inf(1)), num(math.Inf(1))
		return
	}
	lates := make([]num, len(w.waiters))
	slices.SortFunc(w.waiters, func(a, b waiter) int { return a.came.Compare(b.came) })
	for i, one := range w.waiters {
		if lates[i] = millis(one.served.Sub(due[i])); lates[i] < 0 {
			r.Early++
		}
	}
	r.Typical, r.Late = quantile(lates, 0.5), quantile(lates, 0.99)
}

type besideData struct {
	Redisson string // version
	Times    int    // runs of each scenario
	Timeout  string // of each call
	Span     string // of each run

	Rows   []besideRow
	Prices []priceRow

	// Processes of Go share Limit for the time Among, with so many Callers each.
	Processes, Callers int
	Limit, Among       string
	Index, AmongUsed   medianAndWorst // Jain's index, and the part that is used
}

// A medianAndWorst is a shares.Spread as the page prints it.
type medianAndWorst struct{ Median, Worst num }

func onPage(s shares.Spread) medianAndWorst { return medianAndWorst{num(s.Median), num(s.Worst)} }

type besideRow struct {
	Name           string
	Due, Got       num // of Java
	Java, Go, Used medianAndWorst
}

// A priceRow is what Go gets without any Java: with its default options, by which it would leave Java its
// share, and with WithGoOnly.
type priceRow struct {
	Name                string
	Possible            num // permits that the limit allows
	Ready, Only         num // permits granted: by default, and with WithGoOnly
	ReadyUsed, OnlyUsed medianAndWorst
}

// measureBeside measures all scenarios several times: Redisson's timers tick at random moments, so one run
// says little. The median of the runs must meet the targets.
func measureBeside(ctx context.Context, s *scope) finding {
	peer := get(s.peer(ctx))
	brief := 400 * time.Millisecond
	span, among, times := amount(s, 5*time.Second, brief), amount(s, 20*time.Second, brief), amount(s, 5, 2)
	d := &besideData{
		Redisson: peer.Version(), Times: times, Timeout: shares.Timeout.String(), Span: span.String(),
		Processes: 4, Callers: 4, Limit: shares.Among.String(), Among: among.String(),
	}
	var targets []target
	used := num(1)
	for _, sc := range amount(s, shares.Scenarios, shares.Scenarios[:1]) {
		several := get(shares.Repeat(ctx, peer, sc, span, times))
		row := besideRow{
			sc.String(), num(several[0].Java.Due),
			median(several, func(r shares.Result) num { return num(r.Java.Got) }),
			onPage(several.Java()), onPage(several.Go()), onPage(several.Used()),
		}
		d.Rows = append(d.Rows, row)
		targets = append(targets, least("T9", row.Name+": got by what was due, of the side that got less",
			min(row.Go.Median, row.Java.Median), shares.LeastRatio, ""))
		used = min(used, row.Used.Median)
		progress("beside: %v", sc)
	}
	// One target for the least used scenario: nine that are all met say no more.
	targets = append(targets, least("T9", "part of the limit that is used, where that is least",
		used, shares.LeastUsed, ""))
	for _, sc := range amount(s, shares.Alone, shares.Alone[:1]) {
		d.Prices = append(d.Prices, priceOf(ctx, sc, span, times))
	}
	crowd := shares.Crowd{Limit: shares.Among, Processes: d.Processes, Callers: d.Callers}
	fair := get(shares.RepeatProcesses(ctx, crowd, among, times))
	d.Index, d.AmongUsed = onPage(fair.Index()), onPage(fair.Used())
	what := fmt.Sprintf("%v, %d processes of Go: Jain's fairness index", shares.Among, d.Processes)
	return finding{d, append(targets, least("T9", what, d.Index.Median, shares.LeastIndex, ""))}
}

// priceOf measures both at the same time, so that other work on the machine disturbs both alike.
func priceOf(ctx context.Context, sc shares.Scenario, span time.Duration, times int) priceRow {
	only := sc
	only.Options = []rratelimiter.Option{rratelimiter.WithGoOnly()}
	var both [2]shares.Several
	must(inParallel(2, 2, func(i int) (err error) {
		both[i], err = shares.Repeat(ctx, nil, []shares.Scenario{sc, only}[i], span, times)
		return err
	}))
	ready, alone := both[0], both[1]
	granted := func(r shares.Result) num { return num(r.Go.Granted) }
	return priceRow{
		sc.String(), num(alone[0].Possible), median(ready, granted), median(alone, granted),
		onPage(ready.Used()), onPage(alone.Used()),
	}
}
