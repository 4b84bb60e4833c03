//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A process is rrl without a terminal, so that it is the same for people as in CI.
type process struct {
	*exec.Cmd
	t              *testing.T
	stdout, stderr bytes.Buffer
}

// detached returns a process for a claim with a shell script.
func detached(t *testing.T, server *redistest.Server, claim, script string) *process {
	t.Helper()
	return detachedArgs(t, server, append(strings.Fields(claim), "--", "sh", "-c", script)...)
}

func detachedArgs(t *testing.T, server *redistest.Server, args ...string) *process {
	t.Helper()
	const patience = time.Minute // far longer than anything here takes: it ends tests that fail anyway
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	p := &process{t: t, Cmd: program(ctx, append([]string{"--redis", server.Addr}, args...)...)}
	t.Cleanup(func() {
		cancel()
		_ = p.Wait() // the test may have called Wait
	})
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p.Cancel = func() error { return syscall.Kill(-p.Process.Pid, syscall.SIGKILL) } // with its command
	return p
}

// started starts a process whose command prints "ready", and returns its stdin and the rest of its stdout.
func (p *process) started() (stdin io.Writer, stdout *bufio.Reader) {
	p.t.Helper()
	stdin, stdout = p.starts()
	p.isReady(stdout)
	return stdin, stdout
}

func (p *process) starts() (stdin io.Writer, stdout *bufio.Reader) {
	p.t.Helper()
	p.Stdout = nil
	stdout = bufio.NewReader(redistest.Must(p.StdoutPipe())(p.t))
	if p.Stdin == nil {
		stdin = redistest.Must(p.StdinPipe())(p.t)
	}
	redistest.NoError(p.t, p.Start())
	return stdin, stdout
}

// isReady waits until the command has printed "ready".
func (p *process) isReady(stdout *bufio.Reader) {
	p.t.Helper()
	if line, err := stdout.ReadString('\n'); line != "ready\n" {
		p.t.Fatalf("%q, %v, %s", line, err, &p.stderr)
	}
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	redistest.NoError(p.t, p.Process.Signal(s))
}

// ends checks the end of a process: its exit code, an empty stdout, and a part of its stderr.
func (p *process) ends(code int, stderr string) {
	p.t.Helper()
	err := p.Wait()
	failed, ok := errors.AsType[*exec.ExitError](err)
	got := 0
	if ok {
		got = failed.ExitCode()
	}
	if err != nil && !ok || got != code || p.stdout.Len() > 0 ||
		!strings.Contains(p.stderr.String(), stderr) {
		p.t.Errorf("%q: code %d, want %d, %v; printed\n%s\n%s\nwant nothing and %q", p.Args[3:], got, code,
			err, &p.stdout, &p.stderr, stderr)
	}
}

var allSignals = []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT,
	syscall.SIGUSR1, syscall.SIGUSR2}

// Signals reach the command, whose exit code is that of rrl. A lock is held until the command has ended.
func TestSignalsReachTheCommand(t *testing.T) {
	t.Parallel()
	const script = `for s in TERM INT HUP QUIT USR1 USR2; do trap "echo $s; read line; exit 5" $s; done
		echo ready; while :; do sleep 0.05; done`
	server := fives(t)
	for i, name := range strings.Fields("TERM INT HUP QUIT USR1 USR2") {
		for _, claim := range claims {
			p := detached(t, server, claim, script)
			stdin, lines := p.started()
			p.signal(allSignals[i])
			if line, err := lines.ReadString('\n'); line != name+"\n" {
				t.Fatalf("%s: %q, %v, %s", name, line, err, &p.stderr)
			}
			if !isTaken(t, server, claim) {
				t.Errorf("%s: nothing is held while the command runs", claim)
			}
			redistest.Must(io.WriteString(stdin, "end\n"))(t)
			p.ends(5, "")
			free(t, server, "x")
			steps(t, server.Addr, step{"set api 5 1h --yes", 0, "set", ""})
		}
	}
}

// A signal that would end rrl ends the wait for permits or a lock: the command does not run, and nothing is
// taken.
func TestSignalsThatEndTheWait(t *testing.T) {
	t.Parallel()
	for _, s := range allSignals[:4] {
		for _, claim := range claims {
			t.Run(s.String()+"/"+claim, func(t *testing.T) {
				t.Parallel()
				server := fives(t)
				h := held(t, server, "x")
				steps(t, server.Addr, step{"acquire api -n 4", 0, "granted", ""})
				endless := strings.NewReplacer("-n 2", "-n 2 --wait", "api 2", "api 2 --wait 1h")
				p := detached(t, server, endless.Replace(claim), "echo ran")
				redistest.NoError(t, p.Start())
				untilWaiting(t, server)
				p.signal(s)
				p.ends(exitInterrupted, "interrupted: the command was not run")
				steps(t, server.Addr, step{"acquire api", 0, "remaining 0 of 5", ""})
				redistest.NoError(t, h.Unlock(t.Context()))
				free(t, server, "x")
			})
		}
	}
}

