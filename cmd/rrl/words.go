package main

import (
	"fmt"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"
)

// plural counts things.
func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// printable returns a name as it is if a terminal can show it, and quoted otherwise: anybody may have
// chosen it.
func printable(name string) string {
	if name == "" || !utf8.ValidString(name) {
		return strconv.Quote(name)
	}
	for _, r := range name {
		if !unicode.IsPrint(r) || r == '"' {
			return strconv.Quote(name)
		}
	}
	return name
}

// span returns ms as a duration. Java may have written more of them than a Duration holds.
func span(ms int64) string {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	if ms > most || ms < -most {
		return fmt.Sprintf("%dms", ms)
	}
	return lengthOf(time.Duration(ms) * time.Millisecond)
}

// ttl returns what PTTL has replied.
func ttl(ms int64) string {
	switch ms {
	case -1:
		return "none"
	case -2: // no key
		return "-"
	}
	return span(ms)
}

// keepAlive returns a keep alive, of which 0 is none.
func keepAlive(ms int64) string {
	if ms == 0 {
		return "none"
	}
	return span(ms)
}
