package web

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// shown returns a text as the page shows it: unprintable characters are escaped as in Go, and so is a
// backslash, so that two texts never look the same.
func shown(text string) string {
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// cut shortens a text for a table.
func cut(text string) string { return ansi.Truncate(text, 100, "…") }

// number returns 1234567 as 1,234,567.
func number(n int64) string {
	text := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, text = "−", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign + text
}

// count returns "1 permit" or "2 permits".
func count(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return number(n) + " " + what
}

// span returns a number of ms as "250 ms", "1.5 s", "2 min 5 s", "3 h" or "4 d 2 h".
func span(ms int64) string {
	const second, minute, hour, day = 1000, 60_000, 3_600_000, 86_400_000
	two := func(n int64, unit string, rest int64, small string) string {
		if rest == 0 {
			return number(n) + " " + unit
		}
		return fmt.Sprintf("%s %s %d %s", number(n), unit, rest, small)
	}
	switch {
	case ms < second:
		return number(ms) + " ms"
	case ms < minute:
		return strconv.FormatFloat(float64(ms/100)/10, 'f', -1, 64) + " s"
	case ms < hour:
		return two(ms/minute, "min", ms%minute/second, "s")
	case ms < day:
		return two(ms/hour, "h", ms%hour/minute, "min")
	}
	return two(ms/day, "d", ms%day/hour, "h")
}
