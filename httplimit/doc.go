// Package httplimit limits HTTP requests: those that a server gets, by a [Middleware], and
// those that a program sends, by a [Pacer] and a [RetryAfterTransport]. It takes any limiter
// of package limit, such as those in Redis, and needs nothing else but the standard library.
//
//	m, err := httplimit.New(limit.Shared(limiter), httplimit.Constant("all"))
//	...
//	http.Handle("GET /search", m.Handler(search))
//
// # What a request is limited by
//
// A [KeyFunc] says whose limit a request uses: [ByHeader], [ByRoute], [ByAddress],
// [Constant], or a function. With [WithCost] some requests cost more than others. A request
// without a key is refused with 400; [FirstOf] gives it another.
//
// ByAddress takes the address of the connection and reads no header field. Behind proxies
// that is the proxy's address. Name the proxies by their addresses with [ByAddressVia] or by
// their number with [ByAddressViaCount]: then X-Forwarded-For is read, from the right. There
// is no safe default beyond RemoteAddr, because a visitor can write any field, and only you
// know which entries your own proxies append.
//
// # What a visitor sees
//
// Responses have RateLimit-Policy and RateLimit of draft-ietf-httpapi-ratelimit-headers-11,
// with an item for each limit, or older fields ([WithFields]):
//
//	RateLimit-Policy: "burst";q=100;w=60
//	RateLimit: "burst";r=50;t=30
//
// The draft may change; fields of later drafts will be new options. Numbers that nobody knows
// are left out: those of a limiter that has decided without Redis (limit.Result.Degraded).
//
// A refusal is a 429 with Retry-After, in whole seconds, rounded up, at least 1, and a problem
// document (RFC 9457) of the type quota-exceeded, or of temporary-reduced-capacity if the
// limiter has decided without Redis. It never has the text of an error, or the name of a
// limiter. [WithResponse] writes another body.
//
// # When the limiter fails
//
// The limiter has 100 ms ([WithTimeout]). If it fails, or is silent, the response is a 503, or
// the request is passed on ([WithFallback]). [WithErrorHook] is told why. What can never be
// right is a 400 in any case: no key, a key that cannot be used, a cost above the limit. Nobody
// is told of a visitor who has gone when the limiter fails: the response is an empty 503.
//
// # Before a limit holds
//
// [WithShadow] counts and calls hooks, but refuses nobody and sets no fields.
// [WithNearLimit] tells who will soon be refused.
//
// # Requests that a program sends
//
// A Pacer waits for a permit before it sends a request. A RetryAfterTransport honors the
// Retry-After of a refusal: it delays further requests to that host until then. To have both,
// give the Pacer to NewRetryAfterTransport: then a retry also takes a permit.
package httplimit
