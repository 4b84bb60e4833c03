package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/words"
	"github.com/redisson-go/rratelimiter/rlock"
)

// A locking is the claim of rrl lock.
type locking struct {
	claim
	wait, lease  time.Duration
	forever      bool // wait has no end
	fenced, fair bool
}

// A lockResult is the output of lock.
type lockResult struct {
	Name   string `json:"name"`
	Locked bool   `json:"locked"`
	Owner  string `json:"owner,omitempty"`
	Token  int64  `json:"token,omitempty"`    // of a fenced lock
	Lease  int64  `json:"lease_ms,omitempty"` // missing if it is renewed
	Waited *int64 `json:"waited_ms,omitempty"`
}

// tokenVariable is the environment variable that holds the token for a command.
const tokenVariable = "RRL_TOKEN"

func (a *app) lockCommand() *cobra.Command {
	var q locking
	cmd := &cobra.Command{
		Use:   "lock NAME [-- COMMAND ARGS...]",
		Short: "Hold a lock of Redisson while a command runs",
		Long: `Hold a lock of Redisson (RLock, with --fenced RFencedLock, with --fair RFairLock) while a
command runs, and give it back afterwards. The wait for the lock has no end, unless --wait sets
one. The lock is renewed every 10 s, unless --lease says how long to hold it. It keeps two
commands from running at once. It does not remember that a command has run: a job that must run
once a night takes acquire, with a rate of 1 per 23 hours.

The exit codes, and what happens on a signal, are those of rrl acquire: 1 if another owner holds the
lock. The lock is held until the command ends.

If the lock is lost while the command runs (its lease expired, Redis was away for 30 s, or it was
unlocked by force), the command gets SIGTERM, and SIGKILL after --grace. Processes that the command
started get nothing. Then the exit code is 3, whatever the command returns.

Without a command the lock is held for --lease after rrl has ended; unlock --force ends it.`,
		Example: `  rrl lock mail --wait 0 --refused-code 75 -- ./send-mail
  rrl lock deploy --fenced -- sh -c './deploy "$RRL_TOKEN"'
  rrl lock maintenance --lease 2h`,
		Args: claimArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			q.forever = !cmd.Flags().Changed("wait")
			if _, err := q.parse(cmd, args); err != nil {
				return err
			}
			if err := q.check(); err != nil {
				return err
			}
			q.take = q.lock(a)
			return a.claim(cmd.Context(), &q.claim)
		},
	}
	const grace = 10 * time.Second
	flags := cmd.Flags()
	flags.DurationVarP(&q.wait, "wait", "w", 0,
		"wait this long for the lock; 0 does not wait (default without end)")
	flags.DurationVar(&q.lease, "lease", 0, "hold it at most this long; 0 is as long as the command runs")
	flags.BoolVar(&q.fenced, "fenced", false,
		"take it as a fenced lock; the command has the token in "+tokenVariable)
	flags.BoolVar(&q.fair, "fair", false, "take it as a fair lock: first come, first served")
	flags.DurationVar(&q.grace, "grace", grace, "how long a command gets to end when its lock is lost")
	q.flags(cmd, "if another owner holds the lock")
	flags.IntVar(&q.lostCode, "lost-code", exitLost, "the exit code if the lock was lost, 1 to 255")
	return cmd
}

