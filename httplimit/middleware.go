package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/redisson-go/rratelimiter/internal/admission"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Middleware limits the requests to an http.Handler. It is safe for concurrent use and starts no
// goroutines. It does not wrap the ResponseWriter, except for WithActual, so a handler can still flush
// and hijack.
type Middleware struct {
	limits admission.Limits
	key    KeyFunc
	rules  Rules // instead of limits and key, with user and address
	cost   CostFunc

	user, address KeyFunc

	settles bool // the handler may call Settle
	actual  func(*http.Request, Response) int64

	timeout    time.Duration
	fallback   Fallback
	shadow     bool
	preflights bool // pass unlimited

	fields   Fields
	policies []policyName
	exposed  string // the value of Access-Control-Expose-Headers, empty for none

	near      float64 // the used share of a limit from which onNear is called
	onNear    func(*http.Request, Decision)
	onRefused func(*http.Request, Decision)
	onError   func(*http.Request, Decision)
	respond   func(http.ResponseWriter, *http.Request, Decision)
}

// A Decision is the outcome for one request, for hooks and for a function that writes the response.
// Visitors may see only Status and the numbers of Result.
type Decision struct {
	// Key is the key of the request. It is empty if the KeyFunc failed, and with NewRules, where the
	// names in Result contain the keys.
	Key string

	// Cost is how many permits the request asked for.
	Cost int64

	// Result is the result of the limiter, zero after an error.
	Result limit.Result

	// Err is the error of the limiter, the KeyFunc or the CostFunc, nil if there is a Result. For the
	// error of a settlement the hook is called again, with Status 0 and no Result.
	Err error

	// Status is the status of the response if the request is refused, 0 if it is passed
	// on. In shadow mode it is the status that the request would have got.
	Status int
}

// New returns a Middleware that takes the permits for each request from the limit in keyed that key
// selects. For one limit of all requests, make a Keyed of its Limiter by limit.Shared:
//
//	all := client.RateLimiter("search").WithRate(100, time.Second)
//	m, err := httplimit.New(limit.Shared(all), httplimit.Constant("all"))
//
// The error is a limit.ErrInvalidArgument if keyed, key or an option is nil, an argument of an option is
// out of its bounds, or the limiters of keyed cannot reserve what WithSettle or WithActual asks for; or that
// of limit.Validate for keyed or its limiters.
func New[L limit.Limiter](keyed limit.Keyed[L], key KeyFunc, opts ...Option) (*Middleware, error) {
	switch {
	case keyed == nil:
		return nil, nilArgument("New", "keyed")
	case key == nil:
		return nil, nilArgument("New", "key")
	}
	limits, err := admission.LimitsOf(keyed)
	if err != nil {
		return nil, err
	}
	return (&Middleware{limits: limits, key: key}).with("New", opts)
}

// with sets the defaults and applies the options of the constructor called where.
func (m *Middleware) with(where string, opts []Option) (*Middleware, error) {
	m.timeout, m.fields, m.respond = defaultTimeout, Draft11, m.writeProblem
	if err := apply(where, m, opts); err != nil {
		return nil, err
	}
	if m.exposed != "" {
		m.exposed = m.fields.names()
	}
	if err := m.checkReserver(where); err != nil {
		return nil, err
	}
	return m, nil
}

// Handler returns a handler that calls next for the requests that are not refused. It has the form
// that routers such as chi expect of a middleware.
func (m *Middleware) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		admitted, c := m.admit(w, r)
		if c.holds() {
			defer m.finish(r, c)
		}
		if admitted {
			m.serve(next, w, r, c)
		}
	})
}

