package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/words"
)

// An acquisition is what acquire is asked for.
type acquisition struct {
	permits     int64
	timeout     time.Duration
	wait        bool
	refusedCode int
	quiet       bool
}

// A grant is what acquire prints. The numbers are there if it did not wait.
type grant struct {
	Name       string `json:"name"`
	Granted    bool   `json:"granted"`
	Permits    int64  `json:"permits"`
	Waited     *int64 `json:"waited_ms,omitempty"`
	Limit      *int64 `json:"limit,omitempty"`
	Remaining  *int64 `json:"remaining,omitempty"`
	RetryAfter *int64 `json:"retry_after_ms,omitempty"`
	ResetAfter *int64 `json:"reset_after_ms,omitempty"`
}

func (a *app) acquireCommand() *cobra.Command {
	var q acquisition
	cmd := &cobra.Command{
		Use:   "acquire NAME [-- COMMAND ARGS...]",
		Short: "Take permits, and run a command when they are granted",
		Long: `Take permits. The exit code is 0 if they are granted, 1 if they are refused, 2 on an error.

A command runs when they are granted, and only then: it does not run if Redis is down. The
exit code is that of the command; 128 + N if signal N has ended it, 127 if it was not found,
126 if it could not be run. In these two cases no permits are taken, or they are given back.
INT, TERM, HUP, QUIT, USR1 and USR2 are passed on to it. Before it runs, the first four end the
wait for permits, with 130; the others do nothing. What rrl says goes to stderr then.`,
		Example: `  rrl acquire api || echo "too many"
  rrl acquire nightly --timeout 5m -- ./report --all
  rrl acquire api --refused-code 75 -- curl https://api.example.com`,
		Args: acquireArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := q.check(); err != nil {
				return err
			}
			if len(args) == 1 {
				return a.withClient(cmd.Context(), func(c *rratelimiter.Client) error {
					return a.acquire(cmd.Context(), c.RateLimiter(args[0]), &q, a.stdout)
				})
			}
			return a.acquireAndRun(cmd.Context(), args[0], &q, args[1:])
		},
	}
	flags := cmd.Flags()
	flags.Int64VarP(&q.permits, "permits", "n", 1, "how many permits")
	flags.DurationVarP(&q.timeout, "timeout", "t", 0, "wait for them so long; 0 is not at all")
	flags.BoolVar(&q.wait, "wait", false, "wait for them without end")
	flags.IntVar(&q.refusedCode, "refused-code", exitNo,
		"the exit code if they are refused, 1 to 255: to tell it from that of the command")
	flags.BoolVarP(&q.quiet, "quiet", "q", false, "do not print the result")
	cmd.MarkFlagsMutuallyExclusive("timeout", "wait")
	cmd.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveDefault) // files, for COMMAND
	return cmd
}

// acquireArgs checks NAME [-- COMMAND ARGS...].
func acquireArgs(cmd *cobra.Command, args []string) error {
	switch dash := cmd.ArgsLenAtDash(); {
	case dash < 0 && len(args) > 1:
		return fmt.Errorf("unexpected argument %q: a command needs -- before it", args[1])
	case dash >= 0 && dash != 1:
		return fmt.Errorf("%d arguments before --, must be NAME", dash)
	case dash >= 0 && (len(args) == 1 || args[1] == ""):
		return errors.New("COMMAND is empty, must be given after --")
	}
	return named(1, 1, len(args))(cmd, args)
}

func (q *acquisition) check() error {
	if q.timeout < 0 {
		return fmt.Errorf("--timeout is %v, must not be negative", q.timeout)
	}
	return checkCode("refused-code", q.refusedCode)
}

// acquireAndRun takes permits, and runs a command if they are granted. A command that does not exist
// takes none.
func (a *app) acquireAndRun(ctx context.Context, name string, q *acquisition, command []string) error {
	return a.withChild(command, func(c *child) error { return a.acquireFor(ctx, name, q, c) })
}

// acquireFor takes permits and runs a child if they are granted.
func (a *app) acquireFor(ctx context.Context, name string, q *acquisition, child *child) error {
	waiting, stop := child.waiting(ctx)
	defer stop()
	err := a.withClient(waiting, func(c *rratelimiter.Client) error {
		l := c.RateLimiter(name)
		if err := a.acquire(waiting, l, q, a.stderr); err != nil {
			return child.notRun(waiting, err)
		}
		err := child.start()
		if err != nil {
			a.giveBack(ctx, l, q.permits)
		}
		return err
	})
	if err != nil {
		return err
	}
	return child.wait(context.Background(), 0)
}

// giveBack gives back the permits of a command that has not started, also when ctx has ended.
func (a *app) giveBack(ctx context.Context, l *rratelimiter.RateLimiter, permits int64) {
	const longest = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longest)
	defer cancel()
	if err := l.Release(ctx, permits); err != nil {
		fmt.Fprintf(a.stderr, "rrl: the permits were not given back: %v\n", err)
		return
	}
	fmt.Fprintf(a.stderr, "rrl: the permits were given back: %d\n", permits)
}

