package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/fixedwindow"
	"github.com/redisson-go/rratelimiter/limit/leakybucket"
	"github.com/redisson-go/rratelimiter/limit/slidingwindow"
	"github.com/redisson-go/rratelimiter/limit/tokenbucket"
)

// A scenario is a table.
type scenario struct {
	name, about string // on the command line; name also marks the place on the page

	terms
	refused      bool          // the only permit is taken before
	keys         int           // users; 0 is one
	crowds       []crowd       // that each contestant has in each round
	times        int           // rounds for one of the command line, where turns are short; 0 is 1
	warmup, span time.Duration // of a turn
	rows         []contestant  // the first one is compared with the others
	columns      []column

	custom func(ctx context.Context, e *env) table // what takes no turns
}

// many is more permits than callers can take.
const many = 1 << 30

// The limits of the scenarios. Those of one limiter are short, so that records expire all the time: a limiter
// that never has to remove old ones is not what people run.
var (
	plenty = terms{many, 100 * time.Millisecond}
	steady = terms{1e6, 20 * time.Millisecond}
	// users' windows are longer than a round, so that users are still there when they come back.
	perUser = terms{1e9, time.Minute}
	taken   = terms{1, time.Hour}
)

// The rivals of several tables.
var (
	rivalRedisson = contestant{"Redisson", redisson, true}
	rivalRate     = contestant{"redis_rate", limiter(1, redisRate(alone, false)), true}
	rivalUlule    = contestant{"ulule/limiter", limiter(1, ululeLimiter(alone)), true}
	rivalRueidis  = contestant{"rueidislimiter", limiter(1, rueidisLimiter), true}
	bare          = contestant{"bare EVALSHA", limiter(1, floor), false}
)

// inLimit is a limiter of limit/.
func inLimit[L limit.Limiter, K limit.Keyed[L]](
	name string, onRedis func(redis.UniversalClient, string) (K, error),
) contestant {
	return contestant{name, limiter(1, asks[L](onRedis)), false}
}

func asks[L limit.Limiter, K limit.Keyed[L]](
	onRedis func(redis.UniversalClient, string) (K, error),
) func(context.Context, *env) ask {
	return func(_ context.Context, e *env) ask {
		return answers[L](get(onRedis(e.rdb(), redistest.Name(e))))
	}
}

// loneRows are a script that does nothing, the calls of this library, and those of its rivals.
var loneRows = []contestant{
	{"TryAcquire", limiter(1, tryAcquire), false},
	{"TryAcquire, deadline, ContextTimeoutEnabled", limiter(1, dated(true)), false},
	{"TryAcquire, deadline, defaults of go-redis", limiter(1, dated(false)), false},
	{"Allow of a Keyed", limiter(1, users), false},
	{"Reserve, Settle", limiter(1, reserves), false},
	rivalRedisson, rivalRate, rivalUlule, rivalRueidis, bare,
}

var loneColumns = []column{
	{"p50 µs", 0, p50, less}, {"Redis µs", 0, script, less}, {"Go allocations", 0, allocs, neither},
}

