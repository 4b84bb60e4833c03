package rules

import (
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/concurrency"
	"github.com/redisson-go/rratelimiter/limit/fixedwindow"
	"github.com/redisson-go/rratelimiter/limit/leakybucket"
	"github.com/redisson-go/rratelimiter/limit/slidingwindow"
	"github.com/redisson-go/rratelimiter/limit/tokenbucket"
)

// A maker is an algorithm of any package.
type maker interface {
	InMemoryKeyed(opts ...limit.Option) (limit.KeyedReleaser, error)
	OnRedisKeyed(rdb redis.UniversalClient, name string) (limit.KeyedReleaser, error)
}

// An algorithm is an entry of algorithms.
type algorithm struct {
	needed, optional string // fields of its limits, besides name and algorithm
	maker            func(n numbers) maker
}

// redisson is the default algorithm. On Redis it is a Keyed of package rratelimiter; in memory
// slidingwindow.Log decides alike.
const redisson = "rratelimiter"

// algorithms are the algorithms that a file may name.
var algorithms = map[string]algorithm{
	redisson:          {"rate per", "", log},
	"sliding-log":     {"rate per", "", log},
	"sliding-counter": {"rate per", "parts", counter},
	"fixed-window":    {"rate per", "", window},
	"leaky-bucket":    {"rate per", "burst", meter},
	"token-bucket":    {"rate per", "burst", bucket},
	"concurrency":     {"most lease", "", concurrent},
}

func log(n numbers) maker { return slidingwindow.Log{Rate: n.rate, Interval: n.per} }

func counter(n numbers) maker {
	return slidingwindow.Counter{Rate: n.rate, Interval: n.per, Parts: n.parts}
}

func window(n numbers) maker { return fixedwindow.Window{Rate: n.rate, Interval: n.per} }

func meter(n numbers) maker {
	return leakybucket.Meter{Capacity: n.atMost(), Rate: n.rate, Interval: n.per}
}

func bucket(n numbers) maker {
	return tokenbucket.Bucket{Capacity: n.atMost(), Rate: float64(n.rate), Interval: n.per}
}

func concurrent(n numbers) maker { return concurrency.Limit{Most: n.most, Lease: n.lease} }

func (a algorithm) needs(field string) bool { return slices.Contains(strings.Fields(a.needed), field) }

func (a algorithm) takes(field string) bool {
	return slices.Contains(strings.Fields(a.optional), field)
}
