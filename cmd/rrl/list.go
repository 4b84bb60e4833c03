package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

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
(* ? [abc]), all of them without one.

What it costs: they are found by SCAN, which goes through all keys of the database, 1,000 to a
call, so that no call takes long. Each hash among them costs one HMGET and HLEN, in one round
trip for a page, and one HKEYS in another, if it is no limiter and has 4 fields at most; each
limiter and lock one look of one round trip, which reads up to 200 of its records or waiters. If
there is a PER_CLIENT limiter, the keys are gone through once more, for its clients. Nothing is
written.

Of a PER_CLIENT limiter up to 16 clients are read: remaining is that of the client with the
least, outstanding is for all of these. A lock has fields ID:number only; if an ID is no UUID, it
is listed if it has a TTL. "wrong" names what rrl inspect will say more about.`,
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
	cmd.Flags().Int64Var(&scan.Page, "page", inspect.DefaultPage,
		"keys that Redis looks at in one call, 10 to 10000")
	cmd.Flags().IntVar(&scan.Limit, "limit", 0, "stop at so many limiters and locks; 0 is all")
	return cmd
}

// A listing is what list prints as JSON.
type listing struct {
	Limiters []*inspect.Limiter `json:"limiters"`
	Locks    []*inspect.Lock    `json:"locks"`
	Done     inspect.Progress   `json:"done"`
}

func (a *app) list(cmd *cobra.Command, scan inspect.Scan) error {
	const least, most = 10, 10_000
	switch {
	case scan.Page < least || scan.Page > most:
		return fmt.Errorf("--page is %d, must be between %d and %d", scan.Page, least, most)
	case scan.Limit < 0:
		return fmt.Errorf("--limit is %d, must be 0 or more", scan.Limit)
	}
	show, erase := a.progress()
	scan.Progress = func(p inspect.Progress) {
		show("about %d keys looked at, %d limiters, %d locks", p.Keys, p.Limiters, p.Locks)
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
	locks, more := "", ""
	if n := len(l.Locks); n > 0 {
		locks = ", " + words.Count(int64(n), "lock")
	}
	if l.Done.Stopped {
		more = "; there are more"
	}
	fmt.Fprintf(a.stderr, "%s%s, found in %s%s\n", words.Count(int64(len(l.Limiters)), "limiter"), locks,
		words.Count(l.Done.Calls, "round trip"), more)
	return nil
}

// longestName is the columns that a name has in a table.
const longestName = 60

// tables prints the limiters as a table, and the locks as another.
func (l listing) tables(w io.Writer) {
	if len(l.Limiters) > 0 {
		l.table(w)
	}
	if len(l.Limiters) > 0 && len(l.Locks) > 0 {
		fmt.Fprintln(w)
	}
	if len(l.Locks) > 0 {
		printLocks(w, l.Locks)
	}
}

// table prints the limiters.
func (l listing) table(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tTYPE\tRATE\tINTERVAL\tREMAINING\tOUTSTANDING\tTTL\tKEEP ALIVE\tCLIENTS\tWRONG")
	for _, l := range l.Limiters {
		remaining, outstanding := l.Config.Rate, int64(0)
		least := ""
		for _, p := range l.InUse() {
			remaining = min(remaining, p.Remaining)
			outstanding += p.Outstanding
			if p.AtLeast {
				least = ">="
			}
		}
		clients := "-"
		if l.Config.PerClient() {
			clients = fmt.Sprint(l.Clients)
		}
		c := &l.Config
		name := ansi.Truncate(words.Name(l.Name), longestName, "…")
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t", name, c.Type, c.Rate, words.Span(c.Interval))
		fmt.Fprintf(t, "%s%d\t%d\t", least, remaining, outstanding)
		fmt.Fprintf(t, "%s\t%s\t", ttl(l.Keys[0].TTL), keepAlive(c.KeepAlive))
		fmt.Fprintf(t, "%s\t%s\n", clients, strings.Join(labels(l.Findings), ", "))
	}
	_ = t.Flush() // the output keeps the error
}
