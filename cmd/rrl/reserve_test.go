//go:build unix

package main

import (
	"io"
	"os"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// outstandingOf returns the permits of api that are outstanding.
func outstandingOf(t *testing.T, s *redistest.Server) int64 {
	t.Helper()
	l := redistest.Must(inspect.Read(t.Context(), s.Client(t), "api", inspect.Few))(t)
	if !l.Holds() {
		t.Errorf("findings: %v", l.Findings)
	}
	return outstanding(l)
}

// A reservation is settled by the number that the command writes to the file of RRL_USED. Without a usable
// number the whole reservation counts. The exit code is that of the command, and the file is removed.
func TestReserveSettlesWhatACommandUsed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		script string
		code   int
		used   int64
		stderr string
	}{
		{"true", 0, 3, "settled, permits 3, reserved 3, nothing reported"},
		{"exit 7", 7, 3, "settled, permits 3, reserved 3, nothing reported"},
		{`echo 1 > "$RRL_USED"`, 0, 1, "settled, permits 1, reserved 3"},
		{`echo 0 > "$RRL_USED"; kill -TERM $$`, 128 + 15, 0, "settled, permits 0, reserved 3"},
		{`echo " 3" > "$RRL_USED"; exit 7`, 7, 3, "settled, permits 3, reserved 3"},
		{
			`printf 9 > "$RRL_USED.new"; mv "$RRL_USED.new" "$RRL_USED"`, 0, 9,
			"settled, permits 9, reserved 3",
		},
		{`rm "$RRL_USED"`, 0, 3, "settled, permits 3, reserved 3, nothing reported"},
		{`rm "$RRL_USED"; mkfifo "$RRL_USED"`, 0, 3, "must be a regular file; what was reserved counts"},
		{`printf %045d 2 > "$RRL_USED"`, 0, 2, "settled, permits 2, reserved 3"},
		{`rm "$RRL_USED"; mkdir "$RRL_USED"`, 0, 3, "is a directory; what was reserved counts"},
		{`echo 2.5 > "$RRL_USED"`, 0, 3, `the file of RRL_USED has "2.5", must be an integer of at least 0`},
		{`echo -1 > "$RRL_USED"`, 0, 3, `the file of RRL_USED has "-1", must be an integer of at least 0`},
		{`echo 1099511627777 > "$RRL_USED"`, 0, 3, "permits is 1099511627777, must be between 0 and"},
		{`yes | head -c 1000000 > "$RRL_USED"`, 0, 3, "must be an integer of at least 0"},
	} {
		t.Run(c.script, func(t *testing.T) {
			t.Parallel()
			server, dir := fives(t), t.TempDir()
			p := detached(t, server, "reserve api 3", c.script)
			p.Env = append(p.Env, "TMPDIR="+dir)
			p.runs(c.code, "", c.stderr)
			if used := outstandingOf(t, server); used != c.used {
				t.Errorf("%d permits are outstanding, want %d; printed\n%s", used, c.used, &p.stderr)
			}
			if left := redistest.Must(os.ReadDir(dir))(t); len(left) > 0 {
				t.Errorf("files are left: %v", left)
			}
		})
	}
}

// If Redis is away when the command ends, rrl tells how to settle later.
func TestReserveWhileRedisGoesAway(t *testing.T) {
	t.Parallel()
	server := fives(t)
	proxy := redistest.StartProxy(t, server.Addr)
	p := detached(t, &redistest.Server{Addr: proxy.Addr}, "reserve api 3 -q",
		`echo ready; read line; echo 1 > "$RRL_USED"; exit 7`)
	stdin, _ := p.started()
	proxy.Down()
	proxy.Cut()
	redistest.Must(io.WriteString(stdin, "go on\n"))(t)
	p.ends(7, "", "rrl: not settled: ")
	if n := outstandingOf(t, server); n != 3 {
		t.Errorf("%d permits are outstanding, want 3", n)
	}
	id := reservation.FindString(p.stderr.String())
	steps(t, server.Addr, step{"settle " + id + " 1", 0, "settled, permits 1", ""})
	if n := outstandingOf(t, server); n != 1 {
		t.Errorf("%d permits are outstanding, want 1", n)
	}
}

// Without a rate no command runs.
func TestWithoutARateNoCommandRuns(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, claim := range []string{"acquire gone", "reserve gone 1"} {
		detached(t, server, claim, "echo ran").runs(exitError, "", `rrl: no rate is set for "gone"; rrl list`)
	}
}
