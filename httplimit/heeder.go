package httplimit

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// defaultPatience is how long a request is held at most unless WithPatience says.
	defaultPatience = time.Minute

	// longestHold bounds what a server can ask for, by mistake or on purpose (section
	// 8.5.1 of draft 11, which names ten minutes).
	longestHold = 10 * time.Minute

	// manyHolds is how many hosts there are at least before those whose hold is over are
	// forgotten.
	manyHolds = 128
)

// A Heeder is an http.RoundTripper that heeds a 429 or a 503 which says when to come back:
// it holds further requests to that host until then, and sends the refused one again if it
// was told to (WithRetries). It is safe for concurrent use and starts no goroutines.
//
// It reads Retry-After, in seconds or as a date (RFC 9110, section 10.2.3). Without it, it
// reads RateLimit of draft-ietf-httpapi-ratelimit-headers-11: the longest t of the items
// whose r is 0. Then RateLimit-Reset of draft 6, if RateLimit-Remaining is 0 or not there,
// and X-RateLimit-Reset in the same way. X-RateLimit-Reset is a date, or a number: from
// 10^12 on a Unix time in ms, from 10^9 on in seconds, and below that seconds from now.
// Fields that cannot be read are ignored. Dates are compared with the Date of the response,
// if it has one, so that the clocks need not agree.
//
// A server can hold requests for 10 minutes at most. When a hold is over, all that wait go
// at once; put a Pacer under the Heeder to have them go one by one.
type Heeder struct {
	next     http.RoundTripper
	patience time.Duration
	retries  int

	mu    sync.Mutex
	until map[string]time.Time // by scheme and host
	many  int                  // hosts in until, from which on it is swept
}

// A HeederOption changes what a Heeder does.
type HeederOption func(*Heeder) error

// WithPatience sets how long a request may be held in all, more than 0. If it would be longer, the
// error is an ErrWait at once, or, if there is a refusal already, that is the response.
// The default is a minute.
func WithPatience(d time.Duration) HeederOption {
	return func(h *Heeder) error {
		if d <= 0 {
			return invalid("WithPatience", "d", d, "be more than 0")
		}
		h.patience = d
		return nil
	}
}

// WithRetries sets how often a refused request is sent again, 0 to 10. Only those are sent
// again that may be: of a method that is idempotent (RFC 9110, section 9.2.2) or with an
// Idempotency-Key, and without a body or with http.Request.GetBody. Response bodies of
// refusals that nobody gets are read to the end, up to 64 KiB, and closed. The default is 0.
func WithRetries(n int) HeederOption {
	return func(h *Heeder) error {
		if n < 0 || n > 10 {
			return invalid("WithRetries", "n", n, "be 0 to 10")
		}
		h.retries = n
		return nil
	}
}

// NewHeeder returns a Heeder. next sends the requests; nil is http.DefaultTransport.
//
// Errors are limit.ErrInvalidArgument: an option is nil, or its argument is out of its
// bounds.
func NewHeeder(next http.RoundTripper, opts ...HeederOption) (*Heeder, error) {
	h := &Heeder{
		next: orDefault(next), patience: defaultPatience, until: map[string]time.Time{}, many: manyHolds,
	}
	for i, opt := range opts {
		if opt == nil {
			return nil, invalid("NewHeeder", fmt.Sprintf("option %d", i+1), nil, "not be nil")
		}
		if err := opt(h); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// RoundTrip holds r while its host has asked for that, sends it, and sends it again as
// WithRetries says. The last response is returned, also if it is a refusal. Without one the
// error is an ErrWait, the end of the context, or that of next.
func (h *Heeder) RoundTrip(r *http.Request) (*http.Response, error) {
	host := r.URL.Scheme + "://" + strings.ToLower(r.URL.Host)
	end := time.Now().Add(h.patience)
	if err := h.wait(r.Context(), host, end); err != nil {
		closeBody(r)
		return nil, err
	}
	for retries := 0; ; retries++ {
		response, err := h.next.RoundTrip(r)
		if err != nil || !h.heed(host, response) || retries == h.retries || !replayable(r) ||
			h.held(host).After(end) {
			return response, err
		}
		again, err := replay(r)
		if err != nil {
			return response, nil // the refusal says more than why there is no body
		}
		discard(response)
		if err := h.wait(r.Context(), host, end); err != nil {
			closeBody(again)
			return nil, err
		}
		r = again
	}
}

// CloseIdleConnections is for http.Client, which calls it if there is one.
func (h *Heeder) CloseIdleConnections() { closeIdle(h.next) }

// wait returns when the host may be asked again. Others may be refused meanwhile, so it
// looks again.
func (h *Heeder) wait(ctx context.Context, host string, end time.Time) error {
	for {
		until := h.held(host)
		left := time.Until(until)
		switch {
		case left <= 0:
			return nil
		case until.After(end):
			return fmt.Errorf("%w: %s asked for %v more, must be within %v", ErrWait, host, left, h.patience)
		}
		if err := sleep(ctx, left); err != nil {
			return err
		}
	}
}

func (h *Heeder) held(host string) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until[host]
}

// heed holds the host if the response is a refusal that says for how long, and reports
// whether it is.
func (h *Heeder) heed(host string, response *http.Response) bool {
	if response.StatusCode != http.StatusTooManyRequests &&
		response.StatusCode != http.StatusServiceUnavailable {
		return false
	}
	now := time.Now()
	d, ok := comeBack(response.Header, now)
	if !ok {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.until) >= h.many {
		h.sweep(now)
	}
	if until := now.Add(min(d, longestHold)); until.After(h.until[host]) {
		h.until[host] = until
	}
	return true
}

// sweep forgets the hosts whose hold is over. The next sweep is when there are twice as many
// as are left, so that sweeping costs little for each hold.
func (h *Heeder) sweep(now time.Time) {
	for host, until := range h.until {
		if !until.After(now) {
			delete(h.until, host)
		}
	}
	h.many = max(manyHolds, 2*len(h.until))
}

// idempotent are the methods whose requests may be sent again.
var idempotent = []string{"", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace,
	http.MethodPut, http.MethodDelete}

func replayable(r *http.Request) bool {
	if r.Body != nil && r.Body != http.NoBody && r.GetBody == nil {
		return false
	}
	return slices.Contains(idempotent, r.Method) || r.Header.Get("Idempotency-Key") != ""
}

// replay returns a copy of r with a body of its own.
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

// discard closes the body of a refusal. It does not read what is left, for that may never
// end; so the connection is not used again, which a refusal now and then may cost.
func discard(response *http.Response) { _ = response.Body.Close() }
