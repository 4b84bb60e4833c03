package compat_test

import (
	"cmp"
	"os"
	"os/exec"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/compare"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// everyServer are the files whose specs run on every release of a server.
var everyServer = []string{
	"beside_test.go", "together_test.go", "limits_test.go", "servers_test.go",
}

// notEvery matches those of their specs that would only take longer there.
const notEvery = "^Go and Java on the same keys (Both at once|The server may be under sentinels)"

// infoEnv tells a suite what the server it runs on must say of itself.
const infoEnv = "COMPAT_SERVER_INFO"

// Go and Java share limiters on every server since Redis 5.0. The suite runs again on each release, in
// another process.
func TestServers(t *testing.T) {
	t.Parallel() // beside TestCompat
	redistest.Thorough(t)
	redistest.Require(t, "java")
	redistest.Require(t, "mvn")
	for _, release := range redistest.Releases {
		t.Run(release.String(), func(t *testing.T) {
			binary := release.Binary(t)
			t.Parallel()
			suiteOn(t, binary, release.Info())
		})
	}
}

// suiteOn runs the suite on another server and fails unless it passes. No spec of it skips itself.
func suiteOn(t *testing.T, binary, info string) {
	t.Helper()
	args := []string{"-test.run=^TestCompat$", "-test.timeout=5m", "-ginkgo.no-color",
		"-ginkgo.fail-on-empty", "-ginkgo.skip=" + notEvery}
	for _, file := range everyServer {
		redistest.Must(os.Stat(file))(t) // specs of a file that is not there would be left out
		args = append(args, "-ginkgo.focus-file=/"+file)
	}
	suite := exec.CommandContext(t.Context(), os.Args[0], args...)
	suite.Env = append(os.Environ(),
		"REDISSON_VERSIONS="+newest.version, "REDIS_SERVER="+binary, infoEnv+"="+info)
	if out, err := suite.CombinedOutput(); err != nil {
		t.Fatalf("%v, saying:\n%s", err, out)
	}
}

var _ = Describe("The server", func() {
	It("is the one that was asked for", func(ctx SpecContext) {
		want := cmp.Or(os.Getenv(infoEnv), "redis_version:")
		Expect(look.Info(ctx, "server").Val()).To(ContainSubstring(want))
	})

	It("may be a cluster", func(ctx SpecContext) {
		cluster := redistest.StartCluster(GinkgoT(), redistest.WithArgs("--notify-keyspace-events", "KEA"))
		shareOn(ctx, cluster.Client(GinkgoT()), javapeer.Cluster(cluster.Addrs...))
	})

	It("may be under sentinels", func(ctx SpecContext) {
		sentinel := redistest.StartSentinel(GinkgoT(), "--notify-keyspace-events", "KEA")
		shareOn(ctx, sentinel.Client(GinkgoT()), javapeer.Sentinels(sentinel.MasterName, sentinel.Addrs...))
	})
})

// shareOn makes Go and Java share limiters of other servers. Package faults makes these fail over.
func shareOn(ctx SpecContext, rdb redis.UniversalClient, where javapeer.ConnectOption) {
	GinkgoHelper()
	client := redistest.Name(GinkgoT())
	_, err := peer.Connect(ctx, client, "", where)
	done(err)
	DeferCleanup(func(ctx SpecContext) { done(peer.Disconnect(ctx, client)) })
	c := rratelimiter.New(rdb)
	DeferCleanup(c.Close)
	for range 3 { // in several slots
		name := redistest.Name(GinkgoT())
		java, g := peer.Limiter(client, name), compare.Go(c.RateLimiter(name))
		yes(java.TrySetRate(ctx, config(overall, 5, time.Hour)))
		yes(g.UpdateRate(ctx, config(overall, 10, time.Hour), false))
		Expect(java.Config(ctx)).To(Equal(config(overall, 10, time.Hour)))
		yes(java.TryAcquire(ctx, 4, 0))
		yes(g.TryAcquire(ctx, 6, 0))
		no(java.TryAcquire(ctx, 1, 0))
		no(g.TryAcquire(ctx, 1, 0))
		served := make(chan error, 2)
		go func() { served <- g.Acquire(ctx, 1) }()
		hears(ctx, rdb, name)
		done(java.Release(ctx, 1))
		done(<-served)

		yes(g.UpdateRate(ctx, config(overall, 2, time.Second), false))
		yes(java.TryAcquire(ctx, 1, 0))
		yes(g.TryAcquire(ctx, 1, 0))
		go func() { served <- java.Acquire(ctx, 1) }() // both wait the interval out
		go func() { served <- g.Acquire(ctx, 1) }()
		done(<-served)
		done(<-served)
	}
}

// hears waits until a waiter of Go would be notified of a release.
func hears(ctx SpecContext, rdb redis.UniversalClient, name string) {
	GinkgoHelper()
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		master, err := cluster.MasterForKey(ctx, name)
		done(err)
		rdb = master
	}
	channel := "__keyspace@0__:{" + name + "}:value"
	Eventually(func() (map[string]int64, error) { return rdb.PubSubNumSub(ctx, channel).Result() }).
		WithTimeout(patience).Should(HaveKeyWithValue(channel, BeNumerically(">=", 1)))
}
