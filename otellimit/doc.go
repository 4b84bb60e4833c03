// Package otellimit reports the results of limiters as OpenTelemetry metrics and traces. Pass
// an [Observer] to rratelimiter.WithObserver; [Observer.Watch] adds the state of a Client. The
// package needs only the OpenTelemetry API: the caller chooses SDK and exporter.
//
// The metrics follow the only stable convention for limiting, aspnetcore.rate_limiting; docs/metrics.md has a
// table of them and their attributes. For the metrics of locks, pass the same Observer to
// rlock.WithObserver.
//
// kind is lock, fenced or fair. policy is the name of a rratelimiter.Keyed, or of a limiter of package limit
// that has a limit for each key, never that of a single limiter: there may be one for each user, and no
// backend stores that many time series. Single limiters have no policy attribute, unless WithPolicy gives
// them one.
//
// A call that waited for permits makes a span, rratelimiter.acquire.
package otellimit
