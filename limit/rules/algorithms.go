package rules

import (
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/fixedwindow"
)

// A maker is what the packages of all algorithms have.
type maker interface {
	InMemoryKeyed(opts ...limit.Option) (limit.KeyedReleaser, error)
	OnRedisKeyed(rdb redis.UniversalClient, name string) (limit.KeyedReleaser, error)
}

// An algorithm is one that a file may name.
type algorithm struct {
	needed, optional string // the fields of its limits, besides name and algorithm
	maker            func(n numbers) maker
}

// redisson is the algorithm of a limit that names none. On Redis it is a Template of package
// rratelimiter, and in memory the same algorithm.
const redisson = "rratelimiter"

// algorithms are by their names in a file.
var algorithms = map[string]algorithm{
	redisson: {"rate per", "", func(n numbers) maker {
		return fixedwindow.Window{Rate: n.rate, Interval: n.per}
	}},
	"fixed-window": {"rate per", "", func(n numbers) maker {
		return fixedwindow.Window{Rate: n.rate, Interval: n.per}
	}},
}

func (a algorithm) needs(field string) bool { return slices.Contains(strings.Fields(a.needed), field) }

func (a algorithm) takes(field string) bool {
	return slices.Contains(strings.Fields(a.optional), field)
}
