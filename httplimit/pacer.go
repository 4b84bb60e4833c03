package httplimit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/admission"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Pacer is an http.RoundTripper that waits for a permit before it sends a request, so that a program
// stays within the limit of a service that it calls. It is safe for concurrent use and starts no
// goroutines.
type Pacer struct {
	next    http.RoundTripper
	key     KeyFunc
	limits  admission.Limits
	maxWait time.Duration // 0 for none

	estimate CostFunc // nil if requests take 1 permit
	actual   func(*http.Response) int64
	onError  func(*http.Request, error)
}

// A PacerOption configures a Pacer.
type PacerOption func(*Pacer) error

// WithMaxWait sets how long a request may wait for its turn, more than 0. If the wait would be
// longer, the error is an ErrWait: at once if the limiter reports how long, and otherwise after d.
// By default only the context of the request ends the wait.
func WithMaxWait(d time.Duration) PacerOption {
	return option(d > 0, invalid("WithMaxWait", "d", d, "be more than 0"), func(p *Pacer) { p.maxWait = d })
}

// NewPacer returns a Pacer whose requests share one limit. If limiter is a limit.Acquirer, such as
// a RateLimiter, requests wait in its line. Otherwise the Pacer calls Allow again after
// RetryAfter. next sends the requests; nil is http.DefaultTransport.
//
// The error is a limit.ErrInvalidArgument if limiter or an option is nil, an argument of an option is out
// of its bounds, or limiter cannot reserve what WithReserve asks for.
func NewPacer(next http.RoundTripper, limiter limit.Limiter, opts ...PacerOption) (*Pacer, error) {
	if limiter == nil {
		return nil, nilArgument("NewPacer", "limiter")
	}
	return newPacer("NewPacer", next, limit.Shared(limiter), Constant("all"), opts)
}

// NewKeyedPacer is NewPacer with a limit for each key, such as ByHost. Requests wait in line if the limiter
// of a key is a limit.Acquirer, such as that of a Keyed. A request for which key returns ErrNoLimit is sent
// at once. With any other error it is not sent.
func NewKeyedPacer[L limit.Limiter](
	next http.RoundTripper, keyed limit.Keyed[L], key KeyFunc, opts ...PacerOption,
) (*Pacer, error) {
	switch {
	case keyed == nil:
		return nil, nilArgument("NewKeyedPacer", "keyed")
	case key == nil:
		return nil, nilArgument("NewKeyedPacer", "key")
	}
	return newPacer("NewKeyedPacer", next, keyed, key, opts)
}

// newPacer returns a Pacer for the constructor called where.
func newPacer[L limit.Limiter](
	where string, next http.RoundTripper, keyed limit.Keyed[L], key KeyFunc, opts []PacerOption,
) (*Pacer, error) {
	limits, err := admission.LimitsOf(keyed)
	if err != nil {
		return nil, err
	}
	p := &Pacer{next: orDefault(next), key: key, limits: limits}
	if err := apply(where, p, opts); err != nil {
		return nil, err
	}
	if p.estimate != nil && limits.Reserve == nil {
		return nil, noReserver(where, "WithReserve")
	}
	return p, nil
}

func orDefault(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		return http.DefaultTransport
	}
	return next
}

// RoundTrip waits for a permit and then sends r. Without a permit r is not sent, and the error is
// an ErrWait, that of the context, or that of the limiter or the KeyFunc.
func (p *Pacer) RoundTrip(r *http.Request) (*http.Response, error) {
	reservation, err := p.wait(r)
	switch {
	case err != nil:
		closeBody(r)
		return nil, err
	case reservation != nil:
		return p.send(r, reservation)
	}
	return p.next.RoundTrip(r)
}

// CloseIdleConnections closes the idle connections of next. http.Client calls it.
func (p *Pacer) CloseIdleConnections() { closeIdle(p.next) }

// wait waits for the permits of r, and returns their reservation with WithReserve.
func (p *Pacer) wait(r *http.Request) (*limit.Reservation, error) {
	key, err := p.key(r)
	switch {
	case errors.Is(err, ErrNoLimit):
		return nil, nil
	case err == nil && key == "":
		return nil, errEmptyKey
	case err != nil:
		return nil, err
	case p.estimate != nil:
		return p.reserve(r, key)
	}
	ctx := r.Context()
	if p.maxWait > 0 {
		timed, cancel := context.WithTimeout(ctx, p.maxWait)
		defer cancel()
		ctx = timed
	}
	if p.limits.Acquire != nil {
		err = p.limits.Acquire(ctx, key, 1)
	} else {
		err = p.poll(ctx, key)
	}
	if err != nil && ctx.Err() != nil && r.Context().Err() == nil {
		return nil, fmt.Errorf("%w: no permit within %v: %w", ErrWait, p.maxWait, err)
	}
	return nil, err
}

