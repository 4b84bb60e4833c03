// Package httplimit limits HTTP requests: those that a server receives, with a [Middleware], and
// those that a program sends, with a [Pacer] and a [RetryAfterTransport]. It works with any limiter
// of package limit, such as those in Redis, and imports no package of another module.
//
//	m, err := httplimit.New(limit.Shared(limiter), httplimit.Constant("all"))
//	...
//	http.Handle("GET /search", m.Handler(search))
//
// # Which limit a request uses
//
// A [KeyFunc] returns the key of the limit: [ByHeader], [ByRoute], [ByAddress], [Constant], or a
// function of your own. With [WithCost] some requests cost more than others. A request without a key
// is refused with 400; [FirstOf] tries several keys.
//
// ByAddress uses the address of the connection and reads no header field. Behind a proxy that is the
// address of the proxy. Declare your proxies by address with [ByAddressVia] or by number with
// [ByAddressViaCount]; both read X-Forwarded-For from the right. There is no safe default beyond
// RemoteAddr, because a visitor can write any field, and only you know which entries your own proxies
// append.
//
// # What a visitor sees
//
// Responses have RateLimit-Policy and RateLimit of draft-ietf-httpapi-ratelimit-headers-11,
// with an item for each limit, or older fields ([WithFields]):
//
//	RateLimit-Policy: "burst";q=100;w=60
//	RateLimit: "burst";r=50;t=30
//
// The draft may change; fields of later drafts will be new options. Unknown numbers are left out, such
// as those of a limiter that decided without Redis (limit.Result.Degraded).
//
// A refusal is a 429 with Retry-After, in whole seconds, rounded up, at least 1, and a problem
// document (RFC 9457) of the type quota-exceeded, or temporary-reduced-capacity if the limiter
// decided without Redis. It never contains the text of an error or the name of a limiter.
// [WithResponse] writes another body.
//
// # When the limiter fails
//
// The limiter has 100 ms ([WithTimeout]). If it fails or does not reply in time, the response is a
// 503, or the request is passed on ([WithFallback]). [WithErrorHook] receives the error. A request
// that can never succeed always gets a 400: no key, a key that the limiter rejects, a cost above
// the limit. If the visitor has disconnected by the time the limiter fails, the response is an
// empty 503, and no hook is called.
//
// # Before a limit is enforced
//
// [WithShadow] counts requests and calls hooks, but refuses none and sets no fields.
// [WithNearLimit] reports visitors that will soon be refused.
//
// # Requests that a program sends
//
// A Pacer waits for a permit before it sends a request. A RetryAfterTransport honors the
// Retry-After of a refusal: it delays further requests to that host until then. To combine them,
// give the Pacer to NewRetryAfterTransport; each retry then takes a permit.
package httplimit
