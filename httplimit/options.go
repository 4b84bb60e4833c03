package httplimit

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// defaultTimeout is longer than a healthy Redis needs, and too short for a visitor to notice.
const defaultTimeout = 100 * time.Millisecond

// An Option configures a Middleware.
type Option func(*Middleware) error

// A CostFunc returns how many permits a request costs. A request is passed on without asking the
// limiter if it costs 0 or the error is ErrNoLimit. A cost below 0 is refused like a
// limit.ErrInvalidArgument, with 400. Other errors are treated like those of a KeyFunc.
type CostFunc func(*http.Request) (int64, error)

// of returns the cost of r: 1 if the function is nil.
func (f CostFunc) of(r *http.Request) (int64, error) {
	if f == nil {
		return 1, nil
	}
	cost, err := f(r)
	switch {
	case err != nil:
		return 0, err
	case cost < 0:
		return cost, invalid("CostFunc", "the cost of a request", cost, "be at least 0")
	}
	return cost, nil
}

// WithCost sets the cost of a request. A cost above the limit can never be granted: the response is
// 400 without Retry-After, because waiting does not help. The default is 1.
func WithCost(cost CostFunc) Option {
	return option(cost != nil, nilArgument("WithCost", "cost"), func(m *Middleware) { m.cost = cost })
}

// WithTimeout sets how long the limiter may take for one request, at least 1 ms. The time of a
// KeyFunc or a CostFunc does not count, nor, with NewRules, the time to find the rules of the
// request. After d the limiter's context ends, and the Fallback decides about the request. It ends
// earlier at the deadline of the request's context, if there is one, but not when the visitor
// disconnects: the request may then still take d. The default is 100 ms.
func WithTimeout(d time.Duration) Option {
	return option(d >= time.Millisecond, invalid("WithTimeout", "d", d, "be at least 1ms"),
		func(m *Middleware) { m.timeout = d })
}

// A Fallback decides about a request if the limiter fails, for example because Redis is down. It does
// not apply to invalid requests: a missing key, a key that the limiter rejects or a cost above the
// limit always gets a 400. Nor does it apply to errors of a KeyFunc or a CostFunc.
type Fallback int

const (
	// FallbackDeny refuses the request with 503. It is the default.
	FallbackDeny Fallback = iota

	// FallbackAllow passes the request on, without fields: there is no limit while the limiter
	// fails.
	FallbackAllow
)

// WithFallback sets what happens to a request if the limiter fails. A limiter may have a fallback of
// its own (rratelimiter.WithFallback), which comes first: it returns a Result, not an error. The
// default is FallbackDeny.
func WithFallback(f Fallback) Option {
	return option(f == FallbackDeny || f == FallbackAllow,
		invalid("WithFallback", "f", int(f), "be one of the Fallback constants"),
		func(m *Middleware) { m.fallback = f })
}

// WithShadow counts requests and calls hooks as usual, but refuses no request and sets no field, so
// that visitors notice nothing. Use it to try a limit before it is enforced.
func WithShadow() Option {
	return func(m *Middleware) error {
		m.shadow = true
		return nil
	}
}

// WithNearLimit calls hook for each allowed request after which the used share of a limit is at least
// share: 0.8 means 80 %. share is more than 0, at most 1. If there are several limits, one is enough.
// As with all hooks, many goroutines call it at once, and the request waits for it.
func WithNearLimit(share float64, hook func(*http.Request, Decision)) Option {
	if hook == nil {
		return option[Middleware](false, nilArgument("WithNearLimit", "hook"), nil)
	}
	return option(share > 0 && share <= 1, // false for NaN
		invalid("WithNearLimit", "share", share, "be more than 0, at most 1"),
		func(m *Middleware) { m.near, m.onNear = share, hook })
}

// WithRefusedHook calls hook for each request that the limiter refused, before the response is
// written. In shadow mode these are the requests that would be refused.
func WithRefusedHook(hook func(*http.Request, Decision)) Option {
	return option(hook != nil, nilArgument("WithRefusedHook", "hook"),
		func(m *Middleware) { m.onRefused = hook })
}

// WithErrorHook calls hook for each request with an error of the limiter, the KeyFunc or the CostFunc.
// The visitor never sees the error, so log it here. Status says what happens to the request.
func WithErrorHook(hook func(*http.Request, Decision)) Option {
	return option(hook != nil, nilArgument("WithErrorHook", "hook"), func(m *Middleware) { m.onError = hook })
}

