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

// A report is what inspect prints.
type report struct {
	*inspect.Limiter
	all   bool // records
	check bool // only what is wrong
}

// print prints the report. The output keeps the first error.
func (r report) print(w io.Writer) {
	if r.check && r.Set {
		r.findings(w)
		return
	}
	fmt.Fprintf(w, "%s at %s\n", words.Name(r.Name), r.At.UTC().Format("2006-01-02 15:04:05.000 MST"))
	if !r.Set {
		if !r.Keys[0].There() {
			fmt.Fprintln(w, "Neither a limiter nor a lock that is held has this name.")
		} else {
			fmt.Fprintln(w, "No rate is set.")
		}
		r.findings(w)
		r.keys(w)
		return
	}
	c := r.Config
	if bad := c.Unreadable(); bad != "" {
		fmt.Fprintf(w, "%s, not readable: %s\n", c.Type, bad)
	} else {
		fmt.Fprintf(w, "%s, %s per %s, keep alive %s\n", c.Type, words.Count(c.Rate, "permit"),
			words.Span(c.Interval), keepAlive(c.KeepAlive))
	}
	for _, p := range r.InUse() {
		r.pair(w, p)
	}
	if c.PerClient() {
		r.clients(w)
	}
	r.findings(w)
	r.keys(w)
	for _, p := range r.InUse() {
		r.records(w, p)
	}
	r.sessions(w)
}

// pair prints what is left, when the rest is back, and the window.
func (r report) pair(w io.Writer, p *inspect.Pair) {
	if p.ID != "" {
		fmt.Fprintf(w, "\nClient %s\n", words.Name(p.ID))
	} else {
		fmt.Fprintln(w)
	}
	const width = 60
	rate := r.Config.Rate
	least := ""
	if p.AtLeast {
		least = "at least "
	}
	left := gauge(p.Remaining, rate, width/2)
	fmt.Fprintf(w, "  remaining    %s %s%d of %d\n", left, least, p.Remaining, rate)
	fmt.Fprintf(w, "  outstanding  %d\n", p.Outstanding)
	fmt.Fprintf(w, "  records      %s\n", recordsOf(p))
	var back []string
	for _, b := range p.Back {
		back = append(back, fmt.Sprintf("%s %s", words.Count(b.Permits, "permit"), in(b.In)))
	}
	fmt.Fprintf(w, "  back         %s\n", strings.Join(back, ", "))
	if window := r.Window(p, width); window != nil {
		ago := words.Span(r.Config.Interval) + " ago"
		fmt.Fprintf(w, "  window       |%s|\n", bars(window))
		fmt.Fprintf(w, "               %s%*s\n", ago, width+len("||")-len(ago), "now")
	}
	fmt.Fprintf(w, "  check        %s\n", check(p, rate))
}

// check says whether value + permits of all records = rate.
func check(p *inspect.Pair, rate int64) string {
	taken := p.Outstanding + p.Over
	switch {
	case !p.Checked:
		return "could not be made"
	case !p.HasValue && p.Total == 0:
		return "no value and no records: nothing is taken"
	case p.HasValue && p.Drift == 0:
		return fmt.Sprintf("value %d + permits of all records %d = rate %d", p.Number, taken, rate)
	}
	return fmt.Sprintf("FAILS: value %s + permits of all records %d, the rate is %d", valueOf(p), taken, rate)
}

// valueOf returns the value as Redis has it.
func valueOf(p *inspect.Pair) string {
	if !p.HasValue {
		return "(none)"
	}
	return words.Name(p.Value)
}

// recordsOf says how many records there are, who has written them, and how many do not count any more.
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
		text += fmt.Sprintf("; %d are over, the next acquires remove them", over)
	}
	return text
}

