package live

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/words"
)

const indent = "  "

// draw returns the lines of a panel, each at most width columns wide.
func (p *panel) draw(width int) []string {
	lines := flowed(width, "", p.title()...)
	if p.err != nil {
		figures := ""
		if p.last != nil {
			figures = "last figures at " + clock(p.at)
		}
		what := fmt.Sprintf("! Redis fails since %s: %s", clock(p.since), words.Harmless(p.err.Error()))
		lines = append(lines, flowed(width, indent, red.Styled(what), figures)...)
	}
	switch {
	case p.last == nil && p.err == nil:
		return append(lines, cut(indent+"waiting for the first look", width))
	case p.last == nil:
		return lines
	}
	for _, pair := range p.pairs() {
		if pair.ID != "" {
			lines = append(lines, cut(indent+"client "+cyan.Styled(strconv.Quote(pair.ID)), width))
		}
		lines = append(lines, p.drawPair(pair, width)...)
	}
	lines = append(lines, flowed(width, indent, p.crowd())...)
	return append(lines, p.drawFindings(width)...)
}

// pairs returns the pairs to show.
func (p *panel) pairs() []*inspect.Pair {
	if p.last == nil || !p.last.Set {
		return nil
	}
	return p.last.InUse()
}

// title returns the name and the rate.
func (p *panel) title() []string {
	pieces := []string{strong.Styled(strconv.Quote(p.name))}
	if p.last == nil {
		return pieces
	}
	if !p.last.Set {
		if len(p.last.Findings) > 0 {
			return pieces
		}
		return append(pieces, yellow.Styled("does not exist; rrl keeps looking"))
	}
	c := &p.last.Config
	pieces = append(pieces, c.Type, fmt.Sprintf("%d in %s", c.Rate, words.Span(c.Interval)))
	if c.KeepAlive != 0 {
		pieces = append(pieces, "keep alive "+words.Span(c.KeepAlive))
	}
	if ttl := p.last.Keys[0].TTL; ttl >= 0 {
		return append(pieces, "TTL "+about(ttl))
	}
	return append(pieces, "no TTL")
}

// drawPair returns the lines of a pair.
func (p *panel) drawPair(pair *inspect.Pair, width int) []string {
	h := p.history[pair.ID]
	taken := fmt.Sprintf("outstanding %d", pair.Outstanding)
	lines := flowed(width, indent, p.drawRemaining(pair, width, len(taken)), taken)
	owed := debt(pair)
	if owed != "" {
		owed = red.Styled(owed)
	}
	flow := granted(p.flows[pair.ID])
	lines = append(lines, flowed(width, indent, owed, flow, h.refusals(), back(pair))...)
	return append(lines, drawHistory(h, width)...)
}

// drawRemaining returns the gauge. It leaves room for another text if the line is wide enough.
func (p *panel) drawRemaining(pair *inspect.Pair, width, other int) string {
	const shortest, longest, gap = 10, 40, 3
	rate := p.last.Config.Rate
	full := 0.0
	if rate > 0 {
		full = float64(pair.Remaining) / float64(rate)
	}
	text := fmt.Sprintf("remaining %s of %d ", colorOf(full).Styled(fmt.Sprint(pair.Remaining)), rate)
	room := width - len(indent) - ansi.StringWidth(text)
	if room-gap-other >= shortest {
		room -= gap + other
	}
	return text + gauge(full, min(max(room, 0), longest))
}

// refused says how many requests were refused, which is an estimate.
func refused(n int64) string { return "refused about " + words.Count(n, "request") + " of Go" }

// granted returns the grants per second, in words.
func granted(f flow) string {
	if !f.measured {
		return "granted: after two looks"
	}
	estimate := ""
	if f.sampled {
		estimate = "about "
	}
	return fmt.Sprintf("granted %s%s/s by Go, %s/s by others",
		estimate, perSecond(f.byGo), perSecond(f.byOthers))
}

// back says when permits are back.
func back(pair *inspect.Pair) string {
	if len(pair.Back) == 0 {
		return ""
	}
	first, last := pair.Back[0], pair.Back[len(pair.Back)-1]
	if first.Permits == last.Permits {
		return "back: 1 " + in(first.In)
	}
	return fmt.Sprintf("back: 1 %s, all %s", in(first.In), in(last.In))
}

// debt returns the debt, and when it is paid, if that is known; empty if there is none.
func debt(pair *inspect.Pair) string {
	if pair.Debt == 0 {
		return ""
	}
	text := fmt.Sprintf("%d in debt", pair.Debt)
	if pair.PaidIn != inspect.Unknown {
		text += ", paid " + in(pair.PaidIn)
	}
	return text
}

// in says in how many ms permits are back.
func in(ms int64) string {
	switch ms {
	case 0:
		return "now"
	case inspect.Unknown:
		return "unknown, because records were not read"
	}
	return "in " + about(ms)
}

