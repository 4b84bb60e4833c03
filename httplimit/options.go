package httplimit

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// defaultTimeout is long for a Redis that is well, and short for a person who waits.
const defaultTimeout = 100 * time.Millisecond

// An Option changes what a Middleware does.
type Option func(*Middleware) error

// A CostFunc returns how many permits a request costs. A request that costs 0 is passed
// on without asking the limiter, and so is one for which the error is ErrNoLimit. A cost
// below 0 is refused as an ErrInvalidArgument is, with 400. Other errors are those of a
// KeyFunc.
type CostFunc func(*http.Request) (int64, error)

// WithCost sets what a request costs. A cost above the limit can never be paid: the
// response is 400 without Retry-After, because to wait does not help. The default is 1.
func WithCost(cost CostFunc) Option {
	return func(m *Middleware) error {
		if cost == nil {
			return invalid("WithCost", "cost", nil, "not be nil")
		}
		m.cost = cost
		return nil
	}
}

// WithTimeout sets how long the limiter may take for one request, at least 1 ms. The time of
// a KeyFunc or a CostFunc does not count, and of NewRules neither that of finding the rules of
// the request. After that its context ends, and Fallback says what becomes of the request. It
// ends earlier at the deadline of the request's context, if that has one, but not when the
// visitor goes: d is then how long the request may still take. The default is 100 ms.
func WithTimeout(d time.Duration) Option {
	return func(m *Middleware) error {
		if d < time.Millisecond {
			return invalid("WithTimeout", "d", d, "be at least 1ms")
		}
		m.timeout = d
		return nil
	}
}

// A Fallback is what becomes of a request if the limiter fails, for example because
// Redis is away. It is not for requests that are wrong themselves: those without a key,
// with a key that cannot be used, or with a cost that can never be paid are refused with
// 400 in any case. Nor is it for errors of a KeyFunc or a CostFunc.
type Fallback int

const (
	// FallbackDeny refuses the request with 503. It is the default.
	FallbackDeny Fallback = iota

	// FallbackAllow passes the request on, without fields: the limit does not hold
	// while the limiter fails.
	FallbackAllow
)

// WithFallback sets what becomes of a request if the limiter fails. A limiter may have a
// fallback of its own (rratelimiter.WithFallback), which comes first: then there is a
// Result, not an error. The default is FallbackDeny.
func WithFallback(f Fallback) Option {
	return func(m *Middleware) error {
		if f != FallbackDeny && f != FallbackAllow {
			return invalid("WithFallback", "f", int(f), "be one of the Fallback constants")
		}
		m.fallback = f
		return nil
	}
}

// WithShadow has the limiter count and hooks called as ever, but nothing is refused and
// no field is set: visitors cannot tell. It is for trying a limit before it holds.
func WithShadow() Option {
	return func(m *Middleware) error {
		m.shadow = true
		return nil
	}
}

// WithNearLimit has hook called for each request that was allowed and has left so little
// that the share of a limit is used: 0.8 means 80 % or more. share is more than 0, at
// most 1. With several limits one is enough. hook is called by many goroutines at once,
// and the request waits for it; that goes for all hooks.
func WithNearLimit(share float64, hook func(*http.Request, Decision)) Option {
	return func(m *Middleware) error {
		switch {
		case !(share > 0 && share <= 1):
			return invalid("WithNearLimit", "share", share, "be more than 0, at most 1")
		case hook == nil:
			return invalid("WithNearLimit", "hook", nil, "not be nil")
		}
		m.near, m.onNear = share, hook
		return nil
	}
}

// WithRefusedHook has hook called for each request that the limiter has refused, before
// the response is written. In shadow mode these are the requests that would be refused.
func WithRefusedHook(hook func(*http.Request, Decision)) Option {
	return func(m *Middleware) error {
		if hook == nil {
			return invalid("WithRefusedHook", "hook", nil, "not be nil")
		}
		m.onRefused = hook
		return nil
	}
}

// WithErrorHook has hook called for each request with an error: that of the limiter, of
// the KeyFunc or of the CostFunc. The visitor never sees the error, so this is where to
// log it. Status tells what becomes of the request.
func WithErrorHook(hook func(*http.Request, Decision)) Option {
	return func(m *Middleware) error {
		if hook == nil {
			return invalid("WithErrorHook", "hook", nil, "not be nil")
		}
		m.onError = hook
		return nil
	}
}

// WithResponse has write called in place of what writes a refusal. The header has
// Retry-After and the fields of the limits then. write sends the status, which need not
// be d.Status, and a body. It must not show d.Err to the visitor. The default is a problem
// document (RFC 9457).
func WithResponse(write func(w http.ResponseWriter, r *http.Request, d Decision)) Option {
	return func(m *Middleware) error {
		if write == nil {
			return invalid("WithResponse", "write", nil, "not be nil")
		}
		m.respond = write
		return nil
	}
}

// Fields is a set of header fields in which a response has the numbers of its limits.
// Join several with |.
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
	// GitHub and others have it.
	XRateLimit
)

// WithFields sets which fields a response has; 0 is none of them. Retry-After of a
// refusal stays. The default is Draft11.
func WithFields(fields Fields) Option {
	return func(m *Middleware) error {
		if fields < 0 || fields > Draft11|Draft6|XRateLimit {
			return invalid("WithFields", "fields", int(fields), "be made of the Fields constants")
		}
		m.fields = fieldSet(fields)
		return nil
	}
}

// WithPolicies names the limits, in the order of limit.Result.Each, for the fields and
// for problem documents. Visitors see the names. A name has 1 to 64 characters of ASCII
// that can be printed (a String of RFC 9651), and no two are alike. The default, also for
// limits beyond the names, is the name that a limit has for visitors (limit.Result.Policy).
// Without one it is "default" for a lone limit, and "limit-1", "limit-2" and so on for
// several.
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

// WithExposedFields adds Access-Control-Expose-Headers with the names of the fields and
// Retry-After to each response, so that a script of another origin can read them. What
// the header has already stays. A handler that sets the field later replaces this one:
// let what answers CORS run before this Middleware, or add to the field.
func WithExposedFields() Option {
	return func(m *Middleware) error {
		m.exposed = "Retry-After"
		return nil
	}
}

// WithoutPreflights passes CORS-preflight requests on without asking the limiter: the
// visitor's browser sends them, not the visitor. Anybody can send such a request, so what
// answers them must be cheap.
func WithoutPreflights() Option {
	return func(m *Middleware) error {
		m.preflights = true
		return nil
	}
}
