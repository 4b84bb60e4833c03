package httplimit

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redisson-go/rratelimiter/internal/pause"
)

const (
	// defaultMaxDelay is the default of WithMaxDelay.
	defaultMaxDelay = time.Minute

	// maxRetryAfter bounds the pause that a server can ask for, by mistake or on purpose
	// (section 8.5.1 of draft 11, which names ten minutes).
	maxRetryAfter = 10 * time.Minute

	// minSweep is the least number of hosts that starts a sweep.
	minSweep = 128
)

// A RetryAfterTransport is an http.RoundTripper that honors Retry-After. After a 429 or 503
// with a time to wait, it delays further requests to that host until then; with
// WithRetries it also sends the refused request again. It is safe for concurrent use and
// starts no goroutines.
//
// The time comes from the first of these fields: Retry-After, in seconds or as a date (RFC 9110,
// section 10.2.3); RateLimit of draft-ietf-httpapi-ratelimit-headers-11, with the longest t of the
// items whose r is 0; RateLimit-Reset of draft 6, if RateLimit-Remaining is 0 or absent; and
// X-RateLimit-Reset in the same way. X-RateLimit-Reset is a date, or a number: from 10^12 on a Unix
// time in ms, from 10^9 on in seconds, and below that seconds from now. Except in draft 11, seconds may
// have a fraction, which some servers send. Malformed fields are ignored.
// Dates are compared with the Date of the response, if it has one, so that the clocks need not agree.
//
// A server can pause a host for at most 10 minutes. When the pause ends, all waiting
// requests are sent at once; wrap a Pacer to send them one by one.
type RetryAfterTransport struct {
	next     http.RoundTripper
	maxDelay time.Duration
	retries  int

	mu          sync.Mutex
	pausedUntil map[string]time.Time // by scheme and host; guarded by mu
	sweepAt     int                  // hosts in pausedUntil that start a sweep; guarded by mu
}

// A RetryAfterOption configures a RetryAfterTransport.
type RetryAfterOption func(*RetryAfterTransport) error

// WithMaxDelay sets how long a request may be delayed in total, retries included; d is more
// than 0. A request that would wait longer fails at once: with an ErrWait if it was not sent
// yet, otherwise the last refusal is its response. The default is a minute.
func WithMaxDelay(d time.Duration) RetryAfterOption {
	return option(d > 0, invalid("WithMaxDelay", "d", d, "be more than 0"),
		func(t *RetryAfterTransport) { t.maxDelay = d })
}

// WithRetries sets how often a refused request is sent again, 0 to 10. A request is sent
// again only if that is safe: its method is idempotent (RFC 9110, section 9.2.2) or it has an
// Idempotency-Key, and it has no body or an http.Request.GetBody. The response bodies of
// refusals that are retried are closed unread. The default is 0.
func WithRetries(n int) RetryAfterOption {
	return option(n >= 0 && n <= 10, invalid("WithRetries", "n", n, "be 0 to 10"),
		func(t *RetryAfterTransport) { t.retries = n })
}

// NewRetryAfterTransport returns a RetryAfterTransport that sends requests with next; nil is
// http.DefaultTransport.
//
// The error is a limit.ErrInvalidArgument if an option is nil or its argument is out of its bounds.
func NewRetryAfterTransport(next http.RoundTripper, opts ...RetryAfterOption) (*RetryAfterTransport, error) {
	t := &RetryAfterTransport{
		next: orDefault(next), maxDelay: defaultMaxDelay,
		pausedUntil: map[string]time.Time{}, sweepAt: minSweep,
	}
	if err := apply("NewRetryAfterTransport", t, opts); err != nil {
		return nil, err
	}
	return t, nil
}

// RoundTrip waits while the host of r is paused, sends r, and sends it again as often as WithRetries
// allows. It returns the last response, which may be a refusal. Without a response the error
// is an ErrWait, the error of the request's context, or that of next.
func (t *RetryAfterTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	host := r.URL.Scheme + "://" + strings.ToLower(r.URL.Host)
	end := time.Now().Add(t.maxDelay)
	if err := t.wait(r.Context(), host, end); err != nil {
		closeBody(r)
		return nil, err
	}
	for retries := 0; ; retries++ {
		response, err := t.next.RoundTrip(r)
		if err != nil || !t.pauseHost(host, response) || retries == t.retries || !replayable(r) ||
			t.until(host).After(end) {
			return response, err
		}
		again, err := replay(r)
		if err != nil {
			return response, nil // the refusal is of more use than the error of GetBody
		}
		discard(response)
		if err := t.wait(r.Context(), host, end); err != nil {
			closeBody(again)
			return nil, err
		}
		r = again
	}
}

// CloseIdleConnections closes the idle connections of next. http.Client calls it.
func (t *RetryAfterTransport) CloseIdleConnections() { closeIdle(t.next) }

// wait returns when host is no longer paused. Another refusal may extend the pause in the meantime,
// so it checks again.
func (t *RetryAfterTransport) wait(ctx context.Context, host string, end time.Time) error {
	for {
		until := t.until(host)
		left := time.Until(until)
		switch {
		case left <= 0:
			return nil
		case until.After(end):
			return fmt.Errorf("%w: %s asked for %v more, must be within %v", ErrWait, host, left, t.maxDelay)
		}
		if err := pause.For(ctx, left); err != nil {
			return err
		}
	}
}

// until returns when the pause of host ends; the zero Time if it was never paused.
func (t *RetryAfterTransport) until(host string) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pausedUntil[host]
}

// pauseHost pauses host if response is a refusal with a time to wait, and reports whether it is one.
func (t *RetryAfterTransport) pauseHost(host string, response *http.Response) bool {
	if response.StatusCode != http.StatusTooManyRequests &&
		response.StatusCode != http.StatusServiceUnavailable {
		return false
	}
	now := time.Now()
	d, ok := readRetry(response.Header, now)
	if !ok {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.pausedUntil) >= t.sweepAt {
		t.sweep(now)
	}
	if until := now.Add(min(d, maxRetryAfter)); until.After(t.pausedUntil[host]) {
		t.pausedUntil[host] = until
	}
	return true
}

// sweep forgets the hosts whose pause has ended. The next sweep starts at twice the number
// of hosts left, so that its cost per pause stays small. t.mu is held.
func (t *RetryAfterTransport) sweep(now time.Time) {
	for host, until := range t.pausedUntil {
		if !until.After(now) {
			delete(t.pausedUntil, host)
		}
	}
	t.sweepAt = max(minSweep, 2*len(t.pausedUntil))
}

// idempotent lists the methods whose requests may be sent again.
var idempotent = []string{"", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace,
	http.MethodPut, http.MethodDelete}

// replayable reports whether r may be sent again.
func replayable(r *http.Request) bool {
	if r.Body != nil && r.Body != http.NoBody && r.GetBody == nil {
		return false
	}
	return slices.Contains(idempotent, r.Method) || r.Header.Get("Idempotency-Key") != ""
}

// replay returns a copy of r with a new body.
func replay(r *http.Request) (*http.Request, error) {
	again := r.Clone(r.Context())
	if r.GetBody != nil && r.Body != nil && r.Body != http.NoBody {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		again.Body = body
	}
	return again, nil
}

// discard closes the body of a refusal without reading it, because it may never end. The
// connection cannot be reused then; refusals are rare enough to pay for that.
func discard(response *http.Response) { _ = response.Body.Close() }

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
