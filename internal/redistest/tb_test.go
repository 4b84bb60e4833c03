package redistest_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// fakeTB is a test that may fail without the real one failing.
type fakeTB struct {
	said     string
	outcome  string
	cleanups []func()
}

func (f *fakeTB) Helper()                     {}
func (f *fakeTB) Name() string                { return "fake" }
func (f *fakeTB) Cleanup(g func())            { f.cleanups = append(f.cleanups, g) }
func (f *fakeTB) Logf(string, ...any)         {}
func (f *fakeTB) Fatalf(msg string, a ...any) { f.end("failed", msg, a) }
func (f *fakeTB) Skipf(msg string, a ...any)  { f.end("skipped", msg, a) }
func (f *fakeTB) end(o, msg string, a []any) {
	f.outcome, f.said = o, fmt.Sprintf(msg, a...)
	runtime.Goexit()
}
func (f *fakeTB) run(test func(redistest.TB)) *fakeTB {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, g := range slices.Backward(f.cleanups) {
				g()
			}
		}()
		test(f)
		f.outcome = "passed"
	}()
	<-done
	return f
}

func TestRequire(t *testing.T) {
	if got := redistest.Require(t, "go"); !strings.HasSuffix(got, "go") {
		t.Errorf("path is %q", got)
	}
	for ci, want := range map[string]string{"": "skipped", "true": "failed"} {
		t.Setenv("CI", ci)
		f := new(fakeTB).run(func(t redistest.TB) { redistest.Require(t, "no-such-program") })
		if f.outcome != want || !strings.Contains(f.said, "no-such-program") {
			t.Errorf("with CI=%q: %s, saying %q; want %s", ci, f.outcome, f.said, want)
		}
	}
}
