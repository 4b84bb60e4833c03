package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/cmd/rrl/load"
	"github.com/redisson-go/rratelimiter/internal/words"
)

func (a *app) loadCommand() *cobra.Command {
	plan := load.Plan{}
	yes := false
	cmd := &cobra.Command{
		Use:   "load NAME",
		Short: "Make load on a limiter and measure it",
		Long: `Callers take permits of an existing limiter, as fast as they can or at a rate. It prints how
many calls were granted and refused, their latencies, and whether more than the rate was
granted in any interval.

The permits are really taken: other users of the limiter are refused meanwhile. So it asks first,
unless --yes is given. On a PER_CLIENT limit it is a client of its own, or the one of --id. After
an error a caller waits for 100ms. A program that releases permits it did not take, as release() of
Java can, lets more than the rate be granted.

Exit code 1: more than the rate was granted. 2: a call failed.`,
		Args: named(1, 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := plan.Validate(); err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(c *rratelimiter.Client) error {
				return a.load(cmd.Context(), c.RateLimiter(args[0]), plan, yes)
			})
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&plan.Callers, "callers", 64, "callers at once, 1 to 10000")
	flags.Int64Var(&plan.Permits, "permits", 1, "permits that each call takes")
	flags.DurationVar(&plan.Timeout, "timeout", 0, "how long a call waits for permits")
	flags.Var(&perInterval{"0", func(n float64, per time.Duration) {
		if plan.Rate = n; per > 0 {
			plan.Rate = n / per.Seconds()
		}
	}}, "rate", "calls per second of all callers together, or a rate such as 5/1m; 0: no bound")
	flags.DurationVar(&plan.For, "for", 10*time.Second, "how long, up to 1h")
	flags.Int64Var(&plan.Calls, "calls", 0, "end after this many calls; 0: only --for counts")
	yesFlag(cmd, &yes)
	return cmd
}

// load makes load and prints its measurements, also if it was interrupted.
func (a *app) load(ctx context.Context, l *rratelimiter.RateLimiter, plan load.Plan, yes bool) error {
	config, err := l.Config(ctx)
	if err != nil {
		return err
	}
	if plan.Permits > config.Rate {
		return fmt.Errorf("--permits is %d, must be at most the rate of %q, which is %d",
			plan.Permits, l.Name(), config.Rate)
	}
	interval, calls := words.Span(config.Interval.Milliseconds()), ""
	if plan.Calls > 0 {
		calls = fmt.Sprintf(", %d calls at most", plan.Calls)
	}
	err = a.confirm(ctx, yes,
		"%d callers take permits of %q (%s, %d in %s) for %s%s. Other users of it are refused meanwhile.",
		plan.Callers, l.Name(), config.Type, config.Rate, interval,
		words.Span(plan.For.Milliseconds()), calls)
	if err != nil {
		return err
	}
	show, erase := a.progress()
	report := load.New(l, config, plan).Do(ctx, 200*time.Millisecond, func(p load.Progress) {
		show("%s", progressOf(p))
	})
	erase()
	if err := a.print(report, func(w io.Writer) { printLoad(w, report, interval) }); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case report.Failed > 0:
		return fmt.Errorf("%d of %d calls failed", report.Failed, report.Calls)
	}
	return no(nil, !report.Worst.Broken())
}

// progressOf returns a bar and the calls so far.
func progressOf(p load.Progress) string {
	const width = 24
	filled := int(p.Done * width)
	bar := strings.Repeat("█", filled) + strings.Repeat("░", width-filled)
	return fmt.Sprintf("%s %3.0f%%  %d granted, %d refused, %d failed",
		bar, p.Done*100, p.Granted, p.Refused, p.Failed)
}

// printLoad prints a report as tables.
func printLoad(w io.Writer, r *load.Report, interval string) {
	fmt.Fprintf(w, "%s in %.1fs, %.1f/s; %s granted, %.1f/s\n\n",
		words.Count(r.Calls, "call"), r.Seconds, r.PerS, words.Count(r.Permits, "permit"), r.PermitS)
	table(w, tabwriter.AlignRight, "|calls|p50 ms|p90|p99|p99.9|max", func(row func(cells ...any)) {
		for i, l := range []load.Latency{r.Granted, r.Refused} {
			name := []string{"granted", "refused"}[i]
			if l.Calls == 0 {
				row(name, 0, "", "", "", "", "")
				continue
			}
			cells := []any{name, l.Calls}
			for _, ms := range []float64{l.P50, l.P90, l.P99, l.P999, l.Max} {
				cells = append(cells, fmt.Sprintf("%.2f", ms))
			}
			row(cells...)
		}
		row("failed", r.Failed, "", "", "", "", "")
	})
	fmt.Fprintln(w)
	for _, kind := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(w, "%s failed: %s\n", words.Count(r.Errors[kind], "call"), kind)
	}
	switch worst := r.Worst; {
	case !worst.Checked:
		fmt.Fprintln(w, "The limit was not checked: the rate changed meanwhile or cannot be read, or the "+
			"interval is too short.")
	case worst.Broken():
		fmt.Fprintf(w, "MORE THAN THE RATE: %s granted within %s, the rate is %d.\n",
			words.Count(worst.Permits, "permit"), interval, worst.Rate)
	default:
		fmt.Fprintf(w, "The limit held: at most %s granted within any %s, the rate is %d.\n",
			words.Count(worst.Permits, "permit"), interval, worst.Rate)
	}
}
