package httplimit

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/redisson-go/rratelimiter/limit"
)

// The problem types of draft-ietf-httpapi-ratelimit-headers-11 (section 5), and their
// titles.
const (
	problemTypes = "https://iana.org/assignments/http-problem-types#"

	quotaExceeded      = problemTypes + "quota-exceeded"
	quotaExceededTitle = "Request cannot be satisfied as assigned quota has been exceeded"

	reducedCapacity      = problemTypes + "temporary-reduced-capacity"
	reducedCapacityTitle = "Request cannot be satisfied due to temporary server capacity constraints"
)

// problem returns the problem document of a refusal. Its texts are fixed: a visitor never sees the
// text of an error or the name of a limiter.
func (m *Middleware) problem(d Decision) []byte {
	b := make([]byte, 0, 512)
	switch {
	case d.Status == http.StatusBadRequest:
		// Without a type of its own the title is that of the status (RFC 9457, section 4.2.1).
		detail := "The request has no valid rate limit key."
		if errors.Is(d.Err, limit.ErrPermitsExceedRate) {
			detail = "The request costs more than its limit ever allows."
		}
		b = append(b, `{"type":"about:blank","title":"Bad Request","status":400,"detail":"`...)
		return append(append(b, detail...), "\"}\n"...)
	case d.Err != nil || d.Result.Degraded:
		b = append(b, `{"type":"`+reducedCapacity+`","title":"`+reducedCapacityTitle+`","status":`...)
	default:
		b = append(b, `{"type":"`+quotaExceeded+`","title":"`+quotaExceededTitle+`","status":`...)
	}
	b = strconv.AppendInt(b, int64(d.Status), 10)
	b = append(b, `,"violated-policies":[`...)
	if d.Err == nil {
		b = appendViolated(b, m.policies, each(&d.Result))
	}
	return append(b, "]}\n"...)
}

// appendViolated appends the names of the limits that refused. A limit that did not refuse may have
// Allowed false because another refused, but then it has no RetryAfter. Without any RetryAfter all
// count as refused.
func appendViolated(b []byte, names []policyName, all []limit.Result) []byte {
	waits := false
	for i := range all {
		waits = waits || all[i].RetryAfter > 0
	}
	start := len(b)
	for i := range all {
		if !all[i].Allowed && (all[i].RetryAfter > 0 || !waits) {
			if len(b) > start {
				b = append(b, ',')
			}
			b = appendName(b, names, i, all)
		}
	}
	return b
}

// writeProblem writes a refusal as a problem document (RFC 9457).
func (m *Middleware) writeProblem(w http.ResponseWriter, _ *http.Request, d Decision) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(d.Status)
	_, _ = w.Write(m.problem(d)) // an error means that the visitor has disconnected
}