// acquire takes permits and prints to w what came of it.
func (a *app) acquire(ctx context.Context, l *rratelimiter.RateLimiter, q *acquisition, w io.Writer) error {
	a.noteOwn(ctx, l)
	g, err := q.take(ctx, l)
	switch {
	case err != nil:
		return err
	case g.Granted && ctx.Err() != nil: // interrupted meanwhile
		a.giveBack(ctx, l, q.permits)
		return ctx.Err()
	}
	if !q.quiet {
		err = a.printTo(w, g, func(w io.Writer) { fmt.Fprintf(w, "%q: %s\n", l.Name(), g) })
	}
	if out, ok := w.(*output); ok && err == nil {
		err = out.err
	}
	switch {
	case g.Granted && err != nil: // nobody was told
		a.giveBack(ctx, l, q.permits)
		return err
	case err != nil || g.Granted:
		return err
	case q.refusedCode == exitNo:
		return errNo
	}
	return exitCode(q.refusedCode)
}

const (
	// attempting is how long one attempt may go on after a Ctrl-C: its result is waited for, because
	// it may have taken permits.
	attempting = 2 * time.Second

	// settling is how long the library gets to take back what a call has taken that was left. It
	// does so in the background, several times a second.
	settling = time.Second
)

// take takes permits: in one attempt, whose numbers it returns, or by waiting for them. Of a call that is
// interrupted nothing stays taken, as long as Redis is well.
func (q *acquisition) take(ctx context.Context, l *rratelimiter.RateLimiter) (*grant, error) {
	g := &grant{Name: l.Name(), Permits: q.permits}
	if q.timeout == 0 && !q.wait {
		one, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		stop := context.AfterFunc(ctx, func() { time.AfterFunc(attempting, cancel) })
		defer stop()
		r, err := l.Allow(one, q.permits)
		g.Granted, g.Limit, g.Remaining = r.Allowed, &r.Limit, &r.Remaining
		g.RetryAfter, g.ResetAfter = new(upMillis(r.RetryAfter)), new(upMillis(r.ResetAfter))
		return g, err
	}
	start := time.Now()
	var err error
	if q.wait {
		err = l.Acquire(ctx, q.permits)
		g.Granted = err == nil
	} else {
		g.Granted, err = l.TryAcquire(ctx, q.permits, q.timeout)
	}
	g.Waited = new(time.Since(start).Milliseconds())
	if err != nil && ctx.Err() != nil {
		time.Sleep(settling)
	}
	return g, err
}

// String returns the grant in words.
func (g *grant) String() string {
	text := "granted"
	if !g.Granted {
		text = "refused"
	}
	text = fmt.Sprintf("%s, permits %d", text, g.Permits)
	switch {
	case g.Waited != nil:
		return text + ", waited " + words.Span(*g.Waited)
	case !g.Granted:
		return fmt.Sprintf("%s, remaining %d of %d, retry after %s",
			text, *g.Remaining, *g.Limit, words.Span(*g.RetryAfter))
	}
	return fmt.Sprintf("%s, remaining %d of %d", text, *g.Remaining, *g.Limit)
}

func (a *app) releaseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "release NAME PERMITS",
		Short: "Give permits back",
		Long: `Give permits back that were taken and not used, so that others can take them at once. What
is more than was taken, or has come back by itself, is ignored. Of a PER_CLIENT limiter it
needs the --id of the client that has taken them.

rrl has taken none of them itself: they come out of the oldest grants, whoever has them. In
the program that took them, permits released late may return earlier than they should, by at
most the time between take and release.`,
		Args: named(1, 2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			permits, err := integer("PERMITS", args[1])
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(c *rratelimiter.Client) error {
				return a.release(cmd.Context(), c.RateLimiter(args[0]), permits)
			})
		},
	}
}

// A given is what release prints. How many of the permits were still outstanding is not known.
type given struct {
	Name      string `json:"name"`
	Permits   int64  `json:"permits"` // asked to give back
	Limit     int64  `json:"limit"`
	Remaining int64  `json:"remaining"`
}

func (a *app) release(ctx context.Context, l *rratelimiter.RateLimiter, permits int64) error {
	config, err := l.Config(ctx)
	switch {
	case err != nil:
		return err
	case config.Type == rratelimiter.PerClient && a.id == "":
		return fmt.Errorf("%q is PER_CLIENT, and rrl has taken none of its permits: "+
			"--id says whose to give back", l.Name())
	}
	if err := l.Release(ctx, permits); err != nil {
		return err
	}
	r, err := l.Peek(ctx)
	if err != nil {
		return err
	}
	g := given{l.Name(), permits, r.Limit, r.Remaining}
	return a.print(g, func(w io.Writer) {
		fmt.Fprintf(w, "%q: given back, up to %s, which others may have taken; remaining %d of %d\n", g.Name,
			words.Count(g.Permits, "permit"), g.Remaining, g.Limit)
	})
}
