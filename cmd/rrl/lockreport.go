package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/charmbracelet/x/ansi"

	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/words"
)

// A lockReport is what inspect prints of a lock.
type lockReport struct {
	*inspect.Lock
	all   bool // waiters
	check bool // only what is wrong
}

// print prints the report. The output keeps the first error.
func (r lockReport) print(w io.Writer) {
	if r.check {
		printFindings(w, r.Findings)
		return
	}
	fmt.Fprintf(w, "%s at %s\n", words.Name(r.Name), r.At.UTC().Format("2006-01-02 15:04:05.000 MST"))
	fmt.Fprintf(w, "%s lock, %s\n", r.Kind, state(r.Lock))
	if r.Token != "" {
		fmt.Fprintf(w, "  last token  %s\n", words.Name(r.Token))
	}
	if r.Kind == inspect.Fair {
		fmt.Fprintf(w, "  waiting     %d\n", r.Waiting)
	}
	if r.Latches != nil && r.Latches.Found > 0 {
		least := ""
		if r.Latches.AtLeast {
			least = "at least "
		}
		fmt.Fprintf(w, "  latches     %s%d, of holds that have ended\n", least, r.Latches.Found)
	}
	if len(r.Findings) > 0 {
		fmt.Fprintln(w)
		printFindings(w, r.Findings)
	}
	r.keys(w)
	r.waiters(w)
}

// keys prints the keys that are there.
func (r lockReport) keys(w io.Writer) {
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KEY\tKIND\tTTL")
	for _, k := range r.Keys {
		if k.There() {
			fmt.Fprintf(t, "%s\t%s\t%s\n", words.Name(k.Name), k.Kind, ttl(k.TTL))
		}
	}
	_ = t.Flush()
}

// waiters prints who waits for a fair lock, the next first.
func (r lockReport) waiters(w io.Writer) {
	if len(r.Waiters) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PLACE\tWAITER\tCOUNTS UNTIL\t")
	for i, waiter := range r.Waiters {
		if !r.all && i == shownRecords {
			fmt.Fprintf(t, "...\t%d more, --all prints them\t\t\n", len(r.Waiters)-i)
			break
		}
		until, left := "unknown", ""
		if waiter.Until != nil {
			ms := waiter.Until.Sub(r.At).Milliseconds()
			until, left = waiter.Until.Format("15:04:05.000"), "for "+words.Span(ms)
			if waiter.Dead {
				left = "dead since " + words.Span(-ms)
			}
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\n", i+1, words.Name(waiter.Owner), until, left)
	}
	_ = t.Flush()
}

// printLocks prints locks as a table.
func printLocks(w io.Writer, locks []*inspect.Lock) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "LOCK\tKIND\tHELD BY\tTIMES\tTTL\tWAITING\tTOKEN\tWRONG")
	for _, l := range locks {
		by, times, waiting, token := "-", "-", "-", "-"
		if len(l.Owners) > 0 {
			by, times = words.Name(l.Owners[0].Name), fmt.Sprint(l.Owners[0].Count)
		}
		if l.Kind == inspect.Fair {
			waiting = fmt.Sprint(l.Waiting)
		}
		if l.Token != "" {
			token = words.Name(l.Token)
		}
		name := ansi.Truncate(words.Name(l.Name), longestName, "…")
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t", name, l.Kind, ansi.Truncate(by, longestName, "…"), times,
			ttl(l.TTL()))
		fmt.Fprintf(t, "%s\t%s\t%s\n", waiting, token, strings.Join(labels(l.Findings), ", "))
	}
	_ = t.Flush()
}

// labels returns what is wrong, in a word each.
func labels(found []inspect.Finding) (wrong []string) {
	for i := range found {
		if !found[i].Remark {
			wrong = append(wrong, found[i].Label())
		}
	}
	return wrong
}
