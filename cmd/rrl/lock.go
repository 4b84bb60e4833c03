package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/words"
	"github.com/redisson-go/rratelimiter/rlock"
)

// A locking is what lock is asked for.
type locking struct {
	wait, lease, grace    time.Duration
	forever               bool // wait is without end
	fenced, fair, quiet   bool
	refusedCode, lostCode int
}

// A takenLock is what lock prints.
type takenLock struct {
	Name   string `json:"name"`
	Locked bool   `json:"locked"`
	Owner  string `json:"owner,omitempty"`
	Token  int64  `json:"token,omitempty"`    // of a fenced lock
	Lease  int64  `json:"lease_ms,omitempty"` // missing if it is renewed
	Waited *int64 `json:"waited_ms,omitempty"`
}

// tokenVariable is the variable by which a command knows its token.
const tokenVariable = "RRL_TOKEN"

func (a *app) lockCommand() *cobra.Command {
	var q locking
	cmd := &cobra.Command{
		Use:   "lock NAME [-- COMMAND ARGS...]",
		Short: "Hold a lock of Redisson while a command runs",
		Long: `Hold a lock of Redisson (RLock, with --fenced RFencedLock, with --fair RFairLock) while a
command runs, and give it back when that has ended. It waits for the lock without end, unless
--wait says how long. The lock is renewed every 10 s, unless --lease says how long to hold it.
It keeps two from running at once. It does not remember that a command has run: what must run
once a night takes acquire, with a rate of 1 per 23 hours.

The exit code is that of the command; 128 + N if signal N has ended it, 127 if it was not found,
126 if it could not be run. It is 1 if others hold the lock, 2 on an error, as when Redis is
away at the start: then the command has not run. INT, TERM, HUP, QUIT, USR1 and USR2 are passed on
to it, and the lock is held until it has ended. Before it runs, the first four end the wait for the
lock, with 130; the others do nothing.

If the lock is lost while the command runs (its lease has run out, Redis was away for 30 s, or
somebody has unlocked it by force), the command gets SIGTERM, and SIGKILL after --grace. What it
has started itself gets nothing. Then the exit code is 3, whatever the command returns.

Without a command the lock is held for --lease, for whoever called rrl; unlock --force ends it.`,
		Example: `  rrl lock mail --wait 0 --refused-code 75 -- ./send-mail
  rrl lock deploy --fenced -- sh -c './deploy "$RRL_TOKEN"'
  rrl lock maintenance --lease 2h`,
		Args: acquireArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			q.forever = !cmd.Flags().Changed("wait")
			if err := q.check(len(args) > 1); err != nil {
				return err
			}
			if len(args) > 1 {
				return a.lockAndRun(cmd.Context(), args[0], &q, args[1:])
			}
			return a.withClient(cmd.Context(), func(c *rratelimiter.Client) error {
				_, err := a.lock(cmd.Context(), lockOf(c, args[0], q.kind()), &q, a.stdout)
				return err
			})
		},
	}
	const grace = 10 * time.Second
	flags := cmd.Flags()
	flags.DurationVarP(&q.wait, "wait", "w", 0,
		"wait so long for the lock; 0 is not at all (default without end)")
	flags.DurationVar(&q.lease, "lease", 0, "hold it no longer than that; 0 is as long as the command runs")
	flags.BoolVar(&q.fenced, "fenced", false,
		"take it as a fenced lock; the command has the token in "+tokenVariable)
	flags.BoolVar(&q.fair, "fair", false, "take it as a fair lock: first come, first served")
	flags.DurationVar(&q.grace, "grace", grace, "how long a command gets to end when its lock is lost")
	flags.IntVar(&q.refusedCode, "refused-code", exitNo, "the exit code if others hold the lock, 1 to 255")
	flags.IntVar(&q.lostCode, "lost-code", exitLost, "the exit code if the lock was lost, 1 to 255")
	flags.BoolVarP(&q.quiet, "quiet", "q", false, "do not print the result")
	cmd.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveDefault) // files, for COMMAND
	return cmd
}

func (q *locking) check(command bool) error {
	if err := checkCode("refused-code", q.refusedCode); err != nil {
		return err
	}
	switch {
	case q.fenced && q.fair:
		return errors.New("--fenced and --fair are two kinds of locks")
	case q.wait < 0:
		return fmt.Errorf("--wait is %v, must not be negative", q.wait)
	case q.grace < 0:
		return fmt.Errorf("--grace is %v, must not be negative", q.grace)
	case q.lease == 0 && !command:
		return errors.New("--lease is missing: without a COMMAND nobody renews the lock")
	}
	return checkCode("lost-code", q.lostCode)
}

// checkCode checks a flag that is an exit code.
func checkCode(flag string, code int) error {
	const most = 255
	if code < 1 || code > most {
		return fmt.Errorf("--%s is %d, must be between 1 and %d", flag, code, most)
	}
	return nil
}

