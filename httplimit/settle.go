package httplimit

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"

	"github.com/redisson-go/rratelimiter/internal/admission"
)

// place names the reservations of this package in a context.
const place = "httplimit"

// Settle reports how many permits a request used, 0 or more: in a handler behind a Middleware with
// WithSettle, or, with the context of its Request, for a response of a Pacer with WithReserve. For a
// limit.Shared Group there is one amount for each limiter, or one for all (Group.Reserve). If less was
// used than the estimate, the rest comes back; if more was used, the difference is charged
// (limit.Reservation).
//
// If several Middlewares with WithSettle are around the handler, Settle settles the reservation of each.
// It takes effect once: a second Settle changes nothing and returns nil. If the first one failed, it tries
// again with the amounts of the first. If a request needed no permits, or was passed on without any,
// Settle does nothing and returns nil.
//
// Settle ignores the end of ctx, because permits are used whether or not the visitor is still there;
// WithTimeout bounds it. It may be called after the handler has returned. The error, which the hook for
// errors also receives, is that of limit.Reservation.Settle. It is limit.ErrNoReservation if ctx comes
// neither from a Middleware with WithSettle nor from such a Pacer.
func Settle(ctx context.Context, actual ...int64) error { return admission.Settle(ctx, place, actual) }

// WithSettle reserves the cost of a request as an estimate (WithCost), which the handler corrects
// with Settle once it knows. An estimate that is never settled counts. The limiter of a key must be a
// limit.Reserver, such as that of a Keyed, or a RateLimiter or Group of limit.Shared. Otherwise New returns a
// limit.ErrInvalidArgument. With NewRules, the rules determine which limits are settled.
//
// The fields of the response show the estimate. Admit does not reserve, because it cannot change the
// request that the handler gets: its estimate counts.
func WithSettle() Option {
	return func(m *Middleware) error {
		m.settles = true
		return nil
	}
}

// A Response is what a handler sent, for WithActual.
type Response struct {
	// Status is the status that was sent: 101 if the handler took over the connection, and 0 if it
	// panicked before it sent one.
	Status int

	// Bytes is the number of body bytes that the handler wrote, not counting writes to a
	// connection that it took over.
	Bytes int64

	// Header is the header that the handler set, with its trailers. Do not change it.
	Header http.Header
}

// WithActual reserves the cost of a request as an estimate (WithCost), and after the handler calls
// actual to learn what it used, such as the bytes of the response. If the result is negative, the
// estimate counts. With WithSettle as well, the handler's first Settle counts. The limiter, the fields
// and Admit are as for WithSettle.
//
// If the handler panics, what it was about to send is unknown, so nothing comes back: the estimate
// counts, or actual if it is more; with a Group, the estimates. The handler gets a ResponseWriter that
// counts, and implements http.Flusher, http.Hijacker, io.ReaderFrom and Unwrap. The response of a short
// handler may wait for the settlement, up to WithTimeout.
func WithActual(actual func(*http.Request, Response) int64) Option {
	return option(actual != nil, nilArgument("WithActual", "actual"),
		func(m *Middleware) { m.actual = actual })
}

// reserves reports whether requests reserve their cost.
func (m *Middleware) reserves() bool { return m.settles || m.actual != nil }

// checkReserver returns an error of the constructor called where if the options ask for limiters that
// reserve, and these do not.
func (m *Middleware) checkReserver(where string) error {
	if m.rules != nil || !m.reserves() || m.limits.Reserve != nil {
		return nil
	}
	return noReserver(where, "WithSettle and WithActual")
}

func noReserver(where, options string) error {
	return invalid(where, "the limiter", "no limit.Reserver", "be one for "+options)
}

// serve calls next for a request that was not refused. c is nil if the request needs no permits.
func (m *Middleware) serve(next http.Handler, w http.ResponseWriter, r *http.Request, c *call) {
	if !m.reserves() {
		next.ServeHTTP(w, r)
		return
	}
	if c == nil {
		c = &call{}
	}
	c.Timeout = m.timeout
	if m.onError != nil {
		c.OnError = func(err error) { m.onError(r, Decision{Key: c.key, Cost: c.Estimate, Err: err}) }
	}
	inner := r
	if m.settles {
		inner = r.WithContext(c.In(r.Context(), place))
	}
	if m.actual == nil || c.Reservation == nil {
		next.ServeHTTP(w, inner)
		return
	}
	counted := &counter{ResponseWriter: w}
	panicked := true
	defer func() {
		c.Finish(r.Context(), panicked, func() int64 {
			if !panicked {
				counted.sent(http.StatusOK) // by net/http, if the handler sent none
			}
			return m.actual(r, Response{Status: counted.status, Bytes: counted.bytes, Header: w.Header()})
		})
	}()
	next.ServeHTTP(counted, inner)
	panicked = false
}

// A counter counts what a handler sends.
type counter struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// Unwrap returns the ResponseWriter, for http.ResponseController.
func (w *counter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader sends a status. Another one may follow an informational status, but 101 is the last.
func (w *counter) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.sent(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// sent notes the status, of which the first counts.
func (w *counter) sent(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write writes a part of the body.
func (w *counter) Write(p []byte) (int, error) {
	w.sent(http.StatusOK)
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// ReadFrom writes all of src, by sendfile if the ResponseWriter can.
func (w *counter) ReadFrom(src io.Reader) (int64, error) {
	w.sent(http.StatusOK)
	n, err := io.Copy(w.ResponseWriter, src)
	w.bytes += n
	return n, err
}

// Flush sends what was written so far, if the ResponseWriter can.
func (w *counter) Flush() { _ = w.FlushError() }

// FlushError is Flush for http.ResponseController.
func (w *counter) FlushError() error {
	w.sent(http.StatusOK)
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack takes over the connection, if the ResponseWriter can.
func (w *counter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.sent(http.StatusSwitchingProtocols)
	}
	return conn, buffer, err
}
