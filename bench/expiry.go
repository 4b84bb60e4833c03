package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// expiryPart shows that no script keeps Redis from its other users for long. A
// script that removed a million records in one call would, for most of a second.
var expiryPart = &part{
	name: "expiry", set: setPage, measure: measureExpiry,
	about: "the longest script after a million records expired at once",
}

// An expiryData is what the page shows of all combinations.
type expiryData struct {
	Records int
	Rows    []expiryRow
}

// An expiryRow is how long the longest script took, in ms, after all records
// had expired at once, but for some newer ones.
type expiryRow struct {
	Newer         int
	Asked         string // for what
	Median, Worst float64
}

// expiryAsks are what callers ask for when the records have expired. Small asks
// can leave most records to later calls; one large ask must count them all.
var expiryAsks = []struct {
	what string
	ask  func(ctx context.Context, ls []*rratelimiter.RateLimiter, permits int) error
}{
	{"one permit each, by four Clients at once",
		func(ctx context.Context, ls []*rratelimiter.RateLimiter, permits int) error {
			// A call removes some thousand records. These are twice as many calls
			// as it takes to remove all.
			calls := permits/2000 + 10
			return inParallel(len(ls), len(ls), func(i int) (err error) {
				for n := 0; n < calls && err == nil; n++ {
					err = take(ctx, ls[i], 1)
				}
				return err
			})
		}},
	{"as many permits at once",
		func(ctx context.Context, ls []*rratelimiter.RateLimiter, permits int) error {
			return take(ctx, ls[0], int64(permits))
		}},
}

// An expiring is what each run of the part starts from. The expired records are
// written once and copied: writing a million takes longer than measuring.
type expiring struct {
	rdb      *redis.Client
	template string // a limiter with the expired records, which is copied
	records  int
	clients  []*rratelimiter.Client
}

// measureExpiry measures every combination of newer records and of what callers
// ask for.
func measureExpiry(ctx context.Context, s *scope) (finding, error) {
	server := redistest.Start(s)
	e := &expiring{rdb: server.Admin(), template: redistest.Name(s), records: amount(s, 1_000_000, 12_000)}
	if err := addRecords(ctx, e.rdb, e.template, e.records, time.Now().Add(-2*expiryInterval)); err != nil {
		return finding{}, err
	}
	for range 4 {
		e.clients = append(e.clients, s.client(server.Client(s)))
	}
	// No newer records, and many: a script must not read all of them.
	d, f := &expiryData{Records: e.records}, finding{}
	for _, newer := range amount(s, []int{0, 9_999, 20_000}, []int{0, 100}) {
		for _, a := range expiryAsks {
			var longest []float64
			for range amount(s, 5, 1) {
				ms, err := e.measure(ctx, redistest.Name(s), newer, a.ask)
				if err != nil {
					return finding{}, err
				}
				longest = append(longest, ms)
			}
			row := expiryRow{newer, a.what, quantile(longest, 0.5), quantile(longest, 1)}
			d.Rows = append(d.Rows, row)
			f.targets = append(f.targets, most("T5", fmt.Sprintf(
				"%s records expire at once, %s newer ones count, asked for %s: longest script",
				thousands(float64(e.records)), thousands(float64(newer)), a.what), row.Median, 5, " ms"))
		}
	}
	f.data = d
	return f, nil
}

// measure returns the ms of the longest script of one run.
func (e *expiring) measure(
	ctx context.Context, name string, newer int,
	ask func(context.Context, []*rratelimiter.RateLimiter, int) error,
) (float64, error) {
	if err := e.expire(ctx, name, newer); err != nil {
		return 0, err
	}
	limiters := make([]*rratelimiter.RateLimiter, len(e.clients))
	for i, c := range e.clients {
		limiters[i] = c.RateLimiter(name)
	}
	if err := watchScripts(ctx, e.rdb, 10*time.Microsecond); err != nil { // shorter ones are not the longest
		return 0, err
	}
	if err := ask(ctx, limiters, e.records); err != nil {
		return 0, err
	}
	took, err := watchedScripts(ctx, e.rdb, name)
	if err != nil {
		return 0, err
	}
	if len(took) == 0 {
		return 0, errors.New("the slow log has no script")
	}
	return millis(took[0]), e.rdb.Unlink(ctx, keysOf(name, "").permits).Err()
}

// expiryInterval is longer than a run, so that the newer records do not expire.
const expiryInterval = time.Minute

// expire makes a limiter whose records, but for the newer ones, have expired
// since it was used last. Its value allows few permits: for as many as have
// expired, all of them must be counted.
func (e *expiring) expire(ctx context.Context, name string, newer int) error {
	const value = 1000
	k := keysOf(name, "")
	rate, ms := value+e.records+newer, expiryInterval.Milliseconds()
	return errors.Join(
		e.rdb.HSet(ctx, k.hash, "rate", rate, "interval", ms, "type", 0).Err(),
		e.rdb.Set(ctx, k.value, value, 0).Err(),
		e.rdb.Copy(ctx, keysOf(e.template, "").permits, k.permits, 0, true).Err(),
		addRecords(ctx, e.rdb, name, newer, time.Now()),
	)
}
