// Package concurrency limits how many permits are out at once, instead of how many are
// taken in a time: so many requests that are served at the moment, so many connections
// to a partner. Who takes permits gives them back when it is done.
//
// Nobody can give back who has crashed. So permits are taken for a lease, and come back
// when that is over. It is to be longer than the work takes, or extended meanwhile. A
// lease is no lock: a process that stood still beyond the end of its lease does not
// know it, and goes on while others have its permits.
//
//	leases, err := concurrency.Limit{Most: 20, Lease: time.Minute}.LeasesOnRedis(rdb, "reports")
//	...
//	lease, err := leases.Acquire(ctx, 1)
//	if err != nil {
//		return err
//	}
//	defer lease.Release(context.WithoutCancel(ctx))
//
// Behind the interfaces of package limit permits have no lease of their own. Release
// gives back the oldest that the same limiter has taken, whoever holds them, and if
// there are none, those of other processes. So who gives back what is over gives back
// what somebody else has. If nobody gives any back, the limiter is a sliding log: no time
// of a lease has more than Most.
package concurrency

import (
	"cmp"
	"embed"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Limit is how many permits are out at once. Each Lease, and each call of
// Allow that was granted, has one permit or many. At most 2,000 of them are out at once,
// also if Most is more: then all is refused. That bounds how long a script takes. Who needs
// more spreads them over several names, or takes many permits with one lease.
type Limit struct {
	Most  int64         // 1 to 2^40
	Lease time.Duration // 1 ms to 3,660 days; a part of a millisecond is dropped
}

// InMemory returns the limiter of this process. A field that is out of its bounds is a
// limit.ErrInvalidArgument, as with all the methods.
func (l Limit) InMemory(opts ...limit.Option) (limit.Releaser, error) {
	return form.InMemory(l.rule, opts)
}

// InMemoryKeyed returns a limiter with a limit for each key, in this process. A limit
// that nobody has used for the time of a lease is dropped at one of the next calls.
func (l Limit) InMemoryKeyed(opts ...limit.Option) (limit.KeyedReleaser, error) {
	return form.InMemoryKeyed(l.rule, opts)
}

// OnRedis returns the limiter that all share who use its name, 1 to 1,024 bytes. Its key
// is {name}:concurrency, a sorted set that Redis drops when all leases are over. Times
// are those of the server. A reply that is lost is an error, and may cost permits until
// their lease is over.
func (l Limit) OnRedis(rdb redis.UniversalClient, name string) (limit.Releaser, error) {
	return form.OnRedis(l.rule, rdb, name)
}

// OnRedisKeyed is OnRedis with a limit for each key, under {name:key}:concurrency.
func (l Limit) OnRedisKeyed(rdb redis.UniversalClient, name string) (limit.KeyedReleaser, error) {
	return form.OnRedisKeyed(l.rule, rdb, name)
}

// files are the scripts. That which takes is not sent again: the first copy may come late,
// when the lease was given back, and would take it once more.
//
//go:embed *.lua parts/*.lua
var files embed.FS

var (
	scriptTake = redisx.Load(files, "take.lua", false)
	scriptKeep = redisx.Load(files, "keep.lua", true)
)

func (l Limit) rule() (form.Rule[state], error) {
	numbers, err := l.numbers()
	if err != nil {
		return form.Rule[state]{}, err
	}
	b := bound{l.Most, micros(numbers.Interval)}
	return form.Rule[state]{
		Numbers: numbers,
		Take: func(s *state, now, n int64) form.Answer {
			_, answer := b.take(s, now, n, false)
			return answer
		},
		Script: scriptTake,
		Args:   []any{b.most, b.lease, newSerial('@')},
	}, nil
}

// numbers returns the numbers of the limit, an error if a field is out of its bounds.
func (l Limit) numbers() (form.Numbers, error) {
	if err := cmp.Or(form.Permits("Most", l.Most), form.Span("Lease", l.Lease)); err != nil {
		return form.Numbers{}, err
	}
	lease := l.Lease.Truncate(time.Millisecond)
	return form.Numbers{Algorithm: "concurrency", Limit: l.Most, Interval: lease, Rest: lease}, nil
}

func micros(d time.Duration) int64 { return int64(d / time.Microsecond) }
