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

// A rateChange is a command that sets a rate, and its arguments.
type rateChange struct {
	replaces bool // a rate that is set, which needs a question
	updates  bool // only a rate that is set; type and keep alive are kept unless they are given

	config              rratelimiter.Config
	perClient           bool
	keepState, yes      bool
	keepType, keepAlive bool // of the rate that is set
}

// A rateResult is the output of set, try-set and update.
type rateResult struct {
	Name   string          `json:"name"`
	Set    bool            `json:"set"`
	Config *inspect.Config `json:"config,omitempty"` // the current rate, nil if there is none
}

func (a *app) setCommand() *cobra.Command {
	return a.rateCommand(&cobra.Command{
		Use:   "set NAME RATE INTERVAL",
		Short: "Set a rate, whatever was set before",
		Long: `Set RATE permits per INTERVAL, whatever was set before. The limiter starts full: permits
that are taken no longer count, unless --keep-state is given. If that makes a difference, it
asks first.`,
		Example: "  rrl set api 100 1s\n  rrl set api 100/1s\n  rrl set api 500 1m --keep-state",
	}, &rateChange{replaces: true})
}

func (a *app) trySetCommand() *cobra.Command {
	return a.rateCommand(&cobra.Command{
		Use:   "try-set NAME RATE INTERVAL",
		Short: "Set a rate if none is set",
		Long: `Set RATE permits per INTERVAL if no rate is set. An existing rate stays: then it is printed,
and the exit code is 1.`,
		Example: "  rrl try-set api 100 1s --keep-alive 24h",
	}, &rateChange{})
}

func (a *app) updateCommand() *cobra.Command {
	return a.rateCommand(&cobra.Command{
		Use:   "update NAME RATE INTERVAL",
		Short: "Change the rate if one is set",
		Long: `Like rrl set, but only where a rate is set. If there is none, nothing is changed, and the exit
code is 1. Type and keep alive stay as they are, unless they are given.`,
		Example: "  rrl update api 200 1s --keep-state",
	}, &rateChange{replaces: true, updates: true})
}

// rateCommand completes a command that sets a rate.
func (a *app) rateCommand(cmd *cobra.Command, r *rateChange) *cobra.Command {
	flags := cmd.Flags()
	flags.BoolVar(&r.perClient, "per-client", false, "a limit for each client: PER_CLIENT, not OVERALL")
	flags.DurationVar(&r.config.KeepAlive, "keep-alive", 0,
		"the limiter expires when unused for this long; 0 is never")
	if r.replaces {
		flags.BoolVar(&r.keepState, "keep-state", false, "permits that are taken count against the new rate")
		yesFlag(cmd, &r.yes)
	}
	cmd.Args = named(1, 2, 3)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if r.perClient {
			r.config.Type = rratelimiter.PerClient
		}
		r.keepType = r.updates && !flags.Changed("per-client")
		r.keepAlive = r.updates && !flags.Changed("keep-alive")
		if r.config.Rate, r.config.Interval, err = rateArgs(args[1:]); err != nil {
			return err
		}
		return a.withRedis(cmd.Context(), func(rdb redis.UniversalClient) error {
			return a.setRate(cmd.Context(), rdb, args[0], r)
		})
	}
	return cmd
}

// setRate sets a rate and prints the current one.
func (a *app) setRate(ctx context.Context, rdb redis.UniversalClient, name string, r *rateChange) error {
	c := a.client(rdb)
	defer c.Close()
	l, is := c.RateLimiter(name), &r.config
	if err := r.complete(ctx, l); err != nil {
		return err
	}
	if err := a.confirmRate(ctx, rdb, name, r); err != nil {
		return err
	}
	var opts []rratelimiter.RateOption
	if is.KeepAlive != 0 {
		opts = append(opts, rratelimiter.WithKeepAlive(is.KeepAlive))
	}
	if r.keepState {
		opts = append(opts, rratelimiter.WithKeepState())
	}
	ok, err := true, error(nil)
	switch {
	case r.updates:
		ok, err = l.UpdateRate(ctx, is.Type, is.Rate, is.Interval, opts...)
	case r.replaces:
		err = l.SetRate(ctx, is.Type, is.Rate, is.Interval, opts...)
	default:
		ok, err = l.TrySetRate(ctx, is.Type, is.Rate, is.Interval, opts...)
	}
	if err != nil {
		return err
	}
	result, text := rateResult{Name: name, Set: ok}, "no rate is set"
	if !ok && !r.replaces {
		there, err := l.Config(ctx)
		if err != nil {
			return err
		}
		is = &there
	}
	if ok || !r.replaces {
		result.Config = &inspect.Config{
			Type: is.Type.String(), Rate: is.Rate,
			Interval: is.Interval.Milliseconds(), KeepAlive: is.KeepAlive.Milliseconds(),
		}
		text = "not set, a rate exists: "
		if ok {
			text = "set: "
		}
		text += rateOf(result.Config)
	}
	return no(a.print(result, func(w io.Writer) { fmt.Fprintf(w, "%q: %s\n", name, text) }), ok)
}

// complete takes type and keep alive from the rate that is set, where they are kept.
func (r *rateChange) complete(ctx context.Context, l *rratelimiter.RateLimiter) error {
	if !r.keepType && !r.keepAlive {
		return nil
	}
	there, err := l.Config(ctx)
	if errors.Is(err, rratelimiter.ErrNotInitialized) {
		return nil // update will say so
	}
	if r.keepType {
		r.config.Type = there.Type
	}
	if r.keepAlive {
		r.config.KeepAlive = there.KeepAlive
	}
	return err
}

// confirmRate asks if a new rate would forget permits that are taken.
func (a *app) confirmRate(
	ctx context.Context, rdb redis.UniversalClient, name string, r *rateChange,
) error {
	if r.yes || !r.replaces {
		return nil
	}
	l, err := a.look(ctx, rdb, name, inspect.Many)
	if err != nil || !l.Set {
		return err
	}
	same := l.Config.Type == r.config.Type.String()
	uncounted := l.Config.PerClient() && !same // the permits that its clients hold
	if r.keepState && same || outstanding(l) == 0 && !uncounted {
		return nil
	}
	return a.confirm(ctx, false, "%s. With the new rate these are forgotten, and the limiter is full. "+
		"--keep-state keeps them if the type stays the same.", a.describe(name, l))
}

// rateOf returns a rate in words.
func rateOf(c *inspect.Config) string {
	text := fmt.Sprintf("%s per %s, %s", words.Count(c.Rate, "permit"), words.Span(c.Interval), c.Type)
	if c.KeepAlive != 0 {
		text += ", keep alive " + words.Span(c.KeepAlive)
	}
	return text
}
