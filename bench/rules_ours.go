package main

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/limit"
)

// allJudged are all limiters, ours first.
func allJudged() (all []judged) {
	for _, n := range natives {
		all = append(all,
			judged{name: n.algorithm + " in memory", ours: true, promise: n.promise, tells: tellsAll,
				keyed: func(t *testing.T, _ *redis.Client, _ string, of terms) limit.Keyed {
					t.Helper()
					l, err := n.of(of).InMemoryKeyed()
					return must(t, l, err)
				}},
			judged{
				name: n.algorithm + " on Redis", ours: true, promise: n.promise, tells: tellsAll, redis: true,
				keyed: func(t *testing.T, rdb *redis.Client, name string, of terms) limit.Keyed {
					t.Helper()
					l, err := n.of(of).OnRedisKeyed(rdb, name)
					return must(t, l, err)
				},
			})
	}
	return append(all, judgedRivals...)
}

// must ends the check at an error.
func must[T any](t *testing.T, value T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return value
}