// Admit decides about r, and reports whether it may go on. If so, the fields are in the header of w,
// and the caller writes the response. If not, Admit has written it. Handler calls it; frameworks with
// another form of middleware call it themselves.
//
// If the limiter fails after the context of r has ended, the visitor has disconnected: the response
// is an empty 503, and no hook is called. A request whose context has ended already does not reach
// the limiter. A call of the limiter is not canceled when the visitor disconnects, and may go on until
// WithTimeout has passed.
//
// Permits that a request holds while it runs (NewRules) come back when the context of r ends; a
// server ends it when its handler has returned.
func (m *Middleware) Admit(w http.ResponseWriter, r *http.Request) bool {
	admitted, c := m.admit(w, r)
	if c.holds() {
		context.AfterFunc(r.Context(), func() { m.finish(r, c) })
	}
	return admitted
}

// admit decides about r and writes a refusal. If c holds permits, finish gives them back.
func (m *Middleware) admit(w http.ResponseWriter, r *http.Request) (admitted bool, c *call) {
	d, c, limited := m.decide(r)
	if !limited {
		return true, nil
	}
	gone := d.Err != nil && ended(r.Context())
	if !gone {
		m.report(r, d)
	}
	switch {
	case m.shadow:
		return true, c
	case gone:
		w.WriteHeader(http.StatusServiceUnavailable)
		return false, c
	}
	if d.Err == nil {
		m.setFields(w.Header(), d.Result)
	}
	if d.Status == 0 {
		return true, c
	}
	m.respond(w, r, d)
	return false, c
}

// finish gives back the permits that a request held. The context of r may have ended already.
func (m *Middleware) finish(r *http.Request, c *call) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), m.timeout)
	defer cancel()
	if err := c.done(ctx); err != nil && m.onError != nil {
		m.onError(r, Decision{Err: err})
	}
}

// A call is one call of the limiter, and its reservation.
type call struct {
	admission.Held
	key  string
	done func(context.Context) error // gives back what Rules hold, nil if they hold nothing
}

// newCall returns the call for a decision, nil if it can neither reserve nor hold permits.
func (m *Middleware) newCall(d Decision) *call {
	if m.rules == nil && !m.reserves() {
		return nil
	}
	c := &call{key: d.Key}
	c.Estimate, c.Several = d.Cost, m.rules != nil
	return c
}

// holds reports whether a request holds permits while it runs.
func (c *call) holds() bool { return c != nil && c.done != nil }

// within returns the context of one call of the limiter: that of the request with a timeout, which a
// deadline of the request may shorten. It does not end when the visitor disconnects: passing that on costs
// time on each request, and the timeout is short.
func (m *Middleware) within(request context.Context) (context.Context, context.CancelFunc) {
	at := time.Now().Add(m.timeout)
	if deadline, ok := request.Deadline(); ok && deadline.Before(at) {
		at = deadline
	}
	return context.WithDeadline(context.WithoutCancel(request), at)
}

// decide calls the limiter. limited is false if the request needs no permits. c is nil if it was not called,
// and without a call to keep (newCall).
func (m *Middleware) decide(r *http.Request) (d Decision, c *call, limited bool) {
	if m.preflights && isPreflight(r) {
		return Decision{}, nil, false
	}
	d.Key, d.Cost, d.Err = m.keyAndCost(r)
	switch {
	case errors.Is(d.Err, ErrNoLimit) || d.Err == nil && d.Cost == 0:
		return Decision{}, nil, false
	case d.Err != nil:
		// No fallback: a visitor with a broken key would bypass the limit.
		d.Status = statusOf(d.Err)
		return d, nil, true
	}
	if d.Err = r.Context().Err(); d.Err == nil {
		c = m.newCall(d)
		m.ask(r, &d, c)
		d.Err = m.explained(r, d.Err)
	}
	switch {
	case m.rules != nil && errors.Is(d.Err, ErrNoLimit): // of the user or the address
		return Decision{}, nil, false
	case d.Err != nil:
		d.Status = statusOf(d.Err)
		if d.Status == http.StatusServiceUnavailable && m.fallback == FallbackAllow &&
			!admission.IsKeyError(d.Err) {
			d.Status = 0
		}
	case !d.Result.Allowed:
		d.Status = http.StatusTooManyRequests
	}
	return d, c, true
}

