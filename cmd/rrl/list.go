package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/words"
)

func (a *app) listCommand() *cobra.Command {
	var scan inspect.Scan
	cmd := &cobra.Command{
		Use:   "list [PATTERN]",
		Short: "List the limiters and locks whose names match a pattern, as in 'api:*'",
		Long: `List the limiters, and the locks that are held, whose names match a pattern of Redis
(* ? [abc]); without a pattern all of them.

It goes through all keys of the database, 1,000 to a call, and writes nothing. Up to 16 clients of
a PER_CLIENT limiter are read: remaining is the lowest of them, outstanding is their sum. "wrong"
is a summary of the findings of rrl inspect.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern := "*"
			if len(args) > 0 {
				pattern = args[0]
			}
			scan.Match = inspect.Literal(a.prefix) + pattern
			return a.list(cmd, scan)
		},
	}
	cmd.Flags().IntVar(&scan.Limit, "limit", 0, "stop at this many limiters and locks; 0 is all")
	return cmd
}

// A listing is the output of list as JSON.
type listing struct {
	Limiters []*inspect.Limiter `json:"limiters"`
	Locks    []*inspect.Lock    `json:"locks"`
	Done     inspect.Progress   `json:"done"`
}

func (a *app) list(cmd *cobra.Command, scan inspect.Scan) error {
	if scan.Limit < 0 {
		return fmt.Errorf("--limit is %d, must be at least 0, which is all", scan.Limit)
	}
	show, erase := a.progress()
	scan.Progress = func(p inspect.Progress) {
		show("about %d keys scanned, %d limiters, %d locks", p.Keys, p.Limiters, p.Locks)
	}
	var l listing
	err := a.withRedis(cmd.Context(), func(rdb redis.UniversalClient) (err error) {
		l.Limiters, l.Locks, l.Done, err = scan.All(cmd.Context(), rdb)
		return err
	})
	erase()
	if err != nil {
		return err
	}
	for _, found := range l.Limiters {
		found.Name = strings.TrimPrefix(found.Name, a.prefix)
	}
	for _, found := range l.Locks {
		found.Name = strings.TrimPrefix(found.Name, a.prefix)
	}
	if err := a.print(l, l.tables); err != nil {
		return err
	}
	text := words.Count(int64(len(l.Limiters)), "limiter")
	if n := len(l.Locks); n > 0 {
		text += ", " + words.Count(int64(n), "lock")
	}
	if l.Done.Stopped {
		text += "; there are more"
	}
	fmt.Fprintln(a.stderr, text)
	return nil
}

// longest cuts a name to the columns that it has in a table.
func longest(name string) string { return ansi.Truncate(words.Name(name), 60, "…") }

// tables prints the limiters as a table, and the locks as another.
func (l listing) tables(w io.Writer) {
	if len(l.Limiters) > 0 {
		l.limiters(w)
	}
	if len(l.Limiters) > 0 && len(l.Locks) > 0 {
		fmt.Fprintln(w)
	}
	if len(l.Locks) > 0 {
		l.locks(w)
	}
}

func (l listing) limiters(w io.Writer) {
	const header = "NAME|TYPE|RATE|INTERVAL|REMAINING|OUTSTANDING|TTL|KEEP ALIVE|CLIENTS|WRONG"
	table(w, 0, header, func(row func(cells ...any)) {
		for _, l := range l.Limiters {
			c := &l.Config
			remaining, debt, outstanding := c.Rate, int64(0), int64(0)
			least, owed, clients := "", "", "-"
			for _, p := range l.InUse() {
				remaining, debt = min(remaining, p.Remaining), max(debt, p.Debt)
				outstanding += p.Outstanding
				if p.AtLeast {
					least = ">="
				}
			}
			if c.PerClient() {
				clients = fmt.Sprint(l.Clients)
			}
			if debt > 0 {
				owed = fmt.Sprintf(", %d in debt", debt)
			}
			row(longest(l.Name), c.Type, c.Rate, words.Span(c.Interval), least+fmt.Sprint(remaining)+owed,
				outstanding, ttl(l.Keys[0].TTL), keepAlive(c.KeepAlive), clients, labels(l.Findings))
		}
	})
}

func (l listing) locks(w io.Writer) {
	table(w, 0, "LOCK|KIND|HELD BY|TIMES|TTL|WAITING|TOKEN|WRONG", func(row func(cells ...any)) {
		for _, l := range l.Locks {
			by, times, waiting, token := "-", "-", "-", "-"
			if len(l.Owners) > 0 {
				by, times = longest(l.Owners[0].Name), fmt.Sprint(l.Owners[0].Count)
			}
			if l.Kind == inspect.Fair {
				waiting = fmt.Sprint(l.Waiting)
			}
			if l.Token != "" {
				token = words.Name(l.Token)
			}
			row(longest(l.Name), l.Kind, by, times, ttl(l.TTL()), waiting, token, labels(l.Findings))
		}
	})
}

// labels returns the labels of the findings that are not remarks.
func labels(found []inspect.Finding) string {
	var wrong []string
	for i := range found {
		if !found[i].Remark {
			wrong = append(wrong, found[i].Label)
		}
	}
	return strings.Join(wrong, ", ")
}
