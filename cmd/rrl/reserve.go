package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/words"
)

// A reserving is the claim of rrl reserve.
type reserving struct {
	claim
	permits int64
	wait    time.Duration
	file    string // to which the command writes how many permits it used; empty without a command
}

// A reserved is the output of reserve.
type reserved struct {
	Name     string `json:"name"`
	Reserved bool   `json:"reserved"`
	Permits  int64  `json:"permits"`
	Waited   *int64 `json:"waited_ms,omitempty"`
	*numbers
	ID string `json:"id,omitempty"` // for settle
}

// usedVariable is the environment variable that holds the path of the file for a command.
const usedVariable = "RRL_USED"

func (a *app) reserveCommand() *cobra.Command {
	var q reserving
	cmd := &cobra.Command{
		Use:   "reserve NAME PERMITS [-- COMMAND ARGS...]",
		Short: "Take an estimate, run a command, and settle what it used",
		Long: `Take PERMITS for a cost that is known later, and run a command when they are granted. The
command writes how many permits it used to the file that ` + usedVariable + ` names. When it has
ended, unused permits come back at once; what exceeds PERMITS is charged (rrl help charge). If it
writes nothing, PERMITS count, whatever its exit code. If it cannot be started, all come back.

The exit codes, and what happens on a signal, are those of rrl acquire. If the number cannot be
settled, PERMITS count, and rrl prints why to stderr; the exit code remains that of the command.

Without a command it prints the ID of the reservation to stdout, for rrl settle. A reservation
that is never settled costs PERMITS for an interval.`,
		Example: `  rrl reserve tokens 4000 --wait 10s -- sh -c './ask > answer; wc -w < answer > "$RRL_USED"'
  id=$(rrl reserve tokens 4000) && ./ask && rrl settle "$id" 1200`,
		Args: claimArgs,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if q.wait < 0 {
				return fmt.Errorf("--wait is %v, must not be negative", q.wait)
			}
			if args, err = q.parse(cmd, args); err == nil {
				q.permits, err = integer("PERMITS", args[1])
			}
			if err != nil {
				return err
			}
			q.take = func(ctx context.Context, c *rratelimiter.Client) (*taken, error) {
				return a.reserve(ctx, c.RateLimiter(q.name), &q)
			}
			return a.reserveFor(cmd.Context(), &q)
		},
	}
	cmd.Flags().DurationVarP(&q.wait, "wait", "w", 0, "wait this long for the permits; 0 does not wait")
	q.flags(cmd, "if they are refused, different from those of the command")
	return cmd
}

// reserveFor reserves permits for a command, or prints the ID of the reservation if there is none.
func (a *app) reserveFor(ctx context.Context, q *reserving) error {
	if len(q.command) == 0 {
		return a.withClient(ctx, func(c *rratelimiter.Client) error { return a.reserveAlone(ctx, c, q) })
	}
	file, err := os.CreateTemp("", "rrl-used-")
	if err != nil {
		return fmt.Errorf("no file for %s: %w", usedVariable, err)
	}
	q.file = file.Name()
	defer os.Remove(q.file)
	return errors.Join(file.Close(), a.claim(ctx, &q.claim))
}

// reserveAlone prints the ID alone to stdout, so that a script can take it, and the result to stderr. As JSON
// the result has both.
func (a *app) reserveAlone(ctx context.Context, c *rratelimiter.Client, q *reserving) error {
	config, err := c.RateLimiter(q.name).Config(ctx) // an error is left to take
	if err == nil && config.Type == rratelimiter.PerClient && a.id == "" {
		return fmt.Errorf("%q is PER_CLIENT: without a command, --id must name a client, "+
			"and rrl settle takes the same one", q.name)
	}
	w := a.stderr
	if a.json {
		w = a.stdout
	}
	t, err := a.take(ctx, c, &q.claim, w)
	if err != nil || a.json && !q.quiet {
		return err
	}
	fmt.Fprintln(a.stdout, t.result.(*reserved).ID)
	if a.stdout.err != nil {
		t.giveBack(ctx)
	}
	return a.stdout.err
}

