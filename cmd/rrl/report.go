package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/words"
)

// table prints a table. rows calls its argument for each row. The output keeps the first error.
func table(w io.Writer, align uint, header string, rows func(row func(cells ...any))) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', align)
	end := "\n"
	if align == tabwriter.AlignRight {
		end = "\t\n"
	}
	fmt.Fprint(t, strings.ReplaceAll(header, "|", "\t")+end)
	rows(func(cells ...any) {
		fmt.Fprintf(t, strings.TrimSuffix(strings.Repeat("%v\t", len(cells)), "\t")+end, cells...)
	})
	_ = t.Flush()
}

// heading prints the first line of a report.
func heading(w io.Writer, name string, at time.Time) {
	fmt.Fprintf(w, "%s at %s\n", words.Name(name), at.UTC().Format("2006-01-02 15:04:05.000 MST"))
}

// findings prints each finding, and how to mend it.
func findings(w io.Writer, found []inspect.Finding) {
	for _, f := range found {
		text := "WRONG: "
		if f.Remark {
			text = "note: "
		}
		if f.ID != "" {
			text += "client " + words.Name(f.ID) + ": "
		}
		const width, indent = 76, "\n    "
		text = ansi.Wordwrap(text+f.What, width, "") + "\n" + ansi.Wordwrap(f.Mend, width, "")
		if f.Fault != "" {
			text += "\nSee docs/faults.md: " + f.Fault
		}
		fmt.Fprintln(w, strings.ReplaceAll(text, "\n", indent))
	}
}

// A report is the output of inspect for a limiter.
type report struct {
	*inspect.Limiter
	check bool // only what is wrong
}

// print prints the report. The output keeps the first error.
func (r report) print(w io.Writer) {
	if r.check && r.Set {
		findings(w, r.Findings)
		return
	}
	heading(w, r.Name, r.At)
	c := &r.Config
	switch bad := c.Unreadable(); {
	case !r.Set && !r.Keys[0].There():
		fmt.Fprintln(w, "Neither a limiter nor a lock that is held has this name.")
	case !r.Set:
		fmt.Fprintln(w, "No rate is set.")
	case bad != "":
		fmt.Fprintf(w, "%s, not readable: %s\n", c.Type, bad)
	default:
		fmt.Fprintf(w, "%s, %s per %s, keep alive %s\n", c.Type, words.Count(c.Rate, "permit"),
			words.Span(c.Interval), keepAlive(c.KeepAlive))
	}
	if !r.Set {
		r.tail(w, nil)
		return
	}
	pairs := r.InUse()
	for _, p := range pairs {
		r.pair(w, p)
	}
	switch shown := len(pairs); {
	case !c.PerClient():
	case shown == 0:
		fmt.Fprintln(w, "\nNo client has taken permits lately.")
	case r.Clients > shown:
		fmt.Fprintf(w, "\n%d more clients are not shown; --id shows one.\n", r.Clients-shown)
	}
	r.tail(w, pairs)
}

// tail prints findings, keys, records and sessions.
func (r report) tail(w io.Writer, pairs []*inspect.Pair) {
	if len(r.Findings) > 0 && !r.check {
		fmt.Fprintln(w)
	}
	findings(w, r.Findings)
	fmt.Fprintln(w)
	table(w, 0, "KEY|KIND|TTL|HOLDS", func(row func(cells ...any)) {
		for i, k := range r.Keys {
			if k.There() || i <= 2 { // later ones are keys of a pair that is not in use
				row(words.Name(k.Name), k.Kind, ttl(k.TTL), r.holds(i))
			}
		}
	})
	for _, p := range pairs {
		r.records(w, p)
	}
	r.sessions(w)
}

