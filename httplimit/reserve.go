package httplimit

import (
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

// settleTimeout bounds a settlement of a Pacer, for which a response may wait.
const settleTimeout = time.Second

// WithReserve makes requests wait for the permits that estimate returns instead of 1, and settle what the
// response cost. The limiter must be a limit.Reserver or KeyedReserver, such as a RateLimiter or a Keyed;
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
	reservation, err := p.reserver.Reserve(r.Context(), key, n, wait)
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
		if actual := p.actual(response); actual >= 0 {
			_ = h.Settle(ctx, actual)
		}
	}
	return response, nil
}
