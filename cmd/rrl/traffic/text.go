package traffic

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/redisson-go/rratelimiter/internal/words"
)

// The colours of a terminal.
var (
	grey = ansi.NewStyle().ForegroundColor(ansi.BrightBlack)
	blue = ansi.NewStyle().ForegroundColor(ansi.Blue)
	red  = ansi.NewStyle().ForegroundColor(ansi.Red)
	dark = ansi.NewStyle().ForegroundColor(ansi.Yellow)
)

// title describes the traffic.
func (c *Comparison) title() string {
	return fmt.Sprintf("%s: %s, %d permits per %s", c.Traffic.Name,
		words.Count(int64(len(c.Traffic.Requests)), "request"), c.Plan.Rate, span(c.Plan.Per))
}

func span(d time.Duration) string { return words.Span(d.Milliseconds()) }

// Table prints a line of figures for each algorithm.
func (c *Comparison) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\tadmitted\trefused\tworst %s\tof rate\tpeak\tlongest wait\t\n", span(c.Plan.Per))
	for _, s := range c.Strips {
		wait := ""
		if s.Wait > 0 {
			wait = span(time.Duration(s.Wait))
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%.0f%%\t%.1f\t%s\t\n", s.Name, s.Admitted, s.Refused, s.Worst,
			100*s.OfRate, s.Peak, wait)
	}
	return t.Flush()
}

const nameColumn = 17 // columns of a line before its bars

// Lines prints the picture for a terminal of the given columns: the requests, and for each algorithm the
// grants and below them the remaining part of the limit.
func (c *Comparison) Lines(w io.Writer, columns int, colours bool) error {
	paint := func(style ansi.Style, text string) string {
		if !colours {
			return text
		}
		return style.Styled(text)
	}
	bars := c.bars(c.Traffic.Requests)
	per := max(1, (len(bars)+columns-nameColumn-1)/max(1, columns-nameColumn)) // bins to a column
	var b strings.Builder
	line := func(name, text string) {
		fmt.Fprintf(&b, "%-*s%s\n", nameColumn, name, text)
	}
	highest := c.highest(per)
	fmt.Fprintf(&b, "%s\n\n", c.title())
	line("requests", paint(grey, columnsOf(joined(bars, per), highest)))
	for _, s := range c.Strips {
		over := joined(c.bars(c.over(s)), per)
		var cells strings.Builder
		for i, cell := range []rune(columnsOf(joined(c.bars(s.Grants), per), highest)) {
			style := blue
			if over[i] > 0 {
				style = red
			}
			cells.WriteString(paint(style, string(cell)))
		}
		line(s.Name, cells.String())
		if s.Left != nil {
			line("  left", paint(dark, levels(s.Left, per*int(c.Plan.bin(c.Traffic)/c.Plan.step(c.Traffic)))))
		}
	}
	line("", paint(grey, c.times(per)))
	_, err := io.WriteString(w, b.String())
	return err
}

// joined adds up bars, per to one.
func joined(bars []int64, per int) []int64 {
	sums := make([]int64, (len(bars)+per-1)/per)
	for i, n := range bars {
		sums[i/per] += n
	}
	return sums
}

var steps = []rune("▁▂▃▄▅▆▇█")

// columnsOf returns a column for each bar, and a blank for one of nothing.
func columnsOf(bars []int64, highest int64) string {
	var b strings.Builder
	for _, n := range bars {
		if n == 0 {
			b.WriteByte(' ')
			continue
		}
		step := int(math.Ceil(float64(n)/float64(highest)*float64(len(steps)))) - 1
		b.WriteRune(steps[step])
	}
	return b.String()
}

// levels returns a column for every few samples: the lowest of them.
func levels(left []float64, each int) string {
	var b strings.Builder
	for i := 0; i+1 < len(left); i += each {
		lowest := 1.0
		for _, v := range left[i:min(i+each, len(left))] {
			lowest = min(lowest, v)
		}
		b.WriteRune(steps[max(0, int(lowest*float64(len(steps)-1)+0.5))])
	}
	return b.String()
}

// times returns the line below the columns: the beginning of each interval, as far as there is room.
func (c *Comparison) times(per int) string {
	column := c.Plan.bin(c.Traffic) * time.Duration(per)
	line := ""
	for at := time.Duration(0); at < c.Traffic.Length; at += c.Plan.Per {
		x := int(at / column)
		if text := span(at); at == 0 || x > len(line) {
			line += strings.Repeat(" ", x-len(line)) + text
		}
	}
	return line
}