// pair prints the remaining permits, when the outstanding ones are back, and the window.
func (r report) pair(w io.Writer, p *inspect.Pair) {
	fmt.Fprintln(w)
	if p.ID != "" {
		fmt.Fprintf(w, "Client %s\n", words.Name(p.ID))
	}
	const width = 60
	rate := r.Config.Rate
	least, most := "", ""
	if p.AtLeast {
		least, most = "at least ", "at most "
	}
	left := gauge(p.Remaining, rate, width/2)
	fmt.Fprintf(w, "  remaining    %s %s%d of %d\n", left, least, p.Remaining, rate)
	if p.Debt > 0 {
		fmt.Fprintf(w, "  debt         %s%d, paid %s\n", most, p.Debt, in(p.PaidIn))
	}
	leased := ""
	if p.Leased > 0 {
		leased = fmt.Sprintf(", of which %d are leased", p.Leased)
	}
	fmt.Fprintf(w, "  outstanding  %d%s\n", p.Outstanding, leased)
	fmt.Fprintf(w, "  records      %s\n", recordsOf(p))
	var back []string
	for _, b := range p.Back {
		back = append(back, fmt.Sprintf("%s %s", words.Count(b.Permits, "permit"), in(b.In)))
	}
	fmt.Fprintf(w, "  back         %s\n", strings.Join(back, ", "))
	if window := r.Window(p, r.Config.Interval, width); window != nil {
		ago := words.Span(r.Config.Interval) + " ago"
		fmt.Fprintf(w, "  window       |%s|\n", bars(window))
		fmt.Fprintf(w, "               %s%*s\n", ago, width+len("||")-len(ago), "now")
	}
	fmt.Fprintf(w, "  check        %s\n", check(p, rate))
}

// check says whether value + permits of all records = rate.
func check(p *inspect.Pair, rate int64) string {
	taken, value := p.Outstanding+p.Over, "(none)"
	if p.HasValue {
		value = words.Name(p.Value)
	}
	switch {
	case !p.Checked:
		return "could not be made"
	case !p.HasValue && p.Total == 0:
		return "no value and no records: nothing is taken"
	case p.HasValue && p.Drift == 0:
		return fmt.Sprintf("value %d + permits of all records %d = rate %d", p.Number, taken, rate)
	}
	return fmt.Sprintf("FAILS: value %s + permits of all records %d, the rate is %d", value, taken, rate)
}

// recordsOf counts the records of a pair, by their authors, and those that have expired.
func recordsOf(p *inspect.Pair) string {
	byGo, over := 0, 0
	for _, r := range p.Records {
		if r.ByGo {
			byGo++
		}
		if r.Over {
			over++
		}
	}
	text := fmt.Sprint(p.Total)
	if p.Unread > 0 {
		text += fmt.Sprintf(", of which %d were read", len(p.Records))
	}
	if len(p.Records) > 0 {
		text += fmt.Sprintf(": %d by Go, %d by others", byGo, len(p.Records)-byGo)
	}
	if over > 0 {
		text += fmt.Sprintf("; %d have expired, the next acquires remove them", over)
	}
	return text
}

// in says when permits are back.
func in(ms int64) string {
	switch ms {
	case 0:
		return "now"
	case inspect.Unknown:
		return "at an unknown time: not all records were read"
	}
	return "in " + words.Span(ms)
}

// gauge draws a part of a whole.
func gauge(part, whole int64, width int) string {
	n := 0
	if whole > 0 {
		n = int(float64(part) / float64(whole) * float64(width))
	}
	n = max(0, min(n, width))
	return "[" + strings.Repeat("#", n) + strings.Repeat(".", width-n) + "]"
}

// bars draws grants as blocks of different heights. Any grant is visible.
func bars(window []inspect.Grants) string {
	blocks := []rune(" ▁▂▃▄▅▆▇█")
	most := int64(1)
	for _, g := range window {
		most = max(most, g.ByGo+g.ByOthers)
	}
	var b strings.Builder
	for _, g := range window {
		n := g.ByGo + g.ByOthers
		height := int(float64(n) / float64(most) * float64(len(blocks)-1))
		if n > 0 {
			height = max(height, 1)
		}
		b.WriteRune(blocks[max(0, height)])
	}
	return b.String()
}

// holds summarizes the contents of a key.
func (r report) holds(i int) string {
	if i == 0 {
		return words.Count(r.Fields, "field")
	}
	switch p := &r.Pairs[(i-1)/2]; {
	case i%2 == 0:
		return words.Count(p.Total, "record")
	case p.HasValue:
		return words.Name(p.Value)
	}
	return ""
}

// shownRecords is how many records are printed at each end; --json prints all that were read.
const shownRecords = 10

