package httplimit

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// The names of the fields, in the canonical form of an http.Header.
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

func (f Fields) has(some Fields) bool { return f&some != 0 }

// names returns the list of the fields' names and Retry-After.
func (f Fields) names() string {
	names := []string{"Retry-After"}
	if f.has(Draft11 | Draft6) {
		names = append(names, "RateLimit-Policy")
	}
	if f.has(Draft11) {
		names = append(names, "RateLimit")
	}
	if f.has(Draft6) {
		names = append(names, "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
	}
	if f.has(XRateLimit) {
		names = append(names, "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
	}
	return strings.Join(names, ", ")
}

// SetFields puts the numbers of a result into the header of a response that no Middleware writes:
// RateLimit-Policy and RateLimit of draft 11, and Retry-After if the result is a refusal, as a Middleware
// without options does.
func SetFields(h http.Header, result limit.Result) {
	m := Middleware{fields: Draft11}
	m.setFields(h, result)
}

// setFields puts the numbers of result into the header of a response. Lists are added, because the
// middleware around this one may have set fields of its own.
func (m *Middleware) setFields(h http.Header, result limit.Result) {
	if m.fields.has(Draft11) {
		var room [256]byte // both values are one string, and both lines one array
		policies := appendDraft11Policies(room[:0], m.policies, each(&result))
		both, cut := string(appendDraft11Limits(policies, m.policies, each(&result))), len(policies)
		lines := []string{both[:cut], both[cut:]}
		addLine(h, fieldPolicy, lines[:1:1])
		addLine(h, fieldRateLimit, lines[1:])
	}
	if !result.Allowed {
		h[fieldRetryAfter] = integerLine(retryAfter(&result))
	}
	if m.fields.has(Draft6) {
		setDraft6(h, &result, !m.fields.has(Draft11))
	}
	if m.fields.has(XRateLimit) {
		setXRateLimit(h, &result, time.Now())
	}
	if m.exposed != "" && !slices.Contains(h[fieldExpose], m.exposed) {
		h[fieldExpose] = append(h[fieldExpose], m.exposed)
	}
}

// addLine adds a line to a field, unless the line is empty: these lists have at least one item.
func addLine(h http.Header, name string, line []string) {
	switch {
	case line[0] == "":
	case h[name] == nil:
		h[name] = line
	default:
		h[name] = append(h[name], line...)
	}
}

// setDraft6 sets the fields of draft-ietf-httpapi-ratelimit-headers-06 for the limit that binds. In
// that draft RateLimit-Policy is a list of Integers; policies is false if the field is in the form of
// draft 11. The numbers of a middleware around this one stay if they bind.
func setDraft6(h http.Header, result *limit.Result, policies bool) {
	if policies {
		var b []byte
		for _, one := range each(result) {
			if isKnown(&one) {
				b = appendInteger(appendComma(b, 0), one.Limit)
				if one.Interval > 0 {
					b = appendInteger(append(b, ";w="...), seconds(one.Interval))
				}
			}
		}
		addLine(h, fieldPolicy, []string{string(b)})
	}
	if binds(h[fieldLimit], h[fieldRemaining], result) {
		h[fieldLimit] = integerLine(result.Limit)
		h[fieldRemaining] = integerLine(result.Remaining)
		h[fieldReset] = integerLine(seconds(window(result)))
	}
}

// binds reports whether a result has numbers, and binds rather than the limit whose numbers are in the
// header: it refused the request, or a smaller share of it is left.
func binds(limits, remaining []string, result *limit.Result) bool {
	if !isKnown(result) || result.Degraded {
		return false
	}
	most, ok := readNumber(strings.Join(limits, ","))
	left, there := readNumber(strings.Join(remaining, ","))
	return !ok || !there || !result.Allowed ||
		float64(result.Remaining)*float64(most) < float64(left)*float64(result.Limit)
}

// setXRateLimit sets the fields that are older than the drafts, for the limit that binds.
func setXRateLimit(h http.Header, result *limit.Result, now time.Time) {
	if binds(h[fieldXLimit], h[fieldXRemaining], result) {
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

// retryAfter returns after how many seconds, at least 1, a refused request may be sent again (RFC
// 9110, section 10.2.3): the longest RetryAfter of all limits.
func retryAfter(result *limit.Result) int64 {
	longest := result.RetryAfter
	for i := range result.Each {
		longest = max(longest, result.Each[i].RetryAfter)
	}
	return max(1, seconds(longest))
}
