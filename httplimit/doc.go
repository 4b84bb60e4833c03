// Package httplimit limits HTTP requests: those that a server receives, with a [Middleware], and
// those that a program sends, with a [Pacer] and a [RetryAfterTransport]. It works with any limiter
// of package limit, such as those in Redis, and imports no package of another module.
//
//	m, err := httplimit.New(limit.Shared(limiter), httplimit.Constant("all"))
//	...
//	http.Handle("GET /search", m.Handler(search))
//
// A [KeyFunc] returns the key of the limit: [ByHeader], [ByRoute], [ByAddress], [Constant], or a
// function of your own. Behind proxies use [ByAddressVia] or [ByAddressViaCount]: only you know which
// entries of X-Forwarded-For your own proxies append, and a visitor can write any.
//
// Responses have RateLimit-Policy and RateLimit of draft-ietf-httpapi-ratelimit-headers-11,
// with an item for each limit, or older fields ([WithFields]):
//
//	RateLimit-Policy: "burst";q=100;w=60
//	RateLimit: "burst";r=50;t=30
//
// A refusal is a 429 with Retry-After and a problem document (RFC 9457), or what [WithResponse] writes.
// If the limiter fails or needs more than 100 ms ([WithTimeout]), the response is a 503, or the request is
// passed on ([WithFallback]), and [WithErrorHook] receives the error. A request that can never succeed gets
// a 400: no key, a key that the limiter rejects, a cost above the limit. A visitor never sees the text of an
// error or the name of a limiter.
//
// A Pacer waits for a permit before it sends a request. A RetryAfterTransport honors the Retry-After of a
// refusal: it delays further requests to that host until then. To combine them, give the Pacer to
// NewRetryAfterTransport; each retry then takes a permit.
package httplimit
