// Package otellimit reports the results of limiters as OpenTelemetry metrics and traces. Pass
// an [Observer] to rratelimiter.WithObserver; [Observer.Watch] adds the state of a Client. The
// package needs only the OpenTelemetry API: the caller chooses SDK and exporter.
//
// The metrics follow the only stable convention for limiting, aspnetcore.rate_limiting:
//
//	rratelimiter.requests               counter        {request}  policy, result
//	rratelimiter.request.duration       histogram      s          policy, result
//	rratelimiter.request.time_in_queue  histogram      s          policy, result
//	rratelimiter.request.batch_size     histogram      {request}  policy
//	rratelimiter.permits                counter        {permit}   policy
//	rratelimiter.near_limit_requests    counter        {request}  policy
//	rratelimiter.degraded_requests      counter        {request}  policy
//	rratelimiter.healed_drift           counter        {permit}   policy
//	rratelimiter.limits_with_other_rate counter        {limit}    policy
//	rratelimiter.replaced_rates         counter        {rate}     policy
//	rratelimiter.queued_requests        updowncounter  {request}
//	rratelimiter.degraded_clients       updowncounter  {client}
//	rratelimiter.unbooked_permits       updowncounter  {permit}
//
// The last three describe the Clients that are watched. Locks have three more, from
// rlock.WithObserver with the same Observer:
//
//	rratelimiter.lock.wait_duration     histogram      s          kind, result
//	rratelimiter.lock.hold_duration     histogram      s          kind
//	rratelimiter.lock.lost_holds        counter        {hold}     kind
//
// kind is lock, fenced or fair. policy is the name of a rratelimiter.Keyed, never that of a limiter:
// there may be a limiter for each user, and no backend stores that many time series. Other limiters
// have no policy attribute, unless WithPolicy gives them one.
//
// A call that waited for permits makes a span, rratelimiter.acquire.
package otellimit
