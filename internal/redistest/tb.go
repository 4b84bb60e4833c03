package redistest

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

// TB is the part of a *testing.T, a *testing.B or Ginkgo's GinkgoT() that this
// package needs. Fatalf and Skipf must not return.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
	Logf(format string, args ...any)
	Name() string
}

// Require returns the path of a program, which is given as a path or by its name in
// PATH. Without it the test is skipped or, with CI=true in the environment, fails: a
// gate that silently skips a check does not check.
func Require(t TB, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err == nil {
		return path
	}
	Lacks(t, "%s: %v", program, err)
	return ""
}

// Lacks skips or fails a test, as Require does, that needs something that the machine lacks.
func Lacks(t TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("redistest: CI=true, and the test needs "+format, args...)
	}
	t.Skipf("redistest: the test needs "+format, args...)
}

// patience bounds every wait for a server. It is far longer than a server takes: it
// only ends tests that fail anyway, and a busy machine must not fail a good one.
const patience = 2 * time.Minute

// Until calls ready until it returns nil. After two minutes it fails the test with the
// text what and the last error.
func Until(t TB, what string, ready func() error) {
	t.Helper()
	if err := poll(patience, ready); err != nil {
		t.Fatalf("redistest: %s: %v", what, err)
	}
}

// Eventually is Until for a condition: it calls is until that returns true.
func Eventually(t TB, what string, is func() bool) {
	t.Helper()
	Until(t, what, func() error {
		if !is() {
			return errNotYet
		}
		return nil
	})
}

var errNotYet = errors.New("not yet")

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
