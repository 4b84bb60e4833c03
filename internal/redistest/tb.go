package redistest

import (
	"os"
	"os/exec"
	"time"
)

// TB is what this package needs of a *testing.T, a *testing.B, or of Ginkgo's
// GinkgoT(). Fatalf and Skipf must not return.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
	Logf(format string, args ...any)
	Name() string
}

// Require returns the path of the executable program, which may be a name to be
// looked up in PATH or a path. If there is none the test is skipped, except
// with CI=true in the environment, where it fails: a gate that skips what it
// was set up to check is open without anybody noticing.
func Require(t TB, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err == nil {
		return path
	}
	lacks(t, "%s: %v", program, err)
	return ""
}

// lacks ends a test that needs what the machine does not have.
func lacks(t TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("redistest: CI=true, and the test needs "+format, args...)
	}
	t.Skipf("redistest: the test needs "+format, args...)
}

// patience bounds every wait for a server. It is far longer than any of them
// takes, because it only ends tests that fail anyway, while a machine busy with
// other builds must not make a good one fail.
const patience = 60 * time.Second

// until calls ready until it returns nil, and fails the test with its last
// error if that takes longer than patience.
func until(t TB, what string, ready func() error) {
	t.Helper()
	if err := poll(patience, ready); err != nil {
		t.Fatalf("redistest: %s: %v", what, err)
	}
}

// poll calls ready every few milliseconds until it returns nil or limit has
// passed, and returns its last error.
func poll(limit time.Duration, ready func() error) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); ; <-tick.C {
		err := ready()
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}
