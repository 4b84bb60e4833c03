package httplimit

import (
	"net/http"
	"strings"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// The fields, in the canonical form in which an http.Header has them.
const (
	fieldPolicy     = "Ratelimit-Policy"
	fieldRateLimit  = "Ratelimit"
	fieldLimit      = "Ratelimit-Limit"
	fieldRemaining  = "Ratelimit-Remaining"
	fieldReset      = "Ratelimit-Reset"
	fieldXLimit     = "X-Ratelimit-Limit"
	fieldXRemaining = "X-Ratelimit-Remaining"
	fieldXReset     = "X-Ratelimit-Reset"
	fieldRetryAfter = "Retry-After"
	fieldExpose     = "Access-Control-Expose-Headers"
)

// A fieldSet is a set of Fields.
type fieldSet Fields

func (s fieldSet) has(f Fields) bool { return Fields(s)&f != 0 }

// names returns the names of the fields, and Retry-After, as a list.
func (s fieldSet) names() string {
	names := []string{"Retry-After"}
	if s.has(Draft11 | Draft6) {
		names = append(names, "RateLimit-Policy")
	}
	if s.has(Draft11) {
		names = append(names, "RateLimit")
	}
	if s.has(Draft6) {
		names = append(names, "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
	}
	if s.has(XRateLimit) {
		names = append(names, "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
	}
	return strings.Join(names, ", ")
}

// setFields puts the numbers of result into the header of a response, whose lines take
// their memory from lines. The fields that are lists are added: the middleware around this
// one may have limits, too.
func (m *Middleware) setFields(h http.Header, result limit.Result, lines *[3]string) {
	// One piece of memory for all values.
	var room [256]byte
	b, all := room[:0], each(&result)
	if m.fields.has(Draft11) {
		b = appendDraft11Policies(b, m.policies, all)
	}
	policies := len(b)
	if m.fields.has(Draft11) {
		b = appendDraft11Limits(b, m.policies, all)
	}
	limits := len(b)
	if !result.Allowed {
		b = appendInteger(b, retryAfter(&result))
	}
	text := string(b)
	*lines = [...]string{text[:policies], text[policies:limits], text[limits:]}
	addLine(h, fieldPolicy, lines[0:1:1])
	addLine(h, fieldRateLimit, lines[1:2:2])
	if !result.Allowed {
		h[fieldRetryAfter] = lines[2:3:3]
	}
	if m.fields.has(Draft6) {
		setDraft6(h, &result, !m.fields.has(Draft11))
	}
	if m.fields.has(XRateLimit) {
		setXRateLimit(h, &result, time.Now())
	}
	if m.exposed != "" {
		h[fieldExpose] = append(h[fieldExpose], m.exposed)
	}
}

// addLine adds a line to a field, unless it is empty: the lists of the fields have one
// item or more.
func addLine(h http.Header, name string, line []string) {
	switch {
	case line[0] == "":
	case h[name] == nil:
		h[name] = line
	default:
		h[name] = append(h[name], line[0])
	}
}

// setDraft6 sets the fields of draft-ietf-httpapi-ratelimit-headers-06 for the limit that
// binds. In that draft the policies are a list of Integers; the name of the field is that
// of draft 11, so it is set only where that one is not.
func setDraft6(h http.Header, result *limit.Result, policies bool) {
	if policies {
		var b []byte
		for _, one := range each(result) {
			if one.Limit > 0 {
				b = appendInteger(appendComma(b, 0), one.Limit)
				if one.Interval > 0 {
					b = appendInteger(append(b, ";w="...), seconds(one.Interval))
				}
			}
		}
		addLine(h, fieldPolicy, []string{string(b)})
	}
	if result.Limit > 0 && !result.Degraded {
		h[fieldLimit] = integerLine(result.Limit)
		h[fieldRemaining] = integerLine(result.Remaining)
		h[fieldReset] = integerLine(seconds(window(result)))
	}
}

// setXRateLimit sets the fields that were there before any draft, for the limit that
// binds.
func setXRateLimit(h http.Header, result *limit.Result, now time.Time) {
	if result.Limit > 0 && !result.Degraded {
		h[fieldXLimit] = integerLine(result.Limit)
		h[fieldXRemaining] = integerLine(result.Remaining)
		at := now.Add(window(result))
		unix := at.Unix()
		if at.Nanosecond() > 0 {
			unix++
		}
		h[fieldXReset] = integerLine(unix)
	}
}

func integerLine(n int64) []string { return []string{string(appendInteger(nil, n))} }

// retryAfter returns when a refused request may be sent again, in seconds, at least 1
// (RFC 9110, section 10.2.3). Of several limits it is the longest.
func retryAfter(result *limit.Result) int64 {
	longest := result.RetryAfter
	for i := range result.Each {
		longest = max(longest, result.Each[i].RetryAfter)
	}
	return max(1, seconds(longest))
}
