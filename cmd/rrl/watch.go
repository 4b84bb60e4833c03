package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/redisson-go/rratelimiter/cmd/rrl/live"
)

func (a *app) watchCommand() *cobra.Command {
	var every time.Duration
	var count int
	cmd := &cobra.Command{
		Use:   "watch NAME...",
		Short: "Show limiters live",
		Long: `Show limiters live: the permits that remain and are outstanding, the grants per second, when
permits are back, and what is wrong.

On a terminal: q or Esc quits, p or space pauses, the arrow keys, j, k, PgUp and PgDn scroll.
Elsewhere, on a terminal without cursor (TERM=dumb) and with --json it prints a line for each look.

"refused about 12 requests of Go" is an estimate. A refusal writes nothing to Redis; but each Go
client numbers its requests, and leaves its number when it is granted permits. So numbers without a
record are refusals, or requests of that client to other limiters. One request may stand for many
callers. There is no estimate if not all new records were read. Refusals of Java are unknown. On
the terminal the number is the sum over the time of the sparkline.

It writes nothing to Redis, and reads at most 1000 records of each limiter in one round trip a
second or less often. Of a PER_CLIENT limit it shows at most 16 of the clients that have keys at
the first look; one SCAN of all keys finds them. With --id it shows that client alone, without a
SCAN.`,
		Args: named(math.MaxInt, 1, math.MaxInt),
		RunE: func(cmd *cobra.Command, names []string) error {
			if every < live.Shortest {
				return fmt.Errorf("--every is %v, must be at least %v", every, live.Shortest)
			}
			if count < 0 {
				return fmt.Errorf("--count is %d, must be at least 0", count)
			}
			return a.withRedis(cmd.Context(), func(rdb redis.UniversalClient) error {
				w := &live.Watch{Redis: rdb, Where: a.place.where(), Every: every, Count: count}
				for i, name := range names {
					if !slices.Contains(names[:i], name) {
						target := &live.Target{Name: name, Hash: a.mapped(name), ID: a.id}
						w.Targets = append(w.Targets, target)
					}
				}
				return a.watch(cmd.Context(), w)
			})
		},
	}
	cmd.Flags().DurationVar(&every, "every", time.Second, "time between two looks at a limiter, at least 1s")
	cmd.Flags().IntVar(&count, "count", 0, "end after this many looks at each limiter; 0 for no end")
	return cmd
}

// watch shows limiters on the terminal, or prints lines elsewhere.
func (a *app) watch(ctx context.Context, w *live.Watch) error {
	if a.json || !isTerminal(a.stdin) || !isTerminal(a.stdout.w) || os.Getenv("TERM") == "dumb" {
		return w.Lines(ctx, a.stdout, a.json)
	}
	err := w.Run(ctx, a.stdin, a.stdout.w)
	if errors.Is(err, live.ErrInterrupted) {
		return exitCode(exitInterrupted)
	}
	return err
}
