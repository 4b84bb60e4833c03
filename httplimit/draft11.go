package httplimit

import (
	"strconv"
	"strings"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// maxInteger is the largest Integer of RFC 9651 (section 3.3.1).
const maxInteger = 999_999_999_999_999

// A policyName is the name of a limit as a String of RFC 9651 (section 3.3.3), with its
// quotes. For printable characters it is also a JSON string.
type policyName string

// printable are the characters of a String of RFC 9651.
const printable = " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`" +
	"abcdefghijklmnopqrstuvwxyz{|}~"

func quotedName(name string) policyName { return policyName(appendQuoted(nil, name)) }

func appendQuoted(b []byte, name string) []byte {
	b = append(b, '"')
	for i := range len(name) {
		if name[i] == '"' || name[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, name[i])
	}
	return append(b, '"')
}

// isPolicyName reports whether a name can be shown to visitors.
func isPolicyName(name string) bool {
	return name != "" && len(name) <= 64 && strings.Trim(name, printable) == ""
}

// appendName appends the name of limit i of all: that of WithPolicies, or its own.
func appendName(b []byte, names []policyName, i int, all []limit.Result) []byte {
	switch {
	case i < len(names):
		return append(b, names[i]...)
	case isPolicyName(all[i].Policy):
		return appendQuoted(b, all[i].Policy)
	case len(all) == 1:
		return append(b, `"default"`...)
	}
	return append(strconv.AppendInt(append(b, `"limit-`...), int64(i)+1, 10), '"')
}

// appendDraft11Policies appends the value of RateLimit-Policy of
// draft-ietf-httpapi-ratelimit-headers-11 (section 3): an item for each limit whose number is known,
// with its quota q and, if it is known, its window w in seconds.
//
// The draft has whole seconds. Windows are rounded up, so that a client that observes the field stays
// within the limit.
func appendDraft11Policies(b []byte, names []policyName, all []limit.Result) []byte {
	start := len(b)
	for i := range all {
		if !isKnown(&all[i]) {
			continue
		}
		b = appendComma(b, start)
		b = appendName(b, names, i, all)
		b = appendInteger(append(b, ";q="...), all[i].Limit)
		if all[i].Interval > 0 {
			b = appendInteger(append(b, ";w="...), seconds(all[i].Interval))
		}
	}
	return b
}

// appendDraft11Limits appends the value of RateLimit of the same draft (section 4): an
// item for each limit, with its available quota r and its effective window t in seconds. A limit
// without a number, or one that decided without the shared store, has no item: its numbers are
// unknown.
func appendDraft11Limits(b []byte, names []policyName, all []limit.Result) []byte {
	start := len(b)
	for i := range all {
		if !isKnown(&all[i]) || all[i].Degraded {
			continue
		}
		b = appendComma(b, start)
		b = appendName(b, names, i, all)
		b = appendInteger(append(b, ";r="...), all[i].Remaining)
		b = appendInteger(append(b, ";t="...), seconds(window(&all[i])))
	}
	return b
}

// isKnown reports whether a result has the number of its limit, which is 0 for one that never grants.
func isKnown(result *limit.Result) bool { return result.Limit > 0 || result.Interval > 0 }

// window returns for how long Remaining is valid: until the refused permits are available, and
// otherwise until all permits are back. Retry-After must not be earlier (section 6 of the draft), and
// never is, because it is the longest RetryAfter.
func window(result *limit.Result) time.Duration {
	if result.RetryAfter > 0 {
		return result.RetryAfter
	}
	return result.ResetAfter
}

func appendComma(b []byte, start int) []byte {
	if len(b) > start {
		b = append(b, ", "...)
	}
	return b
}

// appendInteger appends an Integer of RFC 9651, limited to 0 and maxInteger.
func appendInteger(b []byte, n int64) []byte {
	return strconv.AppendInt(b, min(max(0, n), maxInteger), 10)
}

// seconds returns d in whole seconds, rounded up.
func seconds(d time.Duration) int64 {
	whole := int64(d / time.Second)
	if d%time.Second > 0 {
		whole++
	}
	return whole
}