// ask calls the limiter, whose timeout begins now, or the rules, whose timeout begins when they have
// found the limits: a visitor that can slow that down must not get a Fallback.
func (m *Middleware) ask(r *http.Request, d *Decision, c *call) {
	if m.rules != nil {
		m.askRules(r, d, c)
		return
	}
	ctx, cancel := m.within(r.Context())
	defer cancel()
	if !m.reserves() {
		d.Result, d.Err = m.limits.Allow(ctx, d.Key, d.Cost)
		return
	}
	c.Reservation, d.Result, d.Err = m.limits.TryReserve(ctx, d.Key, d.Cost)
	c.Several = d.Result.Each != nil
}

func (m *Middleware) askRules(r *http.Request, d *Decision, c *call) {
	cancel := func() {}
	defer func() { cancel() }()
	begin := func() (ctx context.Context) {
		ctx, cancel = m.within(r.Context())
		return ctx
	}
	d.Result, c.Reservation, c.done, d.Err = m.rules.AllowRequest(begin, r, m.user, m.address, d.Cost)
}

// explained adds to a bare context.DeadlineExceeded that the limiter did not reply, and the timeout.
func (m *Middleware) explained(r *http.Request, err error) error {
	timedOut := errors.Is(err, context.DeadlineExceeded) && !admission.IsKeyError(err) && !ended(r.Context())
	if !timedOut || errors.Is(err, limit.ErrNoAnswer) {
		return err
	}
	return fmt.Errorf("%w in %v (httplimit.WithTimeout): %w", limit.ErrNoAnswer, m.timeout, err)
}

// ended reports whether the context of a request has ended, or its deadline has passed: a call ends
// at the same deadline by a timer of its own, which may be the first to fire.
func ended(request context.Context) bool {
	at, ok := request.Deadline()
	return request.Err() != nil || ok && !time.Now().Before(at)
}

// keyAndCost returns the key and the cost of a request. With rules the key is empty.
func (m *Middleware) keyAndCost(r *http.Request) (key string, cost int64, err error) {
	if m.rules == nil {
		if key, err = m.key(r); err != nil {
			return "", 0, err
		}
	}
	cost, err = m.cost.of(r)
	if err == nil && key == "" && m.rules == nil {
		err = errEmptyKey
	}
	return key, cost, err
}

// statusOf returns the status for an error: 400 if the request is wrong, so that sending it again does
// not help, and otherwise 503.
func statusOf(err error) int {
	noKey := errors.Is(err, ErrNoKey) && !errors.Is(err, limit.ErrMisconfigured)
	if noKey || admission.FaultOf(err) != admission.FaultOfLimiter {
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable
}

// report calls the hook for a decision.
func (m *Middleware) report(r *http.Request, d Decision) {
	switch {
	case d.Err != nil:
		if m.onError != nil {
			m.onError(r, d)
		}
	case d.Status != 0:
		if m.onRefused != nil {
			m.onRefused(r, d)
		}
	case m.onNear != nil && m.isNear(d.Result):
		m.onNear(r, d)
	}
}

// isNear reports whether the used share of a limit has reached that of WithNearLimit.
func (m *Middleware) isNear(result limit.Result) bool {
	for _, one := range each(&result) {
		if one.Limit > 0 && !one.Degraded &&
			float64(one.Limit-one.Remaining) >= m.near*float64(one.Limit) {
			return true
		}
	}
	return false
}

// each returns the results of all limits that decided.
func each(result *limit.Result) []limit.Result {
	if len(result.Each) > 0 {
		return result.Each
	}
	return []limit.Result{*result}
}

// isPreflight reports whether r is a CORS-preflight request of the Fetch standard.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" &&
		r.Header.Get("Access-Control-Request-Method") != ""
}
