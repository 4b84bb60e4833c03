package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/words"
)

func (a *app) chargeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "charge NAME PERMITS",
		Short: "Take what was spent, even if less is left",
		Long: `Take permits for what was spent already. It is never refused, and PERMITS may be more than the
rate. If fewer are left, the limiter is in debt: no client is granted permits until the debt is
paid, when earlier permits come back.

Programs in Java find a negative value, and wait. A cost that can be estimated before it is spent
is better reserved: rrl help reserve.`,
		Example: `  rrl charge tokens 3500`,
		Args:    named(1, 2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			permits, err := integer("PERMITS", args[1])
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(c *rratelimiter.Client) error {
				return a.charge(cmd.Context(), c.RateLimiter(args[0]), permits)
			})
		},
	}
}

// A charged is the output of charge, and of release.
type charged struct {
	Name    string `json:"name"`
	Permits int64  `json:"permits"` // that were asked for
	*numbers
}

func (a *app) charge(ctx context.Context, l *rratelimiter.RateLimiter, permits int64) error {
	a.noteOwn(ctx, l)
	one, end := attempt(ctx)
	defer end()
	r, err := l.Charge(one, permits)
	if err != nil {
		return err
	}
	c := charged{l.Name(), permits, numbersOf(r)}
	return a.print(c, func(w io.Writer) {
		fmt.Fprintf(w, "%q: charged, permits %d, %s, full again in %s\n", c.Name, c.Permits,
			remaining(c.Remaining, c.Limit, c.Debt), words.Span(c.ResetAfter))
	})
}
