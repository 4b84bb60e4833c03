package live

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/redisson-go/rratelimiter/internal/words"
)

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
