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

The refused requests are an estimate: docs/rrl.md. It writes nothing to Redis. Of a PER_CLIENT
limit it shows at most 16 of the clients that have keys at the first look, with --id that one.`,
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