// drawHistory returns the sparkline.
func drawHistory(h *history, width int) []string {
	const label = "lowest "
	if h == nil || len(h.samples) < 2 {
		return nil
	}
	span := " last " + about(h.span().Round(time.Second).Milliseconds())
	line := sparkline(h.lows(width - len(indent) - len(label) - len(" last 59m59s")))
	return []string{cut(indent+label+cyan.Styled(line)+faint.Styled(span), width)}
}

// crowd says how many clients are shown, unless all are.
func (p *panel) crowd() string {
	if p.last == nil || !p.last.Set || !p.last.Config.PerClient() {
		return ""
	}
	switch shown := len(p.pairs()); {
	case shown == 0:
		return "no client had keys at the first look"
	case shown < p.clients:
		return fmt.Sprintf("%d of %d clients are shown; --id shows another", shown, p.clients)
	}
	return ""
}

func plain(text string) string { return text }

// wrapped returns a text on up to three lines; the rest is cut.
func wrapped(width int, style func(text string) string, text string) []string {
	const most = 3
	room := max(1, width-len(indent))
	lines := strings.Split(ansi.Wordwrap(text, room, ""), "\n")
	if len(lines) > most {
		lines = append(lines[:most-1], strings.Join(lines[most-1:], " "))
	}
	for i, line := range lines {
		lines[i] = cut(indent+style(line), width)
	}
	return lines
}

// drawFindings returns the lines of the findings: errors in red, remarks in yellow.
func (p *panel) drawFindings(width int) []string {
	const most = 3
	var lines []string
	found := p.last.Findings
	for i, f := range found {
		if i == most {
			return append(lines, cut(fmt.Sprintf("%s%d more: rrl inspect", indent, len(found)-most), width))
		}
		what := "! "
		if f.ID != "" {
			what += "client " + strconv.Quote(f.ID) + ": "
		}
		what += f.What
		color := red
		if f.Remark {
			color = yellow
		}
		lines = append(lines, wrapped(width, color.Styled, what)...)
		lines = append(lines, wrapped(width, plain, "Mend: "+f.Mend)...)
	}
	return lines
}

// The colours. None carries a meaning that the text lacks, because a terminal may have no colours.
var (
	strong = ansi.NewStyle().Bold()
	faint  = ansi.NewStyle().Faint()
	green  = ansi.NewStyle().ForegroundColor(ansi.Green)
	yellow = ansi.NewStyle().ForegroundColor(ansi.Yellow)
	red    = ansi.NewStyle().ForegroundColor(ansi.Red)
	cyan   = ansi.NewStyle().ForegroundColor(ansi.Cyan)
)

// cut returns a text of at most width columns, with a mark where it was cut.
func cut(text string, width int) string { return ansi.Truncate(text, max(0, width), "…") }

// flowed sets pieces of text side by side, as many as fit a line. It cuts a piece that is wider than a line.
func flowed(width int, indent string, pieces ...string) []string {
	const between = "   "
	var lines []string
	line := ""
	for _, piece := range pieces {
		switch {
		case piece == "":
		case line == "":
			line = indent + piece
		case ansi.StringWidth(line+between+piece) <= width:
			line += between + piece
		default:
			lines = append(lines, cut(line, width))
			line = indent + piece
		}
	}
	if line != "" {
		lines = append(lines, cut(line, width))
	}
	return lines
}

// gauge returns a bar of a width, filled to a part between 0 and 1.
func gauge(full float64, width int) string {
	filled := int(math.Round(full * float64(width)))
	if full > 0 && filled == 0 && width > 0 {
		filled = 1 // not empty
	}
	empty := strings.Repeat("░", width-filled)
	return colorOf(full).Styled(strings.Repeat("█", filled)) + faint.Styled(empty)
}

// colorOf returns the colour of a part that remains.
func colorOf(full float64) ansi.Style {
	const little = 0.25
	switch {
	case full <= 0:
		return red
	case full < little:
		return yellow
	}
	return green
}

// sparkline returns a column for each value between 0 and 1, and a blank for a negative value.
func sparkline(values []float64) string {
	steps := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, v := range values {
		if v < 0 {
			b.WriteByte(' ')
			continue
		}
		b.WriteRune(steps[min(int(v*float64(len(steps))), len(steps)-1)])
	}
	return b.String()
}

// about is like words.Span, but rounds to seconds above ten seconds.
func about(ms int64) string {
	const second, long = 1000, 10_000
	if ms > long {
		ms -= ms % second
	}
	return words.Span(ms)
}

// perSecond returns permits per second: 0, 0.4, 17.
func perSecond(n float64) string {
	const small = 10
	if n == 0 || n >= small {
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return strconv.FormatFloat(n, 'f', 1, 64)
}

// clock returns the time of day.
func clock(t time.Time) string { return t.Format(time.TimeOnly) }
