package rls

import (
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// On a cluster, limits of one request may live on different servers, and those of a domain with
// all_or_none on one.
func TestDecisionsOnACluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	rdb := cluster.Client(t)
	for i, c := range decisions[:3] {
		c.o.Prefix = string(rune('a' + i))
		asks(t, serve(t, rdb, c.o, limits), c.steps...)
	}
	const two = "descriptors:\n- {key: one, rate_limit: {unit: hour, requests_per_unit: 1}}\n" +
		"- {key: two, rate_limit: {unit: hour, requests_per_unit: 2}}\n"
	s := serve(t, rdb, Options{}, "domain: d\nall_or_none: true\n"+two)
	asks(t, s, "one=a; two=b", "OK: OK 0, OK 1", "one=a; two=b", "OVER: OVER 0, OK 1", "two=b", "OK: OK 0")
	for _, algorithm := range algorithms {
		s := serve(t, rdb, Options{Prefix: algorithm}, "domain: d\ndescriptors: [{key: a, rate_limit: "+
			"{unit: hour, requests_per_unit: 1, algorithm: "+algorithm+"}}]")
		asks(t, s, "a={x}", "OK: OK 0", "a={x}", "OVER: OVER 0")
	}
}
