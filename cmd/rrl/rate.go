package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/words"
)

// A rateChange is what set, try-set and update are asked for.
type rateChange struct {
	name      string
	config    rratelimiter.Config
	keepState bool
	yes       bool

	// What update takes over from the rate that is set, for it was not given.
	staysType, staysAlive bool
}

// takeOver completes what was not given.
func (r *rateChange) takeOver(ctx context.Context, l *rratelimiter.RateLimiter) error {
	there, err := l.Config(ctx)
	if errors.Is(err, rratelimiter.ErrNotInitialized) {
		return nil // update will say so
	}
	if r.staysType {
		r.config.Type = there.Type
	}
	if r.staysAlive {
		r.config.KeepAlive = there.KeepAlive
	}
	return err
}

// options returns those of the library.
func (r *rateChange) options() []rratelimiter.RateOption {
	var opts []rratelimiter.RateOption
	if r.config.KeepAlive != 0 {
		opts = append(opts, rratelimiter.WithKeepAlive(r.config.KeepAlive))
	}
	if r.keepState {
		opts = append(opts, rratelimiter.WithKeepState())
	}
	return opts
}

// A rateResult is what the three print.
type rateResult struct {
	Name   string          `json:"name"`
	Set    bool            `json:"set"`
	Config *inspect.Config `json:"config,omitempty"` // what is set now, nil if nothing is
}

func (a *app) setCommand() *cobra.Command {
	return a.rateCommand(&cobra.Command{
		Use:   "set NAME RATE INTERVAL",
		Short: "Set a rate, whatever was set before",
		Long: `Set RATE permits per INTERVAL, whatever was set before. The limiter starts full, unless
--keep-state is given: permits that are taken do not count any more. If that makes a
difference, it asks first.`,
		Example: "  rrl set api 100 1s\n  rrl set api 500 1m --keep-state",
	}, true, func(ctx context.Context, l *rratelimiter.RateLimiter, r *rateChange) (bool, error) {
		c := r.config
		return true, l.SetRate(ctx, c.Type, c.Rate, c.Interval, r.options()...)
	})
}

func (a *app) trySetCommand() *cobra.Command {
	return a.rateCommand(&cobra.Command{
		Use:   "try-set NAME RATE INTERVAL",
		Short: "Set a rate if none is set",
		Long: `Set RATE permits per INTERVAL if no rate is set. If there is one, it stays: then it is
printed, and the exit code is 1.`,
		Example: "  rrl try-set api 100 1s --keep-alive 24h",
	}, false, func(ctx context.Context, l *rratelimiter.RateLimiter, r *rateChange) (bool, error) {
		c := r.config
		return l.TrySetRate(ctx, c.Type, c.Rate, c.Interval, r.options()...)
	})
}

func (a *app) updateCommand() *cobra.Command {
	return a.rateCommand(&cobra.Command{
		Use:   "update NAME RATE INTERVAL",
		Short: "Change the rate if one is set",
		Long: `Do as rrl set, but only where a rate is set. If there is none, nothing is changed, and
the exit code is 1. Type and keep alive stay as they are, unless they are given.`,
		Example: "  rrl update api 200 1s --keep-state",
	}, true, func(ctx context.Context, l *rratelimiter.RateLimiter, r *rateChange) (bool, error) {
		c := r.config
		return l.UpdateRate(ctx, c.Type, c.Rate, c.Interval, r.options()...)
	})
}

// A rateSetter sets a rate and reports whether it did.
type rateSetter func(ctx context.Context, l *rratelimiter.RateLimiter, r *rateChange) (bool, error)

// rateCommand completes a command that sets a rate. One that replaces a rate asks first.
func (a *app) rateCommand(cmd *cobra.Command, replaces bool, set rateSetter) *cobra.Command {
	var r rateChange
	var perClient bool
	flags := cmd.Flags()
	flags.BoolVar(&perClient, "per-client", false, "a limit for each client: PER_CLIENT, not OVERALL")
	flags.DurationVar(&r.config.KeepAlive, "keep-alive", 0,
		"the limiter expires if it is not used for so long; 0 is never")
	if replaces {
		flags.BoolVar(&r.keepState, "keep-state", false, "permits that are taken count against the new rate")
		flags.BoolVarP(&r.yes, "yes", "y", false, "do not ask")
	}
	cmd.Args = named(1, 3, 3)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		r.name = args[0]
		if perClient {
			r.config.Type = rratelimiter.PerClient
		}
		updates := cmd.Name() == "update"
		r.staysType = updates && !flags.Changed("per-client")
		r.staysAlive = updates && !flags.Changed("keep-alive")
		if r.config.Rate, err = integer("RATE", args[1]); err != nil {
			return err
		}
		if r.config.Interval, err = duration("INTERVAL", args[2]); err != nil {
			return err
		}
		return a.setRate(cmd.Context(), &r, replaces, set)
	}
	return cmd
}

// setRate sets a rate and prints what is set then.
func (a *app) setRate(ctx context.Context, r *rateChange, replaces bool, set rateSetter) error {
	return a.withRedis(ctx, func(rdb redis.UniversalClient) error {
		c := a.client(rdb)
		defer c.Close()
		l := c.RateLimiter(r.name)
		if r.staysType || r.staysAlive {
			if err := r.takeOver(ctx, l); err != nil {
				return err
			}
		}
		if replaces {
			if err := a.confirmRate(ctx, rdb, r); err != nil {
				return err
			}
		}
		ok, err := set(ctx, l, r)
		if err != nil {
			return err
		}
		is := &r.config
		switch {
		case !ok && replaces:
			is = nil
		case !ok:
			there, err := l.Config(ctx)
			if err != nil {
				return err
			}
			is = &there
		}
		return a.tellRate(r.name, ok, is)
	})
}

// confirmRate asks if a new rate would forget permits that are taken.
func (a *app) confirmRate(ctx context.Context, rdb redis.UniversalClient, r *rateChange) error {
	if r.yes {
		return nil
	}
	l, err := a.look(ctx, rdb, r.name, inspect.Many)
	if err != nil || !l.Set {
		return err
	}
	same := l.Config.Type == r.config.Type.String()
	uncounted := l.Config.PerClient() && !same // what its clients hold
	if r.keepState && same || taken(l) == 0 && !uncounted {
		return nil
	}
	return a.confirm(ctx, false, "%s. With the new rate these are forgotten, and the limiter is full. "+
		"--keep-state keeps them if the type stays the same.", a.describe(r.name, l))
}

// tellRate prints the rate that is set now; is is nil if none is. ok: this run has set it.
func (a *app) tellRate(name string, ok bool, is *rratelimiter.Config) error {
	result := rateResult{Name: name, Set: ok}
	text := "no rate is set"
	if is != nil {
		result.Config = &inspect.Config{
			Type: is.Type.String(), Rate: is.Rate,
			Interval: is.Interval.Milliseconds(), KeepAlive: is.KeepAlive.Milliseconds(),
		}
		text = rateOf(result.Config)
	}
	switch {
	case ok:
		text = "set: " + text
	case is != nil:
		text = "not set, for there is one: " + text
	}
	err := a.print(result, func(w io.Writer) { fmt.Fprintf(w, "%q: %s\n", name, text) })
	if err == nil && !ok {
		return errNo
	}
	return err
}

// rateOf returns what is set, in words.
func rateOf(c *inspect.Config) string {
	text := fmt.Sprintf("%s per %s, %s", words.Count(c.Rate, "permit"), words.Span(c.Interval), c.Type)
	if c.KeepAlive != 0 {
		text += ", keep alive " + words.Span(c.KeepAlive)
	}
	return text
}
