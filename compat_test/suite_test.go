// Package compat_test proves that Go and Java share a limiter: the real Redisson
// (the project in java/) and this library work on the same keys of one
// redis-server.
package compat_test

import (
	"cmp"
	"context"
	"os"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

func TestCompat(t *testing.T) {
	redistest.Require(t, cmp.Or(os.Getenv("REDIS_SERVER"), "redis-server"))
	redistest.Require(t, "java")
	redistest.Require(t, "mvn")
	RegisterFailHandler(Fail)
	suite, reporter := GinkgoConfiguration()
	if testing.Short() && suite.LabelFilter == "" {
		suite.LabelFilter = "!" + thorough
	}
	RunSpecs(t, "Go and Java on the same keys", suite, reporter)
}

// thorough labels specs of make test ALL=1, which go test -short leaves out: what they promise is shown once
// beside the newest Redisson, and these show it beside others, under faults, or by more rounds.
const thorough = "thorough"

// All specs share one server, one peer with two Redisson instances, and two Go
// clients. Each spec uses new names for its limiters.
var (
	server *redistest.Server
	look   *redis.Client // for looking at the keys
	peer   *javapeer.Peer
	javas  = []*javaSide{{client: "j1"}, {client: "j2"}}
	gos    = []*goSide{{}, {}}
)

var _ = BeforeSuite(func(ctx SpecContext) {
	server = redistest.Start(GinkgoT(), "--notify-keyspace-events", "KE$gx")
	look = server.Admin()
	newest.start(ctx)
	peer = newest.peer
}, NodeTimeout(5*time.Minute))

// keys are the names of a limiter's keys.
type keys struct {
	hash, value, permits string

	writers [2]int // formats that the records may have
}

func keysOf(name string) keys {
	return keys{hash: name, value: "{" + name + "}:value", permits: "{" + name + "}:permits"}
}

func (k keys) of(id string) keys {
	return keys{k.hash, k.value + ":" + id, k.permits + ":" + id, k.writers}
}

// by sets the sides that write the records.
func (k keys) by(one, other side) keys {
	k.writers = [2]int{one.writes(), other.writes()}
	return k
}

// state is what Redis holds of a limiter: the value string, and the permits of the
// records, smallest first (records of one ms have no order in time).
type state struct {
	value   string
	records []int64
}

func (k keys) state(ctx context.Context) (s state) {
	GinkgoHelper()
	s.value = look.Get(ctx, k.value).Val()
	members, err := look.ZRange(ctx, k.permits, 0, -1).Result()
	Expect(err).NotTo(HaveOccurred())
	for _, m := range members {
		Expect(formatOf(m)).To(BeElementOf(k.writers), "the format of a record")
		n, err := wire.Permits(m)
		Expect(err).NotTo(HaveOccurred())
		s.records = append(s.records, n)
	}
	slices.Sort(s.records)
	return s
}
