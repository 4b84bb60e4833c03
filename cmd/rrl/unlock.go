package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/words"
)

func (a *app) unlockCommand() *cobra.Command {
	var force, yes bool
	cmd := &cobra.Command{
		Use:   "unlock NAME --force",
		Short: "Unlock whoever holds a lock",
		Long: `Unlock whoever holds a lock. It asks first. The exit code is 1 if nobody holds it.

The holder goes on meanwhile: it knows at its next renewal, after 10 s, or when it unlocks. So do
this when it is known to be gone. What must not happen twice needs the token of a fenced lock.`,
		Args: named(1, 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !force {
				return errors.New("--force is missing: a lock is unlocked by who holds it")
			}
			return a.withRedis(cmd.Context(), func(rdb redis.UniversalClient) error {
				return a.forceUnlock(cmd.Context(), rdb, args[0], yes)
			})
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "unlock it for whoever holds it")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// An unlocked is what unlock prints.
type unlocked struct {
	Name     string          `json:"name"`
	Unlocked bool            `json:"unlocked"`
	Owners   []inspect.Owner `json:"owners"` // who held it, when rrl looked
}

func (a *app) forceUnlock(ctx context.Context, rdb redis.UniversalClient, name string, yes bool) error {
	l, err := inspect.ReadLock(ctx, rdb, a.mapped(name), inspect.Few)
	switch {
	case err != nil:
		return err
	case len(l.Owners) == 0 && l.Keys[0].There(): // a limiter, or anything else
		return fmt.Errorf("%q is no lock, but a %s of something else", name, l.Keys[0].Kind)
	}
	done := unlocked{Name: name, Owners: l.Owners}
	if len(l.Owners) > 0 {
		err := a.confirm(ctx, yes, "%q: %s.\nIt is unlocked, whether its holder still works or not.", name,
			state(l))
		if err != nil {
			return err
		}
		c := a.client(rdb)
		defer c.Close()
		if done.Unlocked, err = lockOf(c, name, l.Kind).ForceUnlock(ctx); err != nil {
			return err
		}
	}
	err = a.print(done, func(w io.Writer) {
		if done.Unlocked {
			fmt.Fprintf(w, "%q: unlocked\n", name)
		} else {
			fmt.Fprintf(w, "%q: nobody holds it\n", name)
		}
	})
	if err == nil && !done.Unlocked {
		return errNo
	}
	return err
}

// state says who holds a lock.
func state(l *inspect.Lock) string {
	if len(l.Owners) == 0 {
		return "free"
	}
	var by []string
	for _, o := range l.Owners {
		text := words.Name(o.Name)
		if o.Count != 1 {
			text += fmt.Sprintf(" %d times", o.Count)
		}
		by = append(by, text)
	}
	text := "held by " + strings.Join(by, " and ")
	if ttl := l.TTL(); ttl >= 0 {
		return text + ", for " + words.Span(ttl) + " unless it is renewed"
	}
	return text + ", without end"
}
