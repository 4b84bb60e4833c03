package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/words"
)

// A deletion is the output of delete.
type deletion struct {
	Deleted  []string `json:"deleted"`
	NotThere []string `json:"not_there"`
}

func (a *app) deleteCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete NAME...",
		Short: "Delete limiters",
		Long: `Delete limiters, with the permits that are taken. It asks first. If one does not exist, it
deletes the others, and the exit code is 1.

The keys of other clients of a PER_CLIENT limiter are not deleted: they expire.`,
		Args: named(math.MaxInt, 1, math.MaxInt),
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.withRedis(cmd.Context(), func(rdb redis.UniversalClient) error {
				return a.delete(cmd.Context(), rdb, names, yes)
			})
		},
	}
	yesFlag(cmd, &yes)
	return cmd
}

func (a *app) delete(ctx context.Context, rdb redis.UniversalClient, names []string, yes bool) error {
	done := deletion{[]string{}, []string{}}
	var found, lines []string
	for _, name := range names {
		l, err := a.look(ctx, rdb, name, inspect.Many)
		if err == nil {
			err = a.refuseLock(ctx, rdb, name, l)
		}
		if err != nil {
			return err
		}
		if !anyKey(l) {
			done.NotThere = append(done.NotThere, name)
			continue
		}
		found, lines = append(found, name), append(lines, a.describe(name, l)+".")
	}
	if len(found) > 0 {
		const question = "%s\nThis is deleted, for all programs that use it."
		if err := a.confirm(ctx, yes, question, strings.Join(lines, "\n")); err != nil {
			return err
		}
	}
	c := a.client(rdb)
	defer c.Close()
	var failed error
	for _, name := range found {
		var ok bool
		if ok, failed = c.RateLimiter(name).Delete(ctx); failed != nil {
			break
		}
		if ok {
			done.Deleted = append(done.Deleted, name)
		} else {
			done.NotThere = append(done.NotThere, name)
		}
	}
	err := a.print(done, func(w io.Writer) {
		for _, name := range done.Deleted {
			fmt.Fprintf(w, "%q: deleted\n", name)
		}
		for _, name := range done.NotThere {
			fmt.Fprintf(w, "%q: does not exist\n", name)
		}
	})
	return no(errors.Join(failed, err), len(done.NotThere) == 0)
}

func (a *app) renameCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "rename NAME NEW",
		Short: "Give a limiter another name",
		Long: `Give a limiter another name, with the permits that are taken. A limiter that has the new
name is replaced, after a question.

Programs that use the old name find no rate from then on. The permits that other clients of a
PER_CLIENT limiter have taken stay under the old name.`,
		Args: named(2, 2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == args[1] {
				return fmt.Errorf("NEW is %q, must not be NAME", args[1])
			}
			return a.withRedis(cmd.Context(), func(rdb redis.UniversalClient) error {
				return a.rename(cmd.Context(), rdb, args, yes)
			})
		},
	}
	yesFlag(cmd, &yes)
	return cmd
}

func (a *app) rename(ctx context.Context, rdb redis.UniversalClient, names []string, yes bool) error {
	from, to := names[0], names[1]
	old, err := a.look(ctx, rdb, from, inspect.Many)
	if err != nil {
		return err
	}
	next, err := a.look(ctx, rdb, to, inspect.Many)
	if err != nil {
		return err
	}
	if err := errors.Join(a.refuseLock(ctx, rdb, from, old), a.refuseLock(ctx, rdb, to, next)); err != nil {
		return err
	}
	if old.Keys[0].There() && anyKey(next) {
		err := a.confirm(ctx, yes, "%s.\nIt is replaced by %s.", a.describe(to, next), a.describe(from, old))
		if err != nil {
			return err
		}
	}
	c := a.client(rdb)
	defer c.Close()
	if err := c.RateLimiter(from).Rename(ctx, to); err != nil {
		return err
	}
	return a.print(struct {
		From string `json:"from"`
		To   string `json:"to"`
	}{from, to}, func(w io.Writer) { fmt.Fprintf(w, "%q: renamed to %q\n", from, to) })
}

