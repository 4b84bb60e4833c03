package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/redisson-go/rratelimiter/internal/inspect"
)

func (a *app) inspectCommand() *cobra.Command {
	var look struct {
		records    int
		check, all bool
	}
	cmd := &cobra.Command{
		Use:   "inspect NAME",
		Short: "Show all there is of a limiter or lock, and what is wrong with it",
		Long: `Show all there is of a limiter: rate, keys, records and sessions decoded, the window as a bar
over time, when permits come back, and whether value + permits of all records = rate. If not,
it says which fault of Redisson that looks like (docs/faults.md), and what mends it.

It is one round trip, reads the number of --records at most, the oldest and the newest of them,
and writes nothing. Redis needs some 5 ms for 10,000 records. Of a PER_CLIENT limiter up to 16
clients are shown; to find them, the names of all keys of the server are gone through by SCAN,
1,000 to a call. With --id nothing is searched.

Of a lock: who holds it, how often and for how long, its token if it is fenced, and who waits for
it if it is fair, the next first. It is one round trip more; then latches are looked for among
the names of 100,000 keys at most, 1,000 to a call.

Exit codes: 1 if there is no limiter and no lock, or something is wrong with it, and with --check
also if there are too many records to tell.`,
		Args: named(1, 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, lock, err := a.read(cmd.Context(), args[0], look.records)
			if err != nil {
				return err
			}
			if lock != nil {
				err = a.print(lock, lockReport{lock, look.all, look.check}.print)
			} else {
				err = a.print(l, report{l, look.all, look.check}.print)
			}
			switch {
			case err != nil:
				return err
			case lock != nil && !lock.Holds():
				return errNo
			case lock == nil && (!l.Set || !l.Holds() || look.check && !allChecked(l)):
				return errNo
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&look.records, "records", inspect.Many,
		fmt.Sprintf("read so many records or waiters at most, 2 to %d", inspect.Most))
	flags.BoolVar(&look.check, "check", false,
		"print only what is wrong, and exit with 1 also if that cannot be told")
	flags.BoolVar(&look.all, "all", false, "print all records or waiters that were read")
	return cmd
}

// read reads a limiter, and the clients of a PER_CLIENT one; or the lock, if the name is that of one.
func (a *app) read(
	ctx context.Context, name string, records int,
) (l *inspect.Limiter, lock *inspect.Lock, err error) {
	err = a.withRedis(ctx, func(rdb redis.UniversalClient) error {
		l, err = a.look(ctx, rdb, name, records)
		if err == nil && !l.Set {
			lock, err = a.lockAt(ctx, rdb, l.Name, records)
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

// lockAt reads the lock in a hash, nil if there is none.
func (a *app) lockAt(
	ctx context.Context, rdb redis.UniversalClient, hash string, waiters int,
) (*inspect.Lock, error) {
	l, err := inspect.ReadLock(ctx, rdb, hash, waiters)
	if err != nil || !l.There() {
		return nil, err
	}
	if l.Latches, err = inspect.LatchesOf(ctx, rdb, hash); err != nil {
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
	for _, p := range l.InUse() {
		if !p.Checked {
			return false
		}
	}
	return true
}