// WithResponse calls write to write a refusal. The header already has Retry-After and the fields of
// the limits. write sends the status, which need not be d.Status, and a body, and must not show d.Err
// to the visitor. The default is a problem document (RFC 9457).
func WithResponse(write func(w http.ResponseWriter, r *http.Request, d Decision)) Option {
	return option(write != nil, nilArgument("WithResponse", "write"),
		func(m *Middleware) { m.respond = write })
}

// Fields is a set of header fields for the numbers of the limits. Join several with |.
type Fields int

const (
	// Draft11 is RateLimit-Policy and RateLimit of
	// draft-ietf-httpapi-ratelimit-headers-11, with an item for each limit. It is the
	// default.
	Draft11 Fields = 1 << iota

	// Draft6 is RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset, in seconds, of
	// draft 6, for the limit that binds. RateLimit-Policy is in the form of draft 6
	// without Draft11, and in that of draft 11 with it.
	Draft6

	// XRateLimit is X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset, for
	// the limit that binds. No document defines them. Reset is a Unix time in seconds, as
	// GitHub and other services send it.
	XRateLimit
)

// WithFields sets the fields of a response; 0 leaves them out. A refusal always has Retry-After. The
// default is Draft11.
func WithFields(fields Fields) Option {
	return option(fields >= 0 && fields <= Draft11|Draft6|XRateLimit,
		invalid("WithFields", "fields", int(fields), "be made of the Fields constants"),
		func(m *Middleware) { m.fields = fields })
}

// WithPolicies names the limits, in the order of limit.Result.Each, for the fields and for problem
// documents. Visitors see the names. A name has 1 to 64 printable ASCII characters (a String of RFC
// 9651), and no two are alike. The default, also for limits beyond the names, is the name that a limit
// has for visitors (limit.Result.Policy). Without one it is "default" for a lone limit, and "limit-1",
// "limit-2" and so on for several.
func WithPolicies(names ...string) Option {
	return func(m *Middleware) error {
		m.policies = nil
		for i, name := range names {
			argument := fmt.Sprintf("name %d", i+1)
			if !isPolicyName(name) {
				return invalid("WithPolicies", argument, fmt.Sprintf("%q", name),
					"have 1 to 64 printable characters of ASCII")
			}
			if slices.Contains(names[:i], name) {
				return invalid("WithPolicies", argument, fmt.Sprintf("%q", name), "be there once")
			}
			m.policies = append(m.policies, quotedName(name))
		}
		return nil
	}
}

// WithExposedFields adds Access-Control-Expose-Headers with the names of the fields and Retry-After to
// each response, so that a script of another origin can read them. Values already in the header stay.
// A handler that sets the field later replaces this one: put the CORS handler in front of this
// Middleware, or let it add to the field.
func WithExposedFields() Option {
	return func(m *Middleware) error {
		m.exposed = "Retry-After"
		return nil
	}
}

// WithoutPreflights passes CORS preflight requests on without asking the limiter: the browser sends
// them, not the visitor. Anyone can send such a request, so its handler must be cheap.
func WithoutPreflights() Option {
	return func(m *Middleware) error {
		m.preflights = true
		return nil
	}
}

// invalid returns the error for an argument out of its bounds.
func invalid(where, argument string, value any, bound string) error {
	return fmt.Errorf("%w of httplimit.%s: %s is %v, must %s",
		limit.ErrInvalidArgument, where, argument, value, bound)
}

// nilArgument returns the error for an argument that is nil.
func nilArgument(where, argument string) error { return invalid(where, argument, nil, "not be nil") }

// option returns an option that calls set if ok is true, and otherwise returns wrong.
func option[T any](ok bool, wrong error, set func(*T)) func(*T) error {
	return func(target *T) error {
		if !ok {
			return wrong
		}
		set(target)
		return nil
	}
}

// apply applies the options of the constructor called where.
func apply[T any, O ~func(*T) error](where string, target *T, opts []O) error {
	for i, opt := range opts {
		if opt == nil {
			return nilArgument(where, fmt.Sprintf("option %d", i+1))
		}
		if err := opt(target); err != nil {
			return err
		}
	}
	return nil
}
