package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/words"
)

// A claim is what acquire, reserve and lock have in common: they take permits or a lock, and may run a
// command then.
type claim struct {
	name        string
	command     []string // empty for none
	refusedCode int
	quiet       bool

	// take takes permits or a lock.
	take func(ctx context.Context, c *rratelimiter.Client) (*taken, error)

	grace    time.Duration // how long a command gets to end when its lock is lost
	lostCode int
}

// A taken is the result of a claim.
type taken struct {
	ok     bool
	result fmt.Stringer // printed as text or as JSON
	env    string       // an addition to the environment of the command; empty for none

	giveBack func(ctx context.Context) // if the command does not start

	// finish is called when the command has ended, and returns the error of rrl. It is nil for permits of
	// acquire, which need no connection while the command runs.
	finish func(ctx context.Context, ended error) error
	lost   <-chan struct{} // closed if a lock is lost while the command runs
}

// flags adds the flags that all claims have.
func (q *claim) flags(cmd *cobra.Command, refused string) {
	flags := cmd.Flags()
	flags.IntVar(&q.refusedCode, "refused-code", exitNo, "the exit code "+refused+", 1 to 255")
	flags.BoolVarP(&q.quiet, "quiet", "q", false, "do not print the result")
	cmd.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveDefault) // files, for COMMAND
}

// parse takes the name and the command out of the arguments, which it returns without the -- before COMMAND.
func (q *claim) parse(cmd *cobra.Command, args []string) (all []string, err error) {
	all, before := separated(cmd, args)
	q.name = all[0]
	if before >= 0 {
		q.command = all[before:]
	}
	return all, checkCode("refused-code", q.refusedCode)
}

// separated returns the arguments without the -- before COMMAND, and how many are before it; -1 if there is
// no COMMAND. A name that begins with - has a -- of its own, as in acquire -- -x -- COMMAND.
func separated(cmd *cobra.Command, args []string) (all []string, before int) {
	if before = cmd.ArgsLenAtDash(); before != 0 || len(args) == 0 || !strings.HasPrefix(args[0], "-") {
		return args, before
	}
	if before = slices.Index(args, "--"); before < 0 {
		return args, before
	}
	return slices.Delete(slices.Clone(args), before, before+1), before
}

// claimArgs checks the arguments of a command whose Use is as NAME [-- COMMAND ARGS...].
func claimArgs(cmd *cobra.Command, args []string) error {
	use, _, _ := strings.Cut(cmd.Use, " [--")
	_, use, _ = strings.Cut(use, " ") // without the name of the command
	want, first := len(strings.Fields(use)), ""
	args, dash := separated(cmd, args)
	if len(args) > want {
		first = args[want] // of COMMAND
	}
	switch {
	case dash < 0 && first != "" && number.MatchString("-"+first) && cmd.Flags().Lookup("permits") != nil:
		return fmt.Errorf("unexpected argument %q: permits are given by --permits", first)
	case dash < 0 && len(args) > want:
		return fmt.Errorf("unexpected argument %q: a command needs -- before it", first)
	case dash >= 0 && dash != want:
		return fmt.Errorf("%s before --, must be %s", words.Count(int64(dash), "argument"), use)
	case dash >= 0 && first == "":
		return errors.New("COMMAND is empty, must be given after --")
	}
	return named(1, want, len(args))(cmd, args)
}

const (
	// attempting is how long one attempt may go on after a Ctrl-C: its result is awaited, because it may have
	// taken permits.
	attempting = 2 * time.Second

	// settling is how long the library has to take back the permits or the lock of an interrupted call. It
	// tries to in the background, several times a second.
	settling = time.Second

	// returning bounds an attempt to give something back.
	returning = 5 * time.Second
)

// claim carries out a claim. A command that does not exist takes nothing.
func (a *app) claim(ctx context.Context, q *claim) error {
	if len(q.command) == 0 {
		return a.withClient(ctx, func(c *rratelimiter.Client) error {
			_, err := a.take(ctx, c, q, a.stdout)
			return err
		})
	}
	child, err := a.newChild(q.command)
	if err != nil {
		return err
	}
	defer child.close()
	return a.claimFor(ctx, q, child)
}

// claimFor carries out a claim and runs a child if it was granted.
func (a *app) claimFor(ctx context.Context, q *claim, child *child) error {
	waiting, stop := child.waiting(ctx)
	defer stop()
	var held bool
	err := a.withClient(waiting, func(c *rratelimiter.Client) error {
		t, err := a.take(waiting, c, q, a.stderr)
		if err != nil {
			return child.notRun(waiting, err)
		}
		if t.env != "" {
			child.cmd.Env = append(os.Environ(), t.env)
		}
		if err := child.start(); err != nil {
			t.giveBack(ctx)
			return err
		}
		if held = t.finish != nil; !held {
			return nil
		}
		return t.finish(ctx, child.wait(t.lost, q.grace))
	})
	if err != nil || held {
		return err
	}
	return child.wait(nil, 0)
}

// take takes what is claimed and prints the result to w. A result that cannot be printed, or comes after an
// interruption, is given back.
func (a *app) take(ctx context.Context, c *rratelimiter.Client, q *claim, w io.Writer) (*taken, error) {
	t, err := q.take(ctx, c)
	if err != nil {
		if ctx.Err() != nil {
			time.Sleep(settling)
		}
		return nil, err
	}
	if err = ctx.Err(); !t.ok || err == nil {
		err = nil
		if !q.quiet {
			err = a.printTo(w, t.result, func(w io.Writer) { fmt.Fprintf(w, "%q: %s\n", q.name, t.result) })
		}
		if out, ok := w.(*output); ok && err == nil {
			err = out.err
		}
	}
	switch {
	case t.ok && err != nil:
		t.giveBack(ctx)
		return nil, err
	case t.ok || err != nil:
		return t, err
	case q.refusedCode == exitNo:
		return nil, errNo
	}
	return nil, exitCode(q.refusedCode)
}

// giveBack gives back the permits of a command that did not start, also when ctx has ended.
func (a *app) giveBack(ctx context.Context, permits int64, giveBack func(ctx context.Context) error) {
	ctx, cancel := lastly(ctx)
	defer cancel()
	if err := giveBack(ctx); err != nil {
		fmt.Fprintf(a.stderr, "rrl: the permits were not given back: %v\n", err)
		return
	}
	fmt.Fprintf(a.stderr, "rrl: the permits were given back: %d\n", permits)
}

// attempt returns a context for a single call whose result is awaited, because it may take permits: it ends
// after ctx. The caller must call end.
func attempt(ctx context.Context) (one context.Context, end func()) {
	one, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(attempting, cancel) })
	return one, func() {
		stop()
		cancel()
	}
}

// lastly returns a context for giving something back, also when ctx has ended.
func lastly(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), returning)
}