func (a *app) repairCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "repair NAME",
		Short: "Put records and value right",
		Long: `Bring the records of a limiter into one format, drop members that are no records, and make the
value agree with the records. It changes only what is wrong. No holder of permits gains or loses
any.

Run it after older Redisson clients have stopped, or when rrl inspect has found something that it
mends. It repairs the part of one client of a PER_CLIENT limiter: give --id.`,
		Args: named(1, 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd.Context(), func(c *rratelimiter.Client) error {
				return a.repair(cmd.Context(), c.RateLimiter(args[0]))
			})
		},
	}
}

// A repaired is the output of repair.
type repaired struct {
	Name      string `json:"name"`
	Records   int64  `json:"records"`
	Rewritten int64  `json:"rewritten"`
	Dropped   int64  `json:"dropped"`
	Drift     int64  `json:"drift"` // permits by which the value was too high
}

func (a *app) repair(ctx context.Context, l *rratelimiter.RateLimiter) error {
	a.noteOwn(ctx, l)
	r, err := l.Repair(ctx)
	if err != nil {
		return err
	}
	value := "the value is right"
	switch {
	case r.Drift > 0:
		value = fmt.Sprintf("the value was too high by %d and is right now", r.Drift)
	case r.Drift < 0:
		value = fmt.Sprintf("the value was too low by %d and is right now", -r.Drift)
	}
	result := repaired{l.Name(), r.Records, r.Rewritten, r.Dropped, r.Drift}
	return a.print(result, func(w io.Writer) {
		fmt.Fprintf(w, "%q: %s, %d rewritten, %d dropped; %s\n",
			l.Name(), words.Count(r.Records, "record"), r.Rewritten, r.Dropped, value)
	})
}

// noteOwn warns on stderr when rrl acts as a new client of a PER_CLIENT limiter. It leaves an error to the
// call that follows.
func (a *app) noteOwn(ctx context.Context, l *rratelimiter.RateLimiter) {
	if a.id != "" {
		return
	}
	if c, err := l.Config(ctx); err == nil && c.Type == rratelimiter.PerClient {
		const note = "rrl: %q is PER_CLIENT: without --id this run has a limit of its own\n"
		fmt.Fprintf(a.stderr, note, l.Name())
	}
}

// refuseLock returns an error if what was read is not a limiter but a lock that is held.
func (a *app) refuseLock(
	ctx context.Context, rdb redis.UniversalClient, name string, l *inspect.Limiter,
) error {
	if l.Set || !l.Keys[0].There() {
		return nil
	}
	lock, err := inspect.ReadLock(ctx, rdb, a.mapped(name), inspect.Few)
	if err != nil || len(lock.Owners) == 0 {
		return err
	}
	return fmt.Errorf("%q is a lock that is held: unlock it first, perhaps by unlock --force", name)
}

// anyKey reports whether any key of a limiter exists.
func anyKey(l *inspect.Limiter) bool {
	return slices.ContainsFunc(l.Keys, func(k inspect.Key) bool { return k.There() })
}

// outstanding returns the permits that are taken, as far as they were read.
func outstanding(l *inspect.Limiter) int64 {
	sum := int64(0)
	for _, pair := range l.InUse() {
		sum += pair.Outstanding
	}
	return sum
}

// describe describes a limiter in a question.
func (a *app) describe(name string, l *inspect.Limiter) string {
	text := fmt.Sprintf("%q: ", name)
	switch hash := &l.Keys[0]; {
	case hash.There() && hash.Kind != "hash":
		return text + "a " + hash.Kind + ", no limiter"
	case !l.Set:
		return text + "no rate is set, but keys exist"
	}
	text += rateOf(&l.Config) + ", "
	pairs := l.InUse()
	if len(pairs) == 0 {
		return text + "outstanding permits of its clients not counted"
	}
	pair := pairs[0] // look reads a single pair: the shared one, or that of the client
	text += fmt.Sprintf("%d outstanding", pair.Outstanding)
	if pair.ID != "" {
		text += fmt.Sprintf(" of client %q", pair.ID)
	}
	return text
}