func (q *locking) check() error {
	switch {
	case q.fenced && q.fair:
		return errors.New("--fenced and --fair are two kinds of locks: give one of them")
	case q.wait < 0:
		return fmt.Errorf("--wait is %v, must not be negative", q.wait)
	case q.grace < 0:
		return fmt.Errorf("--grace is %v, must not be negative", q.grace)
	case q.lease == 0 && len(q.command) == 0:
		return errors.New("--lease is missing: without a COMMAND the lock is not renewed")
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

// A lockable is a lock of any kind.
type lockable interface {
	rlock.Locker
	ForceUnlock(ctx context.Context) (bool, error)
}

// lockOf returns the lock of a kind.
func lockOf(c *rratelimiter.Client, name string, fenced, fair bool) lockable {
	locks := rlock.New(c)
	switch {
	case fenced:
		return locks.FencedLock(name)
	case fair:
		return locks.FairLock(name)
	}
	return locks.Lock(name)
}

// lock returns the function that takes the lock. A refusal is not an error.
func (q *locking) lock(a *app) func(ctx context.Context, c *rratelimiter.Client) (*taken, error) {
	return func(ctx context.Context, c *rratelimiter.Client) (*taken, error) {
		l, start := lockOf(c, q.name, q.fenced, q.fair), time.Now()
		var h *rlock.Hold
		var err error
		switch {
		case !q.forever:
			h, _, err = l.TryLock(ctx, q.wait, q.lease)
		case q.lease != 0:
			h, err = l.LockFor(ctx, q.lease)
		default:
			h, err = l.Lock(ctx)
		}
		r := &lockResult{Name: l.Name(), Locked: h != nil}
		if q.forever || q.wait > 0 {
			r.Waited = new(time.Since(start).Milliseconds())
		}
		t := &taken{ok: h != nil, result: r}
		if h != nil {
			r.Owner, r.Token, r.Lease = h.Owner(), h.Token(), q.lease.Milliseconds()
			t.giveBack = func(ctx context.Context) { a.unlock(ctx, h) }
			t.lost = h.Context().Done()
			t.finish = func(ctx context.Context, ended error) error {
				if lost := a.unlock(ctx, h); lost {
					return exitCode(q.lostCode)
				}
				return ended
			}
		}
		if q.fenced && h != nil {
			t.env = fmt.Sprintf("%s=%d", tokenVariable, h.Token())
		}
		return t, err
	}
}

// unlock unlocks h, even if ctx has ended. It reports whether the lock was lost before that.
func (a *app) unlock(ctx context.Context, h *rlock.Hold) (lost bool) {
	ctx, cancel := lastly(ctx)
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

// String returns the result in words.
func (r *lockResult) String() string {
	text := "refused, another owner holds it"
	if r.Locked {
		text = "locked by " + words.Name(r.Owner)
	}
	if r.Lease > 0 {
		text += " for " + words.Span(r.Lease)
	}
	if r.Token > 0 {
		text += fmt.Sprintf(", token %d", r.Token)
	}
	if r.Waited != nil {
		text += ", waited " + words.Span(*r.Waited)
	}
	return text
}

func (a *app) unlockCommand() *cobra.Command {
	var force, yes bool
	cmd := &cobra.Command{
		Use:   "unlock NAME --force",
		Short: "Unlock a lock, whoever holds it",
		Long: `Unlock a lock, whoever holds it. It asks first. The exit code is 1 if the lock is free.

The holder continues until its next renewal, after up to 10 s, or until it unlocks. So
unlock only a lock whose holder is gone. Work that must not be done twice needs the token of a
fenced lock.`,
		Args: named(1, 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !force {
				return errors.New("--force is missing: without it only the holder unlocks a lock")
			}
			return a.withRedis(cmd.Context(), func(rdb redis.UniversalClient) error {
				return a.forceUnlock(cmd.Context(), rdb, args[0], yes)
			})
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "unlock it, whoever holds it")
	yesFlag(cmd, &yes)
	return cmd
}

// An unlocked is the output of unlock.
type unlocked struct {
	Name     string          `json:"name"`
	Unlocked bool            `json:"unlocked"`
	Owners   []inspect.Owner `json:"owners"` // the holders when rrl looked
}

func (a *app) forceUnlock(ctx context.Context, rdb redis.UniversalClient, name string, yes bool) error {
	l, err := inspect.ReadLock(ctx, rdb, a.mapped(name), inspect.Few)
	switch {
	case err != nil:
		return err
	case len(l.Owners) == 0 && l.Keys[0].There(): // the key of a limiter, or of another program
		return fmt.Errorf("%q is no lock, but a %s of something else", name, l.Keys[0].Kind)
	}
	done, text := unlocked{Name: name, Owners: l.Owners}, "the lock is free"
	if len(l.Owners) > 0 {
		err := a.confirm(ctx, yes, "%q: %s.\nIt is unlocked, whether its holder still works or not.", name,
			state(l))
		if err != nil {
			return err
		}
		c := a.client(rdb)
		defer c.Close()
		lock := lockOf(c, name, l.Kind == inspect.Fenced, l.Kind == inspect.Fair)
		if done.Unlocked, err = lock.ForceUnlock(ctx); err != nil {
			return err
		}
	}
	if done.Unlocked {
		text = "unlocked"
	}
	err = a.print(done, func(w io.Writer) { fmt.Fprintf(w, "%q: %s\n", name, text) })
	return no(err, done.Unlocked)
}

// state describes the holders of a lock.
func state(l *inspect.Lock) string {
	if len(l.Owners) == 0 {
		return "free"
	}
	var by []string
	for _, o := range l.Owners {
		text := words.Name(o.Name)
		if o.Count != 1 {
			text += fmt.Sprintf(" %d times", o.Count)
		}
		by = append(by, text)
	}
	text := "held by " + strings.Join(by, " and ")
	if ttl := l.TTL(); ttl >= 0 {
		return text + ", for " + words.Span(ttl) + " unless it is renewed"
	}
	return text + ", without end"
}
