package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redisson-go/rratelimiter/cmd/rrl/traffic"
)

func (a *app) compareCommand() *cobra.Command {
	c := &comparing{app: a}
	var rate string
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Show what limiters of each algorithm do with the same requests",
		Long: `Send the same requests through a limiter of each algorithm, and show what each of them
admits: as bars and as a table. It needs no Redis and no time: the
limiters of the library run with a clock that is set by hand, RRateLimiter on a Redis
embedded in rrl.

Traffic, for a limit of 20 permits per second:
  burst   40 requests within 200ms, every two seconds
  steady  30 requests per second, evenly
  edge    19 requests at the end of a fixed window, 20 at the beginning of the next one
  random  20 requests per second on average, by chance

The table: admitted and refused are requests; worst is the most permits in any interval, wherever
it begins; peak is the most permits in any tenth of an interval, 1 being a tenth of the rate and 10
the whole rate.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if c.plan.Rate, c.plan.Per, err = rateArgs([]string{rate}); err != nil {
				return fmt.Errorf("--rate is %q: %w", rate, err)
			}
			return c.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&rate, "rate", "20/1s", "permits in an interval of 10ms to 24h")
	flags.StringVar(&c.kind, "traffic", "edge", strings.Join(traffic.Kinds(), ", "))
	kinds := cobra.FixedCompletions(traffic.Kinds(), cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc("traffic", kinds) // the flag exists
	return cmd
}

// comparing is one run of compare.
type comparing struct {
	*app
	plan traffic.Plan
	kind string
}

func (c *comparing) run(ctx context.Context) error {
	if err := c.plan.Validate(); err != nil {
		return err
	}
	if !slices.Contains(traffic.Kinds(), c.kind) {
		return fmt.Errorf("--traffic is %q, must be %s", c.kind, strings.Join(traffic.Kinds(), ", "))
	}
	requests, err := traffic.Make(c.kind, c.plan.Rate, c.plan.Per)
	if err != nil {
		return err
	}
	comparison, err := c.plan.Run(ctx, requests)
	if err != nil {
		return err
	}
	return c.print(comparison.Report(), func(w io.Writer) {
		columns, colours := c.screen()
		_ = comparison.Lines(w, columns, colours) // c.stdout keeps the error
		fmt.Fprintln(w)
		_ = comparison.Table(w)
	})
}