// kind returns the kind that was asked for.
func (q *locking) kind() inspect.LockKind {
	switch {
	case q.fenced:
		return inspect.Fenced
	case q.fair:
		return inspect.Fair
	}
	return inspect.Plain
}

// A lockable is a lock of any kind.
type lockable interface {
	rlock.Locker
	ForceUnlock(ctx context.Context) (bool, error)
}

// lockOf returns the lock of a kind.
func lockOf(c *rratelimiter.Client, name string, kind inspect.LockKind) lockable {
	locks := rlock.New(c)
	switch kind {
	case inspect.Fenced:
		return locks.FencedLock(name)
	case inspect.Fair:
		return locks.FairLock(name)
	default:
		return locks.Lock(name)
	}
}

// lockAndRun holds a lock while a command runs. A command that does not exist takes none.
func (a *app) lockAndRun(ctx context.Context, name string, q *locking, command []string) error {
	return a.withChild(command, func(c *child) error { return a.lockFor(ctx, name, q, c) })
}

// lockFor holds a lock while a child runs.
func (a *app) lockFor(ctx context.Context, name string, q *locking, child *child) error {
	waiting, stop := child.waiting(ctx)
	defer stop()
	return a.withClient(waiting, func(c *rratelimiter.Client) error {
		h, err := a.lock(waiting, lockOf(c, name, q.kind()), q, a.stderr)
		if err != nil {
			return child.notRun(waiting, err)
		}
		if q.fenced {
			child.cmd.Env = append(os.Environ(), tokenVariable+"="+strconv.FormatInt(h.Token(), 10))
		}
		if err := child.start(); err != nil {
			_ = a.unlock(ctx, h)
			return err
		}
		ended := child.wait(h.Context(), q.grace)
		if lost := a.unlock(ctx, h); lost {
			return exitCode(q.lostCode)
		}
		return ended
	})
}

// lock takes a lock and prints to w what came of it.
func (a *app) lock(ctx context.Context, l rlock.Locker, q *locking, w io.Writer) (*rlock.Hold, error) {
	h, t, err := q.take(ctx, l)
	switch {
	case err != nil && ctx.Err() != nil:
		time.Sleep(settling) // what Redis may still grant is given back
		return nil, err
	case err != nil:
		return nil, err
	case h != nil && ctx.Err() != nil: // interrupted meanwhile
		_ = a.unlock(ctx, h)
		return nil, ctx.Err()
	}
	if !q.quiet {
		err = a.printTo(w, t, func(w io.Writer) { fmt.Fprintf(w, "%q: %s\n", l.Name(), t) })
	}
	if out, ok := w.(*output); ok && err == nil {
		err = out.err
	}
	switch {
	case h != nil && err != nil: // nobody was told
		_ = a.unlock(ctx, h)
		return nil, err
	case err != nil || h != nil:
		return h, err
	case q.refusedCode == exitNo:
		return nil, errNo
	}
	return nil, exitCode(q.refusedCode)
}

// take takes a lock. Without an error the hold is nil if others hold the lock.
func (q *locking) take(ctx context.Context, l rlock.Locker) (h *rlock.Hold, t *takenLock, err error) {
	start := time.Now()
	switch {
	case !q.forever:
		h, _, err = l.TryLock(ctx, q.wait, q.lease)
	case q.lease != 0:
		h, err = l.LockFor(ctx, q.lease)
	default:
		h, err = l.Lock(ctx)
	}
	t = &takenLock{Name: l.Name(), Locked: h != nil}
	if q.forever || q.wait > 0 {
		t.Waited = new(time.Since(start).Milliseconds())
	}
	if h != nil {
		t.Owner, t.Token, t.Lease = h.Owner(), h.Token(), q.lease.Milliseconds()
	}
	return h, t, err
}

// unlock gives a lock back, also when ctx has ended. It reports whether the lock was lost before.
func (a *app) unlock(ctx context.Context, h *rlock.Hold) (lost bool) {
	const longest = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longest)
	defer cancel()
	err := h.Unlock(ctx)
	if lost = errors.Is(err, rlock.ErrLost); lost {
		fmt.Fprintf(a.stderr, "rrl: %s\n", words.Harmless(err.Error()))
	} else if err != nil {
		fmt.Fprintf(a.stderr, "rrl: the lock was not given back, its lease ends it: %s\n",
			words.Harmless(err.Error()))
	}
	return lost
}

// String returns it in words.
func (t *takenLock) String() string {
	text := "refused, somebody else holds it"
	if t.Locked {
		text = "locked by " + words.Name(t.Owner)
	}
	if t.Lease > 0 {
		text += " for " + words.Span(t.Lease)
	}
	if t.Token > 0 {
		text += fmt.Sprintf(", token %d", t.Token)
	}
	if t.Waited != nil {
		text += ", waited " + words.Span(*t.Waited)
	}
	return text
}
