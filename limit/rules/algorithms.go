package rules

import (
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/concurrency"
	"github.com/redisson-go/rratelimiter/limit/fixedwindow"
	"github.com/redisson-go/rratelimiter/limit/leakybucket"
	"github.com/redisson-go/rratelimiter/limit/slidingwindow"
	"github.com/redisson-go/rratelimiter/limit/tokenbucket"
)

// An algorithm is an entry of algorithms.
type algorithm struct {
	needed, optional string // fields of its limits, besides name and algorithm

	inMemory func(n numbers, opts ...limit.Option) (limiters, error)
	onRedis  func(n numbers, rdb redis.UniversalClient, name string) (limiters, error)
}

// of returns an algorithm. Its limiters come from the Maker that with returns for the numbers of a limit.
func of[L keyed[L]](needed, optional string, with func(n numbers) form.Maker[L]) algorithm {
	return algorithm{
		needed, optional,
		func(n numbers, opts ...limit.Option) (limiters, error) {
			return limitersOf(with(n).InMemory(opts...))
		},
		func(n numbers, rdb redis.UniversalClient, name string) (limiters, error) {
			return limitersOf(with(n).OnRedis(rdb, name))
		},
	}
}

// redisson is the default algorithm. On Redis it is a Keyed of package rratelimiter; in memory
// slidingwindow.Log decides the same way.
const redisson = "rratelimiter"

// algorithms are the algorithms that a file may name.
var algorithms = map[string]algorithm{
	redisson:          of("rate per", "", log),
	"sliding-log":     of("rate per", "", log),
	"sliding-counter": of("rate per", "parts", counter),
	"fixed-window":    of("rate per", "", window),
	"leaky-bucket":    of("rate per", "burst", meter),
	"token-bucket":    of("rate per", "burst", bucket),
	"concurrency":     of("most lease", "", concurrent),
	calendar:          of("rate per", "zone from", quota),
}

// calendar is the algorithm of limits per day, week, month or year.
const calendar = "calendar"

// units are the values of per for calendar.
var units = map[string]fixedwindow.Unit{
	"day": fixedwindow.Day, "week": fixedwindow.Week, "month": fixedwindow.Month, "year": fixedwindow.Year,
}

// ledgers are algorithms that also reserve.
type ledgers = form.Maker[limit.Ledger]

func log(n numbers) ledgers { return slidingwindow.Log{Rate: n.rate, Interval: n.per} }

func counter(n numbers) ledgers {
	return slidingwindow.Counter{Rate: n.rate, Interval: n.per, Parts: n.parts}
}

func window(n numbers) ledgers { return fixedwindow.Window{Rate: n.rate, Interval: n.per} }

func quota(n numbers) ledgers {
	c := fixedwindow.Calendar{Rate: n.rate, Unit: n.unit}
	c.Location, _ = time.LoadLocation(n.zone) // the parser has loaded it
	if n.from != "" {
		c.Anchor, _ = time.ParseInLocation(fromLayout(n.from), n.from, c.Location)
	}
	return c
}

// fromLayout returns the layout of a time to begin.
func fromLayout(text string) string {
	if len(text) > len(time.DateOnly) {
		return "2006-01-02T15:04"
	}
	return time.DateOnly
}

func meter(n numbers) ledgers {
	return leakybucket.Meter{Capacity: n.atMost(), Rate: n.rate, Interval: n.per}
}

func bucket(n numbers) ledgers {
	return tokenbucket.Bucket{Capacity: n.atMost(), Rate: float64(n.rate), Interval: n.per}
}

func concurrent(n numbers) form.Maker[concurrency.Leases] {
	return concurrency.Limit{Most: n.most, Lease: n.lease}
}

func (a algorithm) needs(field string) bool { return slices.Contains(strings.Fields(a.needed), field) }

func (a algorithm) takes(field string) bool {
	return slices.Contains(strings.Fields(a.optional), field)
}
