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

// An acquisition is a claim for permits.
type acquisition struct {
	claim
	permits int64
	timeout time.Duration
	wait    bool
}

// A grant is the output of acquire. It has the numbers of the limiter if it did not wait.
type grant struct {
	Name    string `json:"name"`
	Granted bool   `json:"granted"`
	Permits int64  `json:"permits"`
	Waited  *int64 `json:"waited_ms,omitempty"`
	*numbers
}

// numbers are those of a limiter after a call that did not wait.
type numbers struct {
	Limit      int64 `json:"limit"`
	Remaining  int64 `json:"remaining"`
	Debt       int64 `json:"debt,omitempty"`
	RetryAfter int64 `json:"retry_after_ms"`
	ResetAfter int64 `json:"reset_after_ms"`
}

func numbersOf(r rratelimiter.Result) *numbers {
	return &numbers{
		Limit: r.Limit, Remaining: r.Remaining, Debt: r.Debt,
		RetryAfter: upMillis(r.RetryAfter), ResetAfter: upMillis(r.ResetAfter),
	}
}

func (a *app) acquireCommand() *cobra.Command {
	var q acquisition
	cmd := &cobra.Command{
		Use:   "acquire NAME [-- COMMAND ARGS...]",
		Short: "Take permits, and run a command when they are granted",
		Long: `Take permits. The exit code is 0 if they are granted, 1 if they are refused, 2 on an error.

A command runs only after its permits were granted: not if Redis is down. The exit code is that of
the command; 128 + N if signal N ended it, 127 if it was not found, 126 if it could not be run.
In these two cases no permits are taken, or they are given back. INT, TERM, HUP, QUIT, USR1 and
USR2 are passed on to it. Before it runs, the first four end the wait for permits, with 130; the
other two do nothing. With a command, rrl itself prints to stderr.`,
		Example: `  rrl acquire api || echo "too many"
  rrl acquire nightly --timeout 5m -- ./report
  rrl acquire api --refused-code 75 -- curl https://api.example.com`,
		Args: claimArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case q.timeout < 0:
				return fmt.Errorf("--timeout is %v, must not be negative", q.timeout)
			case q.wait && q.timeout > 0:
				return errors.New("--wait has no end, so --timeout must not be given with it")
			}
			if _, err := q.parse(cmd, args); err != nil {
				return err
			}
			q.take = func(ctx context.Context, c *rratelimiter.Client) (*taken, error) {
				return a.takePermits(ctx, c.RateLimiter(q.name), &q)
			}
			return a.claim(cmd.Context(), &q.claim)
		},
	}
	flags := cmd.Flags()
	flags.Int64VarP(&q.permits, "permits", "n", 1, "how many permits")
	flags.DurationVarP(&q.timeout, "timeout", "t", 0, "wait for them this long; 0 does not wait")
	flags.BoolVar(&q.wait, "wait", false, "wait for them without end")
	q.flags(cmd, "if they are refused, different from those of the command")
	return cmd
}

// takePermits takes permits: in one attempt, whose numbers it returns, or by waiting for them. An interrupted
// call leaves no permits taken, as long as Redis is well.
func (a *app) takePermits(ctx context.Context, l *rratelimiter.RateLimiter, q *acquisition) (*taken, error) {
	a.noteOwn(ctx, l)
	g := &grant{Name: l.Name(), Permits: q.permits}
	start := time.Now()
	var err error
	switch {
	case q.wait:
		err = l.Acquire(ctx, q.permits)
		g.Granted = err == nil
	case q.timeout > 0:
		g.Granted, err = l.TryAcquire(ctx, q.permits, q.timeout)
	default:
		one, end := attempt(ctx)
		defer end()
		var r rratelimiter.Result
		r, err = l.Allow(one, q.permits)
		g.Granted, g.numbers = r.Allowed, numbersOf(r)
	}
	if g.numbers == nil {
		g.Waited = new(time.Since(start).Milliseconds())
	}
	return &taken{ok: g.Granted, result: g, giveBack: func(ctx context.Context) {
		a.giveBack(ctx, q.permits, func(ctx context.Context) error { return l.Release(ctx, q.permits) })
	}}, err
}

// String returns the grant in words.
func (g *grant) String() string {
	return outcome("granted", g.Granted, g.Permits, g.Waited, g.numbers)
}

// outcome returns what became of a claim for permits, in words: how long it waited, or its numbers.
func outcome(done string, ok bool, permits int64, waited *int64, n *numbers) string {
	if !ok {
		done = "refused"
	}
	text := fmt.Sprintf("%s, permits %d", done, permits)
	if waited != nil {
		return text + ", waited " + words.Span(*waited)
	}
	text += ", " + remaining(n.Remaining, n.Limit, n.Debt)
	if !ok {
		text += ", retry after " + words.Span(n.RetryAfter)
	}
	return text
}

// remaining returns what remains of a limit, or the debt, in words.
func remaining(permits, limit, debt int64) string {
	text := fmt.Sprintf("remaining %d of %d", permits, limit)
	if debt > 0 {
		text += fmt.Sprintf(", %d in debt", debt)
	}
	return text
}

func (a *app) releaseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "release NAME PERMITS",
		Short: "Give permits back",
		Long: `Give back permits that were taken and not used, so that they can be taken again at once.
Permits beyond those that are outstanding are ignored. A PER_CLIENT limiter needs the --id
of the client that took them.

They come out of the oldest grants of any client. For the program that took them, permits released
late may return too early, by up to an interval.`,
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

func (a *app) release(ctx context.Context, l *rratelimiter.RateLimiter, permits int64) error {
	config, err := l.Config(ctx)
	switch {
	case err != nil:
		return err
	case config.Type == rratelimiter.PerClient && a.id == "":
		return fmt.Errorf("%q is PER_CLIENT, and rrl has taken none of its permits: "+
			"--id names the client whose permits to give back", l.Name())
	}
	if err := l.Release(ctx, permits); err != nil {
		return err
	}
	r, err := l.Peek(ctx)
	if err != nil {
		return err
	}
	g := charged{l.Name(), permits, numbersOf(r)} // how many were outstanding is unknown
	return a.print(g, func(w io.Writer) {
		fmt.Fprintf(w, "%q: given back, up to %s; %s\n", g.Name, words.Count(g.Permits, "permit"),
			remaining(g.Remaining, g.Limit, g.Debt))
	})
}
