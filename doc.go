// Package rratelimiter is a rate limiter that Go and Java services share: it reads and
// writes exactly the keys of Redisson's RRateLimiter, so both count against the same
// limits in the same Redis.
//
//	limiter := rratelimiter.New(rdb).RateLimiter("api").WithRate(100, time.Second)
//	ok, err := limiter.TryAcquire(ctx, 1, 500*time.Millisecond)
//
// It shares keys with Redisson 3.17.0 to 4.7.0, and with 3.13.4 to 3.16.8 if WithRedisson
// says so; it reads the records of all of them.
//
// # How it limits
//
// A limiter is a sliding log: at most rate permits are granted in any span of one interval, and each permit
// comes back one interval after it was taken; until then it is out. A hash in Redis has the rate, a sorted
// set has the log, with a record for each grant, and a third key, the value, caches the number of permits
// left. If log and value disagree, the log is right. The time is the Redis server's.
//
// # Many callers
//
// Callers of one limiter that arrive while a request is under way share the next one, which serves them in
// order of arrival. Waiting callers stand in line in each process, first come first served. The Client asks
// Redis again when permits are due or another client has changed the limiter. Java waiters wake up late, so
// Go waiters leave them a share ([WithGoOnly]).
//
// # Timeouts
//
// A caller gets its result by its timeout or the end of its context, whatever Redis does;
// New describes one exception, a cancellation before a deadline. Permits that its request
// takes later are given back in the background.
//
// # A limit for each user, and several limits at once
//
// [RateLimiter.WithRate] gives a limiter a rate that its acquires set. [Client.Keyed]
// does the same with a limiter for each of many keys. [Client.All] takes permits from
// several limiters in one call, from all or from none. Package limit has the interface
// that all limiters share; httplimit and grpclimit put them in front of servers and
// clients.
//
// # When Redis is down
//
// Calls return an error, unless [WithFallback] says otherwise: allow, deny, or grant a
// share of the rate in this process and book it later.
//
// # Charged once
//
// A request whose reply is lost is sent again. It takes its permits once and gets its
// first result, even if they were released meanwhile. A caller that leaves without a
// result keeps nothing.
package rratelimiter