// in says how long permits take.
func in(ms int64) string {
	switch ms {
	case 0:
		return "now"
	case inspect.Unknown:
		return "at a time that depends on records that were not read"
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

// bars draws grants as blocks of different heights. What is not zero is seen.
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

// clients says how many clients are not shown.
func (r report) clients(w io.Writer) {
	switch shown := len(r.InUse()); {
	case shown == 0:
		fmt.Fprintln(w, "\nNo client has taken permits lately.")
	case r.Clients > shown:
		fmt.Fprintf(w, "\n%d clients more are not shown; --id shows one.\n", r.Clients-shown)
	}
}

// findings prints what is wrong.
func (r report) findings(w io.Writer) {
	if len(r.Findings) > 0 && !r.check {
		fmt.Fprintln(w)
	}
	printFindings(w, r.Findings)
}

// printFindings prints what is wrong, and what mends it.
func printFindings(w io.Writer, found []inspect.Finding) {
	for _, f := range found {
		client := ""
		if f.ID != "" {
			client = "client " + words.Name(f.ID) + ": "
		}
		kind := "WRONG"
		if f.Remark {
			kind = "note"
		}
		if f.Fault != "" {
			kind += ", looks like " + f.Fault
		}
		const width, indent = 76, "\n    "
		text := ansi.Wordwrap(kind+": "+client+f.What, width, "") + "\n" + ansi.Wordwrap(f.Mend, width, "")
		fmt.Fprintln(w, strings.ReplaceAll(text, "\n", indent))
	}
}

// keys prints the keys that are there, or all if none is.
func (r report) keys(w io.Writer) {
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KEY\tKIND\tTTL\tHOLDS")
	for i, k := range r.Keys {
		if !k.There() && i > 2 {
			continue // keys of a pair that is not in use
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", words.Name(k.Name), k.Kind, ttl(k.TTL), r.holds(i))
	}
	_ = t.Flush()
}

// holds says in short what a key holds.
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

// shownRecords is how many records are printed at each end, unless all are asked for.
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
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "TAKEN AT\tAGE\tPERMITS\tBACK IN\tFORMAT\tBY\t")
	gap := p.Gap
	if p.Unread == 0 {
		gap = -1
	}
	for i := 0; i < len(p.Records); i++ {
		if i == gap {
			fmt.Fprintf(t, "...\t\t\t\t\t\t%d records were not read\n", p.Unread)
		}
		if !r.all && i == shownRecords && len(p.Records) > 2*shownRecords+1 {
			skipped := len(p.Records) - 2*shownRecords
			more := words.Count(int64(skipped), "record")
			fmt.Fprintf(t, "...\t\t\t\t\t\t%s more, --all prints them\n", more)
			i += skipped
		}
		r.record(t, &p.Records[i])
	}
	_ = t.Flush()
}

// record prints one record.
func (r report) record(w io.Writer, record *inspect.Record) {
	format, by := record.Format, "another"
	if format == "" {
		format = "none of Redisson"
	}
	if record.ByGo {
		by = "Go"
	}
	age := r.At.Sub(record.At)
	back := "is back"
	if !record.Over {
		back = words.Span(r.Config.Interval - age.Milliseconds())
	}
	fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t\n", record.At.Format("15:04:05.000"),
		words.Span(age.Milliseconds()), record.Permits, back, format, by)
}

// sessions prints the last requests of Go Clients, the newest first.
func (r report) sessions(w io.Writer) {
	if len(r.Sessions) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SESSION OF GO\tREQUEST\tAGE\tDID")
	for i, s := range r.Sessions {
		if !r.all && i == shownRecords {
			fmt.Fprintf(t, "%d more, --all prints them\n", len(r.Sessions)-i)
			break
		}
		did := "took " + words.Count(s.Amount, "permit")
		if s.Amount < 0 {
			did = "gave back " + words.Count(-s.Amount, "permit")
		}
		age := words.Span(r.At.Sub(s.At).Milliseconds())
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\n", words.Name(s.Field), s.Number, age, did)
	}
	_ = t.Flush()
}

// ttl returns what PTTL has replied.
func ttl(ms int64) string {
	switch ms {
	case -1:
		return "none"
	case -2: // no key
		return "-"
	}
	return words.Span(ms)
}

// keepAlive returns a keep alive, of which 0 is none.
func keepAlive(ms int64) string {
	if ms == 0 {
		return "none"
	}
	return words.Span(ms)
}
