package versions_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// beforeHeal is the commit before the last change of the protocol: before scripts that decide, or heal.
const beforeHeal = "c6219b3df9c6"

// A Client of the last tag and one of today share a limiter in both directions: rates, permits, releases,
// reservations and charges. Until there is a tag, the older one is of the commit before the last change of
// the protocol.
func TestAClientOfTheLastVersionAndOneOfTodaySharePermits(t *testing.T) {
	redistest.Thorough(t)
	s := redistest.Start(t)
	c := rratelimiter.New(s.Client(t))
	defer func() { NoError(t, c.Close()) }()
	name, ctx := redistest.Name(t), t.Context()
	l, old := c.RateLimiter(name), startOld(t, s.Addr, name)
	same := func(left int64) {
		t.Helper()
		old.answers(t, "left", fmt.Sprint(left, " <nil>"))
		if n, err := l.AvailablePermits(ctx); n != left || err != nil {
			t.Errorf("today's Client sees %d permits, %v, want %d", n, err, left)
		}
	}
	takes := func(n int64, want bool) {
		t.Helper()
		if ok, err := l.TryAcquire(ctx, n, 0); ok != want || err != nil {
			t.Errorf("today's Client takes %d: %t, %v, want %t", n, ok, err, want)
		}
	}
	old.answers(t, "set 100", " <nil>")
	takes(30, true)
	old.answers(t, "take 50", "true <nil>")
	same(20)
	takes(21, false)
	old.answers(t, "take 21", "false <nil>")
	NoError(t, l.Release(ctx, 10))
	same(30)
	old.answers(t, "release 20", " <nil>")
	same(50)

	held, err := l.Reserve(ctx, 40, time.Second)
	NoError(t, err)
	same(10)
	old.answers(t, "take 11", "false <nil>")
	NoError(t, held.Settle(ctx, 15))
	same(35)
	old.answers(t, "take 35", "true <nil>")
	_, err = l.Charge(ctx, 7)
	NoError(t, err)
	old.answers(t, "take 1", "false <nil>")
	takes(1, false)

	NoError(t, l.SetRate(ctx, Overall, 5, time.Hour))
	same(5)
	old.answers(t, "take 5", "true <nil>")
	takes(1, false)
	old.answers(t, "set 8", " <nil>")
	same(8)
}

// A peer makes calls with another version of the library.
type peer struct {
	in  io.Writer
	out *bufio.Scanner
}

// answers makes a call and expects its answer.
func (p peer) answers(t *testing.T, call, want string) {
	t.Helper()
	_, err := fmt.Fprintln(p.in, call)
	NoError(t, err)
	if !p.out.Scan() {
		t.Fatalf("the older Client ended at %q", call)
	}
	if got := p.out.Text(); got != want {
		t.Errorf("the older Client answers %q with %q, want %q", call, got, want)
	}
}

// startOld builds the peer from the older version, and starts it.
func startOld(t *testing.T, addr, name string) peer {
	t.Helper()
	dir, commit := t.TempDir(), beforeHeal
	if tag, err := run("../../tools/last_tag.sh"); err == nil {
		commit = strings.TrimSpace(tag)
	}
	t.Log("the older version is", commit)
	tar, source := filepath.Join(dir, "old.tar"), filepath.Join(dir, "source")
	if _, err := run("git", "rev-parse", "--git-dir"); err != nil {
		t.Skip("a copy without history")
	}
	if out, err := run("git", "-C", "../..", "archive", "-o", tar, commit); err != nil {
		missing := t.Skipf
		if os.Getenv("GITHUB_ACTIONS") != "" { // ci.yml fetches the history
			missing = t.Fatalf
		}
		missing("no commit %s, which git fetch --unshallow --tags brings: %v\n%s", commit, err, out)
	}
	room := filepath.Join(source, "internal", "peer")
	NoError(t, os.MkdirAll(room, 0o700))
	must(t, "tar", "-xf", tar, "-C", source)
	main, err := os.ReadFile("testdata/peer/main.go")
	NoError(t, err)
	NoError(t, os.WriteFile(filepath.Join(room, "main.go"), main, 0o600))
	program := filepath.Join(dir, "peer")
	must(t, "go", "build", "-C", source, "-buildvcs=false", "-o", program, "./internal/peer")

	cmd := exec.Command(program, addr, name)
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	NoError(t, err)
	out, err := cmd.StdoutPipe()
	NoError(t, err)
	NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close() // it ends with its input
		NoError(t, cmd.Wait())
	})
	return peer{in, bufio.NewScanner(out)}
}

func run(program string, args ...string) (output string, err error) {
	out, err := exec.Command(program, args...).CombinedOutput()
	return string(out), err
}

func must(t *testing.T, program string, args ...string) {
	t.Helper()
	if out, err := run(program, args...); err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
}
