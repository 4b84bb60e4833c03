package faults

import (
	"cmp"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// go-redis would print each connection that breaks here.
func TestMain(m *testing.M) {
	logging.Disable()
	redistest.VerifyNoLeaks(m)
}

// Whatever breaks and heals, the promises hold. The faults of a group share servers, except those that need
// other servers than usual. The groups mostly wait, and run in parallel.
func TestFaults(t *testing.T) {
	redistest.Thorough(t)
	redistest.Require(t, "java")
	redistest.Require(t, "mvn")
	peer := redistest.Must(javapeer.Start(t.Context(), "", javapeer.SmallJVM...))(t)
	t.Cleanup(func() { _ = peer.Close() })
	for _, group := range []struct {
		name  string
		usual Setup
		table []Fault
	}{
		{"of a server", Setup{}, OfServer},
		{"of its memory and the network", Setup{}, slices.Concat(OfMemory, OfNetwork)},
		{"with leases", Setup{Alone: true, Leased: true}, OfLeases},
		{"under sentinels", Setup{Kind: Sentinels}, OfSentinel},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			shared := NewTestbed(t, peer, group.usual)
			for _, f := range group.table {
				t.Run(f.Name, func(t *testing.T) {
					testbed := shared
					if !reflect.DeepEqual(f.Setup, group.usual) {
						testbed = NewTestbed(t, peer, f.Setup)
					}
					shown(t, testbed.Play(t, f))
				})
			}
		})
	}
	t.Run("of a cluster at random", func(t *testing.T) {
		t.Parallel()
		atRandom(t, NewTestbed(t, peer, clustered))
	})
}

// shown logs a report, and fails the test if anything is wrong.
func shown(t *testing.T, r *Report) *Report {
	t.Helper()
	if t.Log(r); len(r.Wrong) > 0 {
		t.FailNow()
	}
	return r
}

// atRandom plays each fault of a cluster once, in random order; with FAULTS_SOAK (`make soak-faults`) it
// repeats that for this duration. The first fault that breaks a promise ends it.
func atRandom(t *testing.T, testbed *Testbed) {
	span := redistest.Must(time.ParseDuration(cmp.Or(os.Getenv("FAULTS_SOAK"), "0s")))(t)
	var reports []*Report
	defer func() { t.Log(Figures(reports)) }()
	for end := time.Now().Add(span); len(reports) < len(OfCluster) || time.Now().Before(end); {
		for _, i := range rand.Perm(len(OfCluster)) {
			reports = append(reports, shown(t, testbed.Play(t, OfCluster[i])))
		}
	}
}