// reserve reserves permits. An interrupted call leaves no permits taken, as long as Redis is well.
func (a *app) reserve(ctx context.Context, l *rratelimiter.RateLimiter, q *reserving) (*taken, error) {
	a.noteOwn(ctx, l)
	result := &reserved{Name: l.Name(), Permits: q.permits}
	var r *rratelimiter.Reservation
	var err error
	if q.wait > 0 {
		start := time.Now()
		r, err = l.Reserve(ctx, q.permits, q.wait)
		result.Waited = new(time.Since(start).Milliseconds())
	} else {
		one, end := attempt(ctx)
		defer end()
		var n rratelimiter.Result
		r, n, err = l.TryReserve(one, q.permits)
		result.numbers = numbersOf(n)
	}
	if result.Reserved = r != nil; r == nil {
		return &taken{result: result}, err
	}
	result.ID = r.ID()
	return &taken{
		ok: true, result: result, env: usedVariable + "=" + q.file,
		giveBack: func(ctx context.Context) { a.giveBack(ctx, q.permits, r.Cancel) },
		finish: func(ctx context.Context, ended error) error {
			a.settleFor(ctx, q, r)
			return ended
		},
	}, nil
}

// String returns the result in words, without the ID.
func (r *reserved) String() string {
	return outcome("reserved", r.Reserved, r.Permits, r.Waited, r.numbers)
}

// settleFor settles what the command used, also when ctx has ended, and prints it to stderr.
func (a *app) settleFor(ctx context.Context, q *reserving, r *rratelimiter.Reservation) {
	ctx, cancel := lastly(ctx)
	defer cancel()
	used, err := q.used()
	reported := ""
	if used < 0 {
		used, reported = q.permits, ", nothing reported"
	}
	if err == nil {
		err = r.Settle(ctx, used)
	}
	switch {
	case err != nil:
		fmt.Fprintf(a.stderr, "rrl: not settled: %s; what was reserved counts, or rrl settle %s PERMITS\n",
			words.Harmless(strings.TrimPrefix(err.Error(), "rratelimiter: ")), r.ID())
	case !q.quiet:
		_ = a.printTo(a.stderr, settled{Name: q.name, Permits: used}, func(w io.Writer) {
			fmt.Fprintf(w, "%q: settled, permits %d, reserved %d%s\n", q.name, used, q.permits, reported)
		})
	}
}

// used returns how many permits the command used: the number in its file, negative if it wrote none.
func (q *reserving) used() (int64, error) {
	const most, shown = 1000, 40 // bytes
	info, err := os.Stat(q.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return -1, nil // the command has removed it
	case err == nil && !info.Mode().IsRegular() && !info.IsDir(): // a pipe would be read for ever
		return 0, fmt.Errorf("the file of %s is %v, must be a regular file", usedVariable, info.Mode())
	case err != nil:
		return 0, err
	}
	file, err := os.Open(q.file)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, most))
	text := strings.TrimSpace(string(b))
	if err != nil || text == "" && len(b) < most {
		return -1, err
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || len(b) == most {
		const message = "the file of %s has %.*q, must be an integer of at least 0"
		return 0, fmt.Errorf(message, usedVariable, shown, text)
	}
	return int64(n), nil
}

func (a *app) settleCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "settle ID PERMITS",
		Short: "Say how many permits of a reservation were used",
		Long: `Settle the reservation whose ID rrl reserve, or Reservation.ID of the library, returned.
PERMITS were used: the other reserved permits come back, if they have not come back already. If
more were used than reserved, the difference is charged (rrl help charge). 0 cancels it.

--redis, --name-prefix and --id must be those of the reservation: with others, settle gives nothing
back, and prints the same as if it had expired.`,
		Example: `  rrl settle "$id" 1200`,
		Args:    named(0, 2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			permits, err := integer("PERMITS", args[1])
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(c *rratelimiter.Client) error {
				r, err := c.Reservation(args[0])
				if err != nil {
					return err
				}
				if err := r.Settle(cmd.Context(), permits); err != nil {
					return err
				}
				return a.print(settled{Permits: permits}, func(w io.Writer) {
					fmt.Fprintf(w, "settled, permits %d\n", permits)
				})
			})
		},
	}
}

// A settled is the output of settle, and of reserve when its command has ended.
type settled struct {
	Name    string `json:"name,omitempty"` // unknown to settle
	Permits int64  `json:"permits"`        // used
}