// scenarios are all, in the order of the page.
var scenarios = []scenario{
	{
		name: "callers", about: "1 to 512 callers of one limiter",
		terms: plenty, crowds: []crowd{{1, 1}, {64, 1}, {512, 1}},
		warmup: 200 * time.Millisecond, span: time.Second,
		rows: []contestant{
			{"this library", limiter(1, tryAcquire), false},
			rivalRedisson, rivalRate, rivalRueidis, bare,
			{"this library, WithLease", limiter(hundred, leased), false},
		},
		columns: []column{
			{"1: calls/s", 0, perSecond, more}, {"64: calls/s", 1, perSecond, more},
			{"512: calls/s", 2, perSecond, more}, {"1: p50 µs", 0, p50, less}, {"64: p99 µs", 1, p99, less},
			{"1: Redis CPU µs", 0, cpu, less}, {"64: Redis CPU µs", 1, cpu, less},
		},
	},
	{
		name: "lone", about: "one call that is granted, while records expire all the time",
		terms: steady, crowds: []crowd{{1, 1}}, times: 12,
		warmup: 10 * time.Millisecond, span: 20 * time.Millisecond,
		rows: loneRows, columns: loneColumns,
	},
	{
		name: "refused", about: "one call that is refused",
		terms: taken, refused: true, crowds: []crowd{{1, 1}}, times: 12,
		warmup: 10 * time.Millisecond, span: 20 * time.Millisecond,
		rows: loneRows, columns: loneColumns,
	},
	{
		name: "flood", about: "8 callers that are refused, with and without WithRefusalCache",
		terms: taken, refused: true, crowds: []crowd{{8, 1}},
		warmup: 200 * time.Millisecond, span: time.Second,
		rows: []contestant{
			{"Allow", limiter(1, allows()), false},
			{"Allow, WithRefusalCache",
				limiter(hundred, allows(rratelimiter.WithRefusalCache(time.Minute))), false},
			rivalRate,
		},
		columns: []column{
			{"calls/s", 0, perSecond, more},
			{"script calls/s", 0, func(s sample) float64 { return s.calls * s.perSecond }, neither},
		},
	},
	{
		name: "users", about: "a limit for each of 100,000 users",
		terms: perUser, keys: 100_000, crowds: []crowd{{1, 1}, {64, 1}},
		warmup: 200 * time.Millisecond, span: time.Second,
		rows: []contestant{
			{"this library", limiter(1, users), false},
			inLimit("tokenbucket",
				tokenbucket.Bucket{Capacity: 1e9, Rate: 1e9, Interval: time.Minute}.OnRedis),
			inLimit("fixedwindow", fixedwindow.Window{Rate: 1e9, Interval: time.Minute}.OnRedis),
			inLimit("slidingwindow.Counter", slidingwindow.Counter{Rate: 1e9, Interval: time.Minute}.OnRedis),
			rivalRate, {"redis_rate, AutoPipeline", limiter(1, redisRate(together, false)), true},
			rivalUlule, {"ulule/limiter, AutoPipeline", limiter(1, ululeLimiter(together)), true},
			rivalRueidis,
		},
		columns: []column{
			{"64: calls/s", 1, perSecond, more}, {"1: p50 µs", 0, p50, less},
			{"64: p99 µs", 1, p99, less}, {"64: Redis CPU µs", 1, cpu, less},
		},
	},
	{
		name: "algorithms", about: "the other limiters of limit/, with 1,000 users",
		terms: terms{many, time.Hour}, keys: 1000, crowds: []crowd{{1, 1}, {64, 1}},
		warmup: 100 * time.Millisecond, span: 500 * time.Millisecond,
		rows: []contestant{
			inLimit("leakybucket.Meter",
				leakybucket.Meter{Capacity: many, Rate: many, Interval: time.Hour}.OnRedis),
			// More than a permit for each µs: a queue grants one by one.
			inLimit("leakybucket.Queue",
				leakybucket.Queue{Rate: 1 << 40, Interval: time.Second, Capacity: many}.OnRedis),
			inLimit("slidingwindow.Log", slidingwindow.Log{Rate: many, Interval: time.Hour}.OnRedis),
		},
		columns: []column{
			{"1: p50 µs", 0, p50, neither}, {"64: calls/s", 1, perSecond, neither},
			{"64: Redis CPU µs", 1, cpu, neither},
		},
	},
	{name: "memory", about: "bytes of Redis for a user", custom: memory},
	{
		name: "group", about: "several limits in one call, and in two",
		terms: steady, crowds: []crowd{{1, 1}, {64, 1}},
		warmup: 100 * time.Millisecond, span: 500 * time.Millisecond,
		rows: []contestant{
			{"Group of two", limiter(1, groupOf(2)), false},
			{"Group of four", limiter(1, groupOf(4)), false},
			{"redis_rate, two calls", limiter(1, twice), true},
		},
		columns: []column{
			{"1: p50 µs", 0, p50, less}, {"1: Redis µs", 0, script, less},
			{"64: calls/s", 1, perSecond, more}, {"64: Redis CPU µs", 1, cpu, less},
		},
	},
	{
		name: "waiters", about: "64 callers that wait for 100 permits a second",
		terms: terms{100, time.Second}, crowds: []crowd{{64, 1}},
		warmup: 1500 * time.Millisecond, span: 3 * time.Second,
		rows: []contestant{
			{"this library", limiter(1, waits), false},
			{"Redisson", redissonWaits, true},
			{"redis_rate, sleep and ask again", limiter(1, redisRate(alone, true)), true},
		},
		columns: []column{
			{"permits/s", 0, perSecond, more}, {"script calls per permit", 0, calls, less},
			{"wait p99 ms", 0, func(s sample) float64 { return s.p99 / 1e3 }, less},
		},
	},
	{
		name: "locks", about: "a lock: one caller, and 64 in one process and in four",
		crowds: []crowd{{1, 1}, {64, 1}, {64, processes}},
		rows: []contestant{
			{"Lock", lock(newOurs(false)), false}, {"FairLock", lock(newOurs(true)), false},
			{"Redisson", redissonLock, true}, {"bsm/redislock, each ms", lock(newRedislock), true},
			{"redsync", lock(newRedsync), true}, {"rueidislock", lock(newRueidislock), true},
		},
		columns: []column{
			{"1: p50 µs", 0, p50, less}, {"1: Redis CPU µs", 0, cpu, less},
			{"64: hand-overs/s", 1, perSecond, more}, {"script calls", 1, calls, less},
			{"4 processes: hand-overs/s", 2, perSecond, more}, {"script calls", 2, calls, less},
		},
	},
}

