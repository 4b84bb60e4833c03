package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// A Middleware limits the requests to an http.Handler. It is safe for concurrent use,
// starts no goroutines and does not wrap the ResponseWriter, so that a handler can flush
// and hijack as without it.
type Middleware struct {
	keyed limit.Keyed
	key   KeyFunc
	rules Rules // instead of keyed and key, with user and address
	cost  CostFunc

	user, address KeyFunc

	timeout    time.Duration
	fallback   Fallback
	shadow     bool
	preflights bool // pass unlimited

	fields   fieldSet
	policies []policyName
	exposed  string // the value of Access-Control-Expose-Headers; empty for none

	near      float64 // the share of a limit from which onNear is called
	onNear    func(*http.Request, Decision)
	onRefused func(*http.Request, Decision)
	onError   func(*http.Request, Decision)
	respond   func(http.ResponseWriter, *http.Request, Decision)
}

// A Decision is what a Middleware made of one request: for hooks, and for a function
// that writes the response. Nothing of it is for visitors but Status and the numbers of
// Result.
type Decision struct {
	// Key is what the request was limited by, empty if Err came before it was known, and of
	// NewRules. Names of Result say it then.
	Key string

	// Cost is how many permits the request asked for.
	Cost int64

	// Result is what the limiter returned, zero after an error.
	Result limit.Result

	// Err is why there is no Result: an error of the limiter, of the KeyFunc or of the
	// CostFunc. It is nil if the limiter has decided.
	Err error

	// Status is the status of the response if the request is refused, 0 if it is passed
	// on. In shadow mode it is what the status would have been.
	Status int
}

// New returns a Middleware that takes permits of keyed for each request, from the limit
// whose key is that of key. limit.Shared makes a Keyed of a single Limiter.
//
// Errors are limit.ErrInvalidArgument: keyed, key or an option is nil, or an argument of
// an option is out of its bounds; or of keyed, if it is a limit.Validator.
func New(keyed limit.Keyed, key KeyFunc, opts ...Option) (*Middleware, error) {
	switch {
	case keyed == nil:
		return nil, invalid("New", "keyed", nil, "not be nil")
	case key == nil:
		return nil, invalid("New", "key", nil, "not be nil")
	}
	if err := limit.Validate(keyed); err != nil {
		return nil, err
	}
	return (&Middleware{keyed: keyed, key: key}).with("New", opts)
}

// with sets what all have, and the options.
func (m *Middleware) with(where string, opts []Option) (*Middleware, error) {
	m.timeout, m.fields, m.respond = defaultTimeout, fieldSet(Draft11), m.writeProblem
	for i, opt := range opts {
		if opt == nil {
			return nil, invalid(where, fmt.Sprintf("option %d", i+1), nil, "not be nil")
		}
		if err := opt(m); err != nil {
			return nil, err
		}
	}
	if m.exposed != "" {
		m.exposed = m.fields.names()
	}
	return m, nil
}

// invalid returns the error for an argument out of its bounds.
func invalid(where, argument string, value any, bound string) error {
	return fmt.Errorf("%w of httplimit.%s: %s is %v, must %s",
		limit.ErrInvalidArgument, where, argument, value, bound)
}

// Handler returns a handler that calls next for the requests that are not refused. Its
// form is the one that routers such as chi expect of a middleware.
func (m *Middleware) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		admitted, asked := m.admit(w, r)
		if asked.holds() {
			defer m.finish(r, asked)
		}
		if admitted {
			next.ServeHTTP(w, r)
		}
	})
}

// Admit decides about r, and reports whether it may go on. If so, the fields are in the
// header of w, and the response is the caller's. If not, the response has been written.
// It is what Handler calls, for frameworks that have a form of their own.
//
// If the limiter fails when the context of r has ended, the visitor is gone: the response is
// an empty 503, and no hook is called. If the context has ended before, the limiter is not
// asked. One that is being asked is not told, and may answer until WithTimeout has passed.
//
// Permits that a request holds as long as it runs (NewRules) come back when the context of r
// ends, which a server sees to when its handler has returned.
func (m *Middleware) Admit(w http.ResponseWriter, r *http.Request) bool {
	admitted, asked := m.admit(w, r)
	if asked.holds() {
		context.AfterFunc(r.Context(), func() { m.finish(r, asked) })
	}
	return admitted
}

// admit is Admit. If the request holds permits, finish gives them back.
func (m *Middleware) admit(w http.ResponseWriter, r *http.Request) (bool, *question) {
	d, asked, limited := m.decide(r)
	if !limited {
		return true, nil
	}
	gone := d.Err != nil && ended(r.Context())
	if !gone {
		m.tell(r, d)
	}
	switch {
	case m.shadow:
		return true, asked
	case gone:
		w.WriteHeader(http.StatusServiceUnavailable)
		return false, asked
	}
	if d.Err == nil {
		m.setFields(w.Header(), d.Result, &asked.lines)
	}
	if d.Status == 0 {
		return true, asked
	}
	m.respond(w, r, d)
	return false, asked
}

// finish gives back what a request held that has ended. Its context may have ended, too.
func (m *Middleware) finish(r *http.Request, asked *question) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), m.timeout)
	defer cancel()
	if err := asked.done(ctx); err != nil && m.onError != nil {
		m.onError(r, Decision{Err: err})
	}
}

// A question is what each request needs that is asked for: one piece of memory for the
// context of the limiter and the lines of the response.
type question struct {
	bounded
	lines [3]string
	done  func(context.Context) error // of Rules, nil if nothing is held
}

