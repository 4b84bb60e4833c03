package compat_test

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// everyServer are the files whose specs run on every release of a server.
var everyServer = []string{
	"beside_test.go", "together_test.go", "limits_test.go", "servers_test.go",
}

// notEvery matches those of their specs that would only take longer there.
const notEvery = "^Go and Java on the same keys Both at once"

// infoEnv tells a suite what the server it runs on must say of itself.
const infoEnv = "COMPAT_SERVER_INFO"

// The scripts are the same on every server since Redis 5.0, and so is what Go
// and Java see of each other. The suite runs again on each release, in another
// process.
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

// suiteOn runs the suite on another server and fails unless all of it has run
// and passed.
func suiteOn(t *testing.T, binary, info string) {
	t.Helper()
	report := filepath.Join(t.TempDir(), "report.json")
	args := []string{"-test.run=^TestCompat$", "-test.timeout=5m", "-ginkgo.no-color",
		"-ginkgo.skip=" + notEvery, "-ginkgo.json-report=" + report}
	for _, file := range everyServer {
		args = append(args, "-ginkgo.focus-file=/"+file)
	}
	suite := exec.CommandContext(t.Context(), os.Args[0], args...)
	suite.Env = append(os.Environ(),
		"REDISSON_VERSIONS="+newest.version, "REDIS_SERVER="+binary, infoEnv+"="+info)
	out, err := suite.CombinedOutput()
	if err != nil {
		t.Fatalf("%v, saying:\n%s", err, out)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatalf("%v; the suite said:\n%s", err, out)
	}
	allRan(t, text)
}

// allRan fails unless specs of each file have run and all chosen specs have
// passed.
func allRan(t *testing.T, report []byte) {
	t.Helper()
	var suites []Report
	if err := json.Unmarshal(report, &suites); err != nil || len(suites) != 1 {
		t.Fatalf("%d suites in the report, %v", len(suites), err)
	}
	passed := suites[0].SpecReports.WithLeafNodeType(types.NodeTypeIt).WithState(types.SpecStatePassed)
	if chosen := suites[0].PreRunStats.SpecsThatWillRun; len(passed) != chosen {
		t.Errorf("%d of %d specs have passed, and the others were left out", len(passed), chosen)
	}
	ran := map[string]int{}
	for _, spec := range passed {
		ran[filepath.Base(spec.ContainerHierarchyLocations[0].FileName)]++
	}
	for _, file := range everyServer {
		if ran[file] == 0 {
			t.Errorf("no spec of %s has run", file)
		}
	}
	t.Logf("%v passed in %v", ran, suites[0].RunTime.Round(time.Second))
}

var _ = Describe("The server", func() {
	It("is the one that was asked for", func(ctx SpecContext) {
		want := cmp.Or(os.Getenv(infoEnv), "redis_version:")
		Expect(look.Info(ctx, "server").Val()).To(ContainSubstring(want))
	})

	It("may be a cluster", func(ctx SpecContext) {
		cluster := redistest.StartCluster(GinkgoT(), redistest.WithArgs("--notify-keyspace-events", "KEA"))
		t := topology{client: cluster.Client(GinkgoT()), java: "clustered"}
		t.connect(ctx, javapeer.Cluster(cluster.Addrs...))
		for range 3 {
			t.shares(ctx, redistest.Name(GinkgoT()))
		}
	})
})
