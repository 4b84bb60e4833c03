// Package otellimit reports the results of limiters as OpenTelemetry metrics and traces. Pass
// an [Observer] to rratelimiter.WithObserver; [Observer.Watch] adds the state of a Client. The
// package needs only the OpenTelemetry API: the caller chooses SDK and exporter.
//
// The metrics follow the only stable convention for limiting, aspnetcore.rate_limiting; docs/metrics.md has a
// table of them. The metrics of calls have the attributes policy and result. The metrics of locks have kind
// and result; pass the same Observer to rlock.WithObserver. The three metrics of watched Clients have no
// attributes.
//
// kind is lock, fenced or fair. policy is the name of a rratelimiter.Keyed, never that of a limiter:
// there may be a limiter for each user, and no backend stores that many time series. Other limiters
// have no policy attribute, unless WithPolicy gives them one.
//
// A call that waited for permits makes a span, rratelimiter.acquire.
package otellimit
