package live

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// The colours. The terminal may have none: each says only what the text says as well.
var (
	strong = ansi.NewStyle().Bold()
	faint  = ansi.NewStyle().Faint()
	green  = ansi.NewStyle().ForegroundColor(ansi.Green)
	yellow = ansi.NewStyle().ForegroundColor(ansi.Yellow)
	red    = ansi.NewStyle().ForegroundColor(ansi.Red)
	cyan   = ansi.NewStyle().ForegroundColor(ansi.Cyan)
)

// printable returns a text without what a terminal would act on.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// quoted returns a name as Go writes it: escape sequences and line breaks in it are to be seen.
func quoted(name string) string { return strconv.Quote(name) }

// cut returns a text that is no wider than width, with a mark where it was cut.
func cut(text string, width int) string { return ansi.Truncate(text, max(0, width), "…") }

// flowed sets pieces of text side by side, as many as fit a line. A piece that is too wide for a line is cut.
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

// gauge returns a bar of a width, filled by a part of it between 0 and 1.
func gauge(full float64, width int) string {
	filled := int(math.Round(full * float64(width)))
	if full > 0 && filled == 0 && width > 0 {
		filled = 1 // there is something
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

// sparkline returns a column for each value between 0 and 1, and a blank where it is below.
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

// millis returns a time in ms, which may be longer than a time.Duration can be: 250ms, 1.5s, 2h, 1d12h.
func millis(ms int64) string {
	const second, minute, hour, day = 1000, 60_000, 3_600_000, 86_400_000
	if ms < second {
		return strconv.FormatInt(ms, 10) + "ms"
	}
	var b strings.Builder
	for _, unit := range []struct {
		ms   int64
		name string
	}{{day, "d"}, {hour, "h"}, {minute, "m"}} {
		if n := ms / unit.ms; n > 0 {
			b.WriteString(strconv.FormatInt(n, 10) + unit.name)
			ms %= unit.ms
		}
	}
	if ms > 0 {
		b.WriteString(strconv.FormatFloat(float64(ms)/second, 'f', -1, 64) + "s")
	}
	return b.String()
}

// about returns a time in ms as millis does, without the ms of one that is longer than ten seconds.
func about(ms int64) string {
	const second, long = 1000, 10_000
	if ms > long {
		ms -= ms % second
	}
	return millis(ms)
}

// perSecond returns a number of permits per second: 0, 0.4, 17.
func perSecond(n float64) string {
	const small = 10
	if n == 0 || n >= small {
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return strconv.FormatFloat(n, 'f', 1, 64)
}

// clock returns the time of day.
func clock(t time.Time) string { return t.Format(time.TimeOnly) }