// memory lets users take permits one by one, and returns what that adds to the memory of the server.
func memory(ctx context.Context, e *env) table {
	t := table{{" ", "bytes"}}
	for _, one := range []struct {
		name   string
		grants int
		made   func(context.Context, *env) ask
	}{
		{"this library, 1 grant", 1, users}, {"10 grants", 10, users}, {"100 grants", 100, users},
		{"1,000 grants", 1000, users},
		{"tokenbucket", 1,
			asks[limit.Ledger](tokenbucket.Bucket{Capacity: 1, Rate: 1, Interval: time.Minute}.OnRedis)},
		{"fixedwindow", 1,
			asks[limit.Ledger](fixedwindow.Window{Rate: 1, Interval: time.Minute}.OnRedis)},
		{"slidingwindow.Counter", 1,
			asks[limit.Ledger](slidingwindow.Counter{Rate: 1, Interval: time.Minute}.OnRedis)},
		{"redis_rate", 1, redisRate(alone, false)},
		{"ulule/limiter", 1, ululeLimiter(alone)}, {"rueidislimiter", 1, rueidisLimiter},
	} {
		// Some keep a user for no longer than the permits take to come back: all are taken.
		e.terms = terms{int64(one.grants), time.Minute}
		// A server of its own: one that was used before gives memory back meanwhile.
		e.server = redistest.Start(e)
		e.admin = e.server.Admin()
		users := amount(e, 100_000, 2000) / one.grants
		t = append(t, []string{one.name, figure(e.bytes(ctx, one.made(ctx, e), users, one.grants))})
	}
	return t
}

// bytes returns the memory of each of some users.
func (e *env) bytes(ctx context.Context, once ask, users, grants int) float64 {
	take := func(prefix string, users int) {
		must(inParallel(64, users, func(i int) error {
			for range grants { // of one user one by one, so that each grant has a record
				ok, err := once(ctx, fmt.Sprint(prefix, i))
				if err = e.expected(ok, err); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	take("warm-", 64) // connections and scripts
	before := e.usedMemory(ctx)
	take("user-", users)
	return (e.usedMemory(ctx) - before) / float64(users)
}

// usedMemory returns the bytes of the server without the buffers of its clients.
func (e *env) usedMemory(ctx context.Context) float64 {
	var used, clients float64
	info := get(e.admin.InfoMap(ctx, "memory").Result())["Memory"]
	get(fmt.Sscan(info["used_memory"]+" "+info["mem_clients_normal"], &used, &clients))
	return used - clients
}
