package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/words"
)

func (a *app) inspectCommand() *cobra.Command {
	var look struct {
		records int
		check   bool
	}
	cmd := &cobra.Command{
		Use:   "inspect NAME",
		Short: "Show everything about a limiter or lock, and what is wrong with it",
		Long: `Show everything about a limiter: rate, keys, decoded records and sessions, the window as a
bar over time, when permits come back, and whether value + permits of all records = rate. If
not, it says which fault of Redisson leaves such a state (docs/faults.md), and what mends
it.

It writes nothing. Up to 16 clients of a PER_CLIENT limiter are shown; to find them, it goes through
the names of all keys. With --id there is no search.

For a lock it shows the holder, the number of holds and their time to live, the token of a fenced
lock, and the waiters of a fair lock, the next first.

Exit codes: 1 if no limiter and no lock has the name, or something is wrong with it, and with
--check also if there are too many records to tell.`,
		Args: named(1, 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, lock, err := a.read(cmd.Context(), args[0], look.records)
			if err != nil {
				return err
			}
			if lock != nil {
				err = a.print(lock, lockReport{lock, look.check}.print)
			} else {
				err = a.print(l, report{l, look.check}.print)
			}
			if lock != nil {
				return no(err, lock.Holds())
			}
			return no(err, l.Set && l.Holds() && (!look.check || allChecked(l)))
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&look.records, "records", inspect.Many,
		fmt.Sprintf("read at most this many records or waiters, %d to %d", inspect.Least, inspect.Most))
	flags.BoolVar(&look.check, "check", false,
		"print only what is wrong, and exit with 1 also if records were not read")
	return cmd
}

// read reads a limiter, with the clients of a PER_CLIENT one, or the lock of that name.
func (a *app) read(
	ctx context.Context, name string, records int,
) (l *inspect.Limiter, lock *inspect.Lock, err error) {
	if records < inspect.Least || records > inspect.Most {
		return nil, nil, fmt.Errorf("--records is %d, must be between %d and %d",
			records, inspect.Least, inspect.Most)
	}
	err = a.withRedis(ctx, func(rdb redis.UniversalClient) error {
		l, err = a.look(ctx, rdb, name, records)
		if err == nil && !l.Set {
			if lock, err = a.lockAt(ctx, rdb, l.Name, records); err == nil && lock == nil && !anyKey(l) {
				a.similar(ctx, rdb, name)
			}
		}
		if err != nil || !l.Config.PerClient() || a.id != "" {
			return err
		}
		ids, err := inspect.Clients(ctx, rdb, l.Name)
		if err != nil {
			return err
		}
		l, err = inspect.Read(ctx, rdb, l.Name, records, ids[:min(len(ids), inspect.MostClients)]...)
		if err == nil {
			l.Clients = len(ids)
		}
		return err
	})
	if err == nil {
		l.Name = strings.TrimPrefix(l.Name, a.prefix)
	}
	return l, lock, err
}

// similar prints the names of limiters for single keys, as a Keyed makes them of a name. A search that fails
// or takes long prints nothing.
func (a *app) similar(ctx context.Context, rdb redis.UniversalClient, name string) {
	const few = 3
	ctx, cancel := context.WithTimeout(ctx, reachable)
	defer cancel()
	scan := inspect.Scan{Match: inspect.Literal(a.mapped(name)+":{") + "*", Limit: few}
	found, _, done, _ := scan.All(ctx, rdb)
	var names []string
	for _, l := range found {
		names = append(names, words.Name(strings.TrimPrefix(l.Name, a.prefix)))
	}
	if done.Stopped {
		names = append(names, "...")
	}
	if len(names) > 0 {
		fmt.Fprintf(a.stderr, "rrl: there are limiters for keys of %s: %s\n", words.Name(name),
			strings.Join(names, ", "))
	}
}

// lockAt reads the lock in a hash, nil if there is none.
func (a *app) lockAt(
	ctx context.Context, rdb redis.UniversalClient, hash string, waiters int,
) (*inspect.Lock, error) {
	l, err := inspect.ReadLock(ctx, rdb, hash, waiters)
	if err != nil || !l.There() {
		return nil, err
	}
	l.Name = strings.TrimPrefix(l.Name, a.prefix)
	return l, nil
}

// look reads a limiter, with the pair of the client that rrl acts as.
func (a *app) look(
	ctx context.Context, rdb redis.UniversalClient, name string, records int,
) (*inspect.Limiter, error) {
	var ids []string
	if a.id != "" {
		ids = append(ids, a.id)
	}
	return inspect.Read(ctx, rdb, a.mapped(name), records, ids...)
}

// allChecked reports whether value and records were compared for each pair.
func allChecked(l *inspect.Limiter) bool {
	return !slices.ContainsFunc(l.InUse(), func(p *inspect.Pair) bool { return !p.Checked })
}