// holds reports whether a request holds permits as long as it runs.
func (q *question) holds() bool { return q != nil && q.done != nil }

func newQuestion(request context.Context, timeout time.Duration) *question {
	return &question{bounded: bounded{request: request, timeout: timeout}}
}

// decide asks the limiter. limited is false if the request needs no permits. asked is nil
// if there was no question.
func (m *Middleware) decide(r *http.Request) (d Decision, asked *question, limited bool) {
	if m.preflights && isPreflight(r) {
		return Decision{}, nil, false
	}
	d.Key, d.Cost, d.Err = m.wants(r)
	switch {
	case errors.Is(d.Err, ErrNoLimit) || d.Err == nil && d.Cost == 0:
		return Decision{}, nil, false
	case d.Err != nil:
		// The fallback is not for these: who can spoil a key would not be limited.
		d.Status = statusOf(d.Err)
		return d, nil, true
	}
	if d.Err = r.Context().Err(); d.Err == nil {
		asked = newQuestion(r.Context(), m.timeout)
		m.ask(r, &d, asked)
		asked.end()
		d.Err = m.named(r, d.Err)
	}
	switch {
	case m.rules != nil && errors.Is(d.Err, ErrNoLimit): // of the user or the address
		return Decision{}, nil, false
	case d.Err != nil:
		d.Status = statusOf(d.Err)
		_, ofKey := errors.AsType[keyError](d.Err)
		if d.Status == http.StatusServiceUnavailable && m.fallback == FallbackAllow && !ofKey {
			d.Status = 0
		}
	case !d.Result.Allowed:
		d.Status = http.StatusTooManyRequests
	}
	return d, asked, true
}

// ask asks the limiter, whose time begins now, or the rules, which find out first what to ask: their time
// begins when they look at the context.
func (m *Middleware) ask(r *http.Request, d *Decision, asked *question) {
	if m.rules == nil {
		asked.restart()
		d.Result, d.Err = m.keyed.Allow(&asked.bounded, d.Key, d.Cost)
		return
	}
	user, address := untimed(asked, m.user), untimed(asked, m.address)
	d.Result, asked.done, d.Err = m.rules.AllowRequest(&asked.bounded, r, user, address, d.Cost)
}

// named returns an error that says what has not answered, and in which time, where that is all that a context
// says of its end.
func (m *Middleware) named(r *http.Request, err error) error {
	_, ofKey := errors.AsType[keyError](err)
	timedOut := !ofKey && errors.Is(err, context.DeadlineExceeded) && !ended(r.Context())
	if !timedOut || errors.Is(err, limit.ErrNoAnswer) {
		return err
	}
	return fmt.Errorf("%w in %v (httplimit.WithTimeout): %w", limit.ErrNoAnswer, m.timeout, err)
}

// untimed returns a function whose time is not that of the limiter, which begins anew when
// it has returned. A visitor who can make it slow has no Fallback then.
func untimed(asked *question, of KeyFunc) func(*http.Request) (string, error) {
	if of == nil {
		return nil
	}
	return func(r *http.Request) (string, error) {
		defer asked.restart()
		return of(r)
	}
}

// ended reports whether the context of a request has ended, or is about to: a question ends
// at the same deadline, by another timer.
func ended(request context.Context) bool {
	at, ok := request.Deadline()
	return request.Err() != nil || ok && !time.Now().Before(at)
}

// wants returns the permits that a request wants, and of which limit.
func (m *Middleware) wants(r *http.Request) (key string, cost int64, err error) {
	if m.rules == nil {
		if key, err = m.key(r); err != nil {
			return "", 0, err
		}
	}
	cost = 1
	if m.cost != nil {
		if cost, err = m.cost(r); err != nil {
			return key, 0, err
		}
	}
	switch {
	case cost < 0:
		return key, cost, invalid("CostFunc", "the cost of a request", cost, "be at least 0")
	case key == "" && m.rules == nil:
		return key, cost, fmt.Errorf("%w: the key is empty, must not be", ErrNoKey)
	}
	return key, cost, nil
}

// statusOf returns the status for an error. It is 400 where the request is to blame: to
// send it again does not help. Otherwise it is 503.
func statusOf(err error) int {
	if errors.Is(err, limit.ErrMisconfigured) {
		return http.StatusServiceUnavailable
	}
	for _, blamed := range []error{ErrNoKey, limit.ErrInvalidArgument, limit.ErrPermitsExceedRate} {
		if errors.Is(err, blamed) {
			return http.StatusBadRequest
		}
	}
	return http.StatusServiceUnavailable
}

// tell calls the hooks that a decision is for.
func (m *Middleware) tell(r *http.Request, d Decision) {
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

// isNear reports whether the share of a limit is used that WithNearLimit says.
func (m *Middleware) isNear(result limit.Result) bool {
	for _, one := range each(&result) {
		if one.Limit > 0 && !one.Degraded &&
			float64(one.Limit-one.Remaining) >= m.near*float64(one.Limit) {
			return true
		}
	}
	return false
}

// each returns the results of all limits that have decided.
func each(result *limit.Result) []limit.Result {
	if len(result.Each) > 0 {
		return result.Each
	}
	return []limit.Result{*result}
}

// isPreflight reports whether r asks for permission to send another request
// (CORS-preflight request of the Fetch standard).
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" &&
		r.Header.Get("Access-Control-Request-Method") != ""
}