// records prints the records of a pair, oldest first.
func (r report) records(w io.Writer, p *inspect.Pair) {
	if len(p.Records) == 0 {
		return
	}
	fmt.Fprintln(w)
	if p.ID != "" {
		fmt.Fprintf(w, "Records of client %s\n", words.Name(p.ID))
	}
	table(w, tabwriter.AlignRight, "TAKEN AT|AGE|PERMITS|BACK IN|FORMAT|BY", func(row func(cells ...any)) {
		note := func(text string) { row("...", "", "", "", "", "", text) }
		for i := 0; i < len(p.Records); i++ {
			if p.Unread > 0 && i == p.Gap {
				note(words.Count(p.Unread, "record") + " not read")
			}
			if i == shownRecords && len(p.Records) > 2*shownRecords+1 {
				skipped := len(p.Records) - 2*shownRecords
				note(words.Count(int64(skipped), "record") + " more, --json prints them")
				i += skipped
			}
			r.record(&p.Records[i], row)
		}
	})
}

// record prints one record.
func (r report) record(record *inspect.Record, row func(cells ...any)) {
	format, by := record.Format, "another"
	if format == "" {
		format = "none of Redisson"
	}
	switch {
	case record.Lease && record.Ahead:
		by = "Go, leased"
	case record.ByGo:
		by = "Go"
	}
	age := r.At.Sub(record.At).Milliseconds()
	since := words.Span(age)
	if age < 0 { // dated by the end of a lease
		since = in(-age)
	}
	back := "is back"
	if !record.Over {
		back = words.Span(r.Config.Interval - age)
	}
	row(record.At.Format("15:04:05.000"), since, record.Permits, back, format, by)
}

// sessions prints the last requests of Go Clients, the newest first.
func (r report) sessions(w io.Writer) {
	if len(r.Sessions) == 0 {
		return
	}
	fmt.Fprintln(w)
	table(w, 0, "SESSION OF GO|REQUEST|AGE|DID", func(row func(cells ...any)) {
		for i, s := range r.Sessions {
			if i == shownRecords {
				row(fmt.Sprintf("%d more, --json prints them", len(r.Sessions)-i))
				break
			}
			did := "took " + words.Count(s.Amount, "permit")
			if s.Amount < 0 {
				did = "gave back " + words.Count(-s.Amount, "permit")
			}
			row(words.Name(s.Field), s.Number, words.Span(r.At.Sub(s.At).Milliseconds()), did)
		}
	})
}

// A lockReport is the output of inspect for a lock.
type lockReport struct {
	*inspect.Lock
	check bool // only what is wrong
}

// print prints the report. The output keeps the first error.
func (r lockReport) print(w io.Writer) {
	if r.check {
		findings(w, r.Findings)
		return
	}
	heading(w, r.Name, r.At)
	fmt.Fprintf(w, "%s lock, %s\n", r.Kind, state(r.Lock))
	if r.Token != "" {
		fmt.Fprintf(w, "  last token  %s\n", words.Name(r.Token))
	}
	if r.Kind == inspect.Fair {
		fmt.Fprintf(w, "  waiting     %d\n", r.Waiting)
	}
	if len(r.Findings) > 0 {
		fmt.Fprintln(w)
		findings(w, r.Findings)
	}
	fmt.Fprintln(w)
	table(w, 0, "KEY|KIND|TTL", func(row func(cells ...any)) {
		for _, k := range r.Keys {
			if k.There() {
				row(words.Name(k.Name), k.Kind, ttl(k.TTL))
			}
		}
	})
	if len(r.Waiters) == 0 {
		return
	}
	fmt.Fprintln(w)
	table(w, 0, "PLACE|WAITER|COUNTS UNTIL|", func(row func(cells ...any)) {
		for i, waiter := range r.Waiters {
			if i == shownRecords {
				row("...", fmt.Sprintf("%d more, --json prints them", len(r.Waiters)-i), "", "")
				break
			}
			until, left := r.until(waiter)
			row(i+1, words.Name(waiter.Owner), until, left)
		}
	})
}

// until says until when a waiter counts, and how long that is from now.
func (r lockReport) until(waiter inspect.Waiter) (until, left string) {
	if waiter.Until == nil {
		return "unknown", ""
	}
	ms := waiter.Until.Sub(r.At).Milliseconds()
	left = "for " + words.Span(ms)
	if waiter.Dead {
		left = "dead since " + words.Span(-ms)
	}
	return waiter.Until.Format("15:04:05.000"), left
}

// ttl returns a reply of PTTL in words.
func ttl(ms int64) string {
	switch ms {
	case -1:
		return "none"
	case -2: // no key
		return "-"
	}
	return words.Span(ms)
}

// keepAlive returns a keep alive in words.
func keepAlive(ms int64) string {
	if ms == 0 {
		return "none"
	}
	return words.Span(ms)
}