// poll waits for the permit of a limiter that has no line.
func (p *Pacer) poll(ctx context.Context, key string) error {
	var latest time.Time
	if p.maxWait > 0 {
		latest = time.Now().Add(p.maxWait)
	}
	ask := func() (limit.Result, error) { return p.limits.Allow(ctx, key, 1) }
	result, err := admission.Poll(ctx, latest, ask)
	if err == nil && !result.Allowed {
		return fmt.Errorf("%w: the next permit comes in %v, must come within %v (WithMaxWait)",
			ErrWait, result.RetryAfter, p.maxWait)
	}
	return err
}

// closeBody closes the body of a request that is not sent, as a RoundTripper must do.
func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close() // nothing was read, so nothing can be lost
	}
}

func closeIdle(next http.RoundTripper) {
	if closer, ok := next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// settleTimeout bounds a settlement of a Pacer, for which a response may wait.
const settleTimeout = time.Second

// WithReserve makes requests wait for the permits that estimate returns instead of 1, and settle what the
// response cost. The limiter must be a limit.Reserver, such as a RateLimiter or that of a Keyed;
// requests wait in its line. A request is sent at once if the estimate is 0 or the error is ErrNoLimit;
// with any other error it is not sent.
//
// actual returns what a response cost, such as a number in its header, before RoundTrip returns it. It may
// read the body if it leaves another one with the same content. If actual is nil or returns a negative
// number, settle the response later, with Settle(response.Request.Context(), n): for example a stream
// that has its cost at the end. An estimate that is never settled counts.
//
// If there is no response, the estimate counts, because the service may have done the work. It comes
// back only if an http.Transport reports (httptrace) that the request got no connection.
func WithReserve(estimate CostFunc, actual func(*http.Response) int64) PacerOption {
	return option(estimate != nil, nilArgument("WithReserve", "estimate"),
		func(p *Pacer) { p.estimate, p.actual = estimate, actual })
}

// WithSettleErrorHook calls hook for each request whose settlement failed (WithReserve). It is unknown
// whether the settlement took effect; the response is not affected. A settlement may take a second.
func WithSettleErrorHook(hook func(*http.Request, error)) PacerOption {
	return option(hook != nil, nilArgument("WithSettleErrorHook", "hook"),
		func(p *Pacer) { p.onError = hook })
}

// reserve waits for the permits of r, and returns nil if it needs none.
func (p *Pacer) reserve(r *http.Request, key string) (*limit.Reservation, error) {
	n, err := p.estimate.of(r)
	switch {
	case errors.Is(err, ErrNoLimit) || err == nil && n == 0:
		return nil, nil
	case err != nil:
		return nil, err
	}
	wait := p.maxWait
	if wait == 0 {
		wait = math.MaxInt64
	}
	reservation, err := p.limits.Reserve(r.Context(), key, n, wait)
	if err == nil && reservation == nil {
		err = fmt.Errorf("%w: the limiter refused %d permits", ErrWait, n)
	}
	return reservation, err
}

// send sends r and settles its reservation.
func (p *Pacer) send(r *http.Request, reservation *limit.Reservation) (*http.Response, error) {
	h := &admission.Held{Reservation: reservation, Timeout: settleTimeout}
	if p.onError != nil {
		h.OnError = func(err error) { p.onError(r, err) }
	}
	// Without a call of GetConn the transport does not report, and r may have been sent.
	var reports, connected atomic.Bool
	ctx := httptrace.WithClientTrace(h.Alone(r.Context(), place), &httptrace.ClientTrace{
		GetConn: func(string) { reports.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	r = r.WithContext(ctx)
	response, err := p.next.RoundTrip(r)
	if err != nil {
		if reports.Load() && !connected.Load() {
			_ = h.Settle(ctx, 0) // the hook has the error
		}
		return response, err
	}
	if response.Request == nil {
		response.Request = r
	}
	if p.actual != nil {
		h.Finish(ctx, false, func() int64 { return p.actual(response) })
	}
	return response, nil
}
