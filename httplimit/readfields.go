package httplimit

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// readRetry returns the time after which a refused client may send again. ok is false if no field of
// the response has it.
func readRetry(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	if d, ok := readRetryAfter(h.Get(fieldRetryAfter), now); ok {
		return d, true
	}
	if d, ok := readDraft11(strings.Join(h[fieldRateLimit], ",")); ok {
		return d, true
	}
	if used(h.Get(fieldRemaining)) {
		if n, ok := readSeconds(h.Get(fieldReset)); ok {
			return n, true
		}
	}
	if used(h.Get(fieldXRemaining)) {
		return readXReset(h.Get(fieldXReset), now)
	}
	return 0, false
}

// used reports whether remaining, a number of permits, is 0 or absent.
func used(remaining string) bool {
	return remaining == "" || strings.Trim(remaining, "0 ") == ""
}

// readRetryAfter parses a number of seconds or a date (RFC 9110, section 10.2.3).
func readRetryAfter(text string, now time.Time) (time.Duration, bool) {
	if d, ok := readSeconds(text); ok {
		return d, true
	}
	return readDate(text, now)
}

func readDate(text string, now time.Time) (time.Duration, bool) {
	date, err := http.ParseTime(text)
	return max(0, date.Sub(now)), err == nil
}

// readSeconds parses a number of seconds without a sign. Some servers send a fraction.
func readSeconds(text string) (time.Duration, bool) {
	whole, fraction, dotted := strings.Cut(text, ".")
	n, ok := readNumber(whole)
	d := time.Duration(min(n, math.MaxInt64/int64(time.Second)-1)) * time.Second
	if dotted && ok {
		part, err := strconv.ParseFloat("0."+strings.TrimRight(fraction, " \t"), 64)
		_, ok = readNumber(fraction)
		ok = ok && err == nil
		d += time.Duration(math.Round(part * float64(time.Second)))
	}
	return d, ok
}

// readNumber parses digits. A number beyond int64 becomes math.MaxInt64.
func readNumber(text string) (int64, bool) {
	text = strings.Trim(text, " \t")
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return math.MaxInt64, true
	}
	return n, true
}

// readXReset parses X-RateLimit-Reset, whose unit no document defines (see RetryAfterTransport).
func readXReset(text string, now time.Time) (time.Duration, bool) {
	d, ok := readSeconds(text)
	whole, _, _ := strings.Cut(text, ".")
	switch n, _ := readNumber(whole); {
	case !ok:
		return readDate(text, now)
	case n >= 1e12:
		return max(0, time.UnixMilli(n).Sub(now)), true
	case n >= 1e9:
		return max(0, time.Unix(0, 0).Add(d).Sub(now)), true
	}
	return d, true
}

// readDraft11 parses RateLimit of draft 11 and returns the longest t of the items whose r is 0. It
// also accepts Tokens as names, which a later draft may allow. Of a List (RFC 9651) it parses quoted
// strings only, to find the ends of items and parameters. A field with an r or t that is not an
// Integer, or with an unclosed quote, is malformed and ignored.
func readDraft11(field string) (longest time.Duration, ok bool) {
	rest := field
	for rest != "" {
		item, after, closed := cutOutside(rest, ',')
		if !closed {
			return 0, false
		}
		rest = after
		r, t, fine := readItem(item)
		if !fine {
			return 0, false
		}
		if r == 0 && t >= 0 {
			longest, ok = max(longest, time.Duration(min(t, 1_000_000_000))*time.Second), true
		}
	}
	return longest, ok
}

// readItem returns the parameters r and t of an item, -1 for an absent one.
func readItem(item string) (r, t int64, ok bool) {
	r, t = -1, -1
	_, rest, ok := cutOutside(item, ';')
	for ok && rest != "" {
		var parameter string
		parameter, rest, ok = cutOutside(rest, ';')
		name, value, _ := strings.Cut(strings.Trim(parameter, " "), "=")
		into := &t
		switch name {
		case "r":
			into = &r
		case "t":
		default:
			continue
		}
		n, fine := readNumber(value)
		if !fine || n > maxInteger {
			return -1, -1, false
		}
		*into = n
	}
	return r, t, ok
}

// cutOutside cuts text at the first separator outside of quotes. closed is false if text ends inside
// a quote.
func cutOutside(text string, separator byte) (before, after string, closed bool) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch {
		case quoted && text[i] == '\\':
			i++
		case text[i] == '"':
			quoted = !quoted
		case text[i] == separator && !quoted:
			return text[:i], text[i+1:], true
		}
	}
	return text, "", !quoted
}
