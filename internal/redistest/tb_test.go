package redistest_test

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
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

func TestName(t *testing.T) {
	a, b := redistest.Name(t), redistest.Name(t)
	if a == b {
		t.Errorf("both names are %q", a)
	}
	if len(a) > 20 || strings.ContainsAny(a, "{}:* ") {
		t.Errorf("name %q", a)
	}
}

func TestMust(t *testing.T) {
	if n := redistest.Must(strconv.Atoi("7"))(t); n != 7 {
		t.Errorf("%d, want 7", n)
	}
	f := new(fakeTB).run(func(t redistest.TB) { redistest.Must(strconv.Atoi("x"))(t) })
	if f.outcome != "failed" || !strings.Contains(f.said, `parsing "x"`) {
		t.Errorf("%s, saying %q", f.outcome, f.said)
	}
}