// Of the signals that arrive with the grant, one that ends the wait keeps the command from running, and the
// permits are given back. SIGUSR1 and SIGUSR2 are dropped, because they would end the command.
func TestSignalsBeforeTheCommandRuns(t *testing.T) {
	t.Parallel()
	server := fives(t)
	for _, s := range allSignals {
		var stdout, stderr strings.Builder
		a := &app{stdin: strings.NewReader(""), stdout: &output{w: &stdout}, stderr: &stderr}
		a.place.address = server.Addr
		c := redistest.Must(a.newChild([]string{"sh", "-c", "echo ran"}))(t)
		q := &acquisition{permits: 2, claim: claim{name: "api", quiet: true}}
		q.take = func(ctx context.Context, c *rratelimiter.Client) (*taken, error) {
			return a.takePermits(ctx, c.RateLimiter("api"), q)
		}
		c.signals <- s
		err := a.claimFor(t.Context(), &q.claim, c)
		c.close()
		if s == syscall.SIGUSR1 || s == syscall.SIGUSR2 {
			if err != nil || stdout.String() != "ran\n" {
				t.Errorf("%v: %v, printed\n%s\n%s", s, err, &stdout, &stderr)
			}
			steps(t, server.Addr, step{"set api 5 1h --yes", 0, "set", ""})
			continue
		}
		if !errors.Is(err, exitCode(exitInterrupted)) || stdout.Len() > 0 || isTaken(t, server, "acquire") ||
			!strings.Contains(stderr.String(), s.String()+": the command was not run") {
			t.Errorf("%v: %v, printed\n%s\n%s", s, err, &stdout, &stderr)
		}
	}
}

// Under nohup SIGHUP ends neither the wait nor the command.
func TestHangupUnderNohup(t *testing.T) {
	t.Parallel()
	server := fives(t)
	steps(t, server.Addr, step{"acquire api -n 4", 0, "granted", ""})
	p := detached(t, server, "acquire api -n 2 --wait", `echo ready; read line; echo "$line"`)
	p.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`, p.Path}, p.Args[1:]...)
	p.Path = "/bin/sh"
	hangUp := func() { redistest.NoError(t, syscall.Kill(-p.Process.Pid, syscall.SIGHUP)) }
	stdin, lines := p.starts()
	untilWaiting(t, server)
	hangUp()
	steps(t, server.Addr, step{"release api 4", 0, "given back", ""})
	p.isReady(lines)
	hangUp()
	redistest.Must(io.WriteString(stdin, "goes on\n"))(t)
	if line, err := lines.ReadString('\n'); line != "goes on\n" {
		t.Errorf("%q, %v", line, err)
	}
	p.ends(0, "")
}

// A command whose lock is lost gets SIGTERM, and SIGKILL after the grace; the exit code says so, whatever the
// command returns.
func TestLostLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const loop = "echo ready; while :; do sleep 0.02; done"
	for i, c := range []struct {
		flags, script, stdout string
		code                  int
	}{
		{"", "trap 'echo TERM; exit 0' TERM; " + loop, "TERM\n", 3},
		{"--lost-code 75", "trap 'echo TERM; exit 5' TERM; " + loop, "TERM\n", 75},
		{"--grace 100ms", "trap '' TERM; " + loop, "", 3},
	} {
		// Each has a name of its own, because the lease of another case may still run in Redis.
		p := detached(t, server, fmt.Sprintf("lock x%d --lease 300ms %s", i, c.flags), c.script)
		_, lines := p.started()
		rest, _ := io.ReadAll(lines)
		p.ends(c.code, "the lock is lost")
		if string(rest) != c.stdout || !strings.Contains(p.stderr.String(), "its lease has expired") {
			t.Errorf("%q: printed\n%s\n%s", c.flags, rest, &p.stderr)
		}
	}
}

// A lock that was unlocked by force while the command ran was lost, also if the command ends before its
// holder notices.
func TestForcedWhileACommandRuns(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := detached(t, server, "lock x", "echo ready; read line")
	stdin, _ := p.started()
	steps(t, server.Addr, step{"unlock x --force --yes", 0, "unlocked", ""})
	redistest.Must(io.WriteString(stdin, "go on\n"))(t)
	p.ends(exitLost, "it was lost")
}

// outstandingOf returns the permits of api that are outstanding.
func outstandingOf(t *testing.T, s *redistest.Server) int64 {
	t.Helper()
	l := redistest.Must(inspect.Read(t.Context(), s.Client(t), "api", inspect.Few))(t)
	if !l.Holds() {
		t.Errorf("findings: %v", l.Findings)
	}
	return outstanding(l)
}

// If Redis is away when the command ends, rrl tells how to settle later. The file for its number is removed.
func TestReserveWhileRedisGoesAway(t *testing.T) {
	t.Parallel()
	server := fives(t)
	proxy := redistest.StartProxy(t, server.Addr)
	dir := t.TempDir()
	p := detached(t, &redistest.Server{Addr: proxy.Addr}, "reserve api 3 -q",
		`echo ready; read line; echo 1 > "$RRL_USED"; exit 7`)
	p.Env = append(p.Env, "TMPDIR="+dir)
	stdin, _ := p.started()
	proxy.Down()
	proxy.Cut()
	redistest.Must(io.WriteString(stdin, "go on\n"))(t)
	p.ends(7, "rrl: not settled: ")
	if left := redistest.Must(os.ReadDir(dir))(t); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
	if n := outstandingOf(t, server); n != 3 {
		t.Errorf("%d permits are outstanding, want 3", n)
	}
	id := reservation.FindString(p.stderr.String())
	steps(t, server.Addr, step{"settle " + id + " 1", 0, "settled, permits 1", ""})
	if n := outstandingOf(t, server); n != 1 {
		t.Errorf("%d permits are outstanding, want 1", n)
	}
}
