// Package rratelimiter is the rate limiter that Go and Java share: it reads
// and writes exactly the keys of Redisson's RRateLimiter, so that Go services
// and Java services limit each other through the same Redis.
//
//	limiter := rratelimiter.New(rdb).RateLimiter("api").WithRate(100, time.Second)
//	ok, err := limiter.TryAcquire(ctx, 1, 500*time.Millisecond)
//
// It shares keys with Redisson 3.17.0 to 4.7.0, and with 3.13.4 to 3.16.8 where
// WithRedisson says so; it reads the records of all of them.
//
// # How it limits
//
// A limiter is a sliding log: no more than rate permits are given out in any
// span of one interval, and each permit comes back one interval after it was
// taken. The log is a sorted set of records in Redis; next to it stands the
// number of permits that are left, as a cache. Where the two disagree the log
// is right. Time is that of the Redis server.
//
// # Many callers
//
// Callers of one limiter that arrive while a call is under way share the next
// one, which judges them in the order in which they came. Waiting callers stand in
// line in each process, first come first served. The line is probed when permits
// are due or another client has changed something. Waiters of Java wake up late, so
// those of Go let them go first where Go has taken more than half of the permits
// ([WithGoOnly]).
//
// # In time
//
// A caller gets its result by its timeout or the end of its context, whatever Redis
// does; New names one exception, a cancel before a deadline. Permits that its request
// takes after that are given back in the background.
//
// # A limit for each user, and several limits at once
//
// [RateLimiter.WithRate] gives a limiter its rate in the program: its acquires set it.
// [Client.Keyed] does the same for a limiter for each of many keys.
// [Client.All] takes permits from several limiters in one call, from all or from none.
// Package limit has the interface that all limiters share; httplimit and grpclimit put
// them in front of servers and clients.
//
// # When Redis is down
//
// An error is the result, unless [WithFallback] says otherwise: allow, deny, or grant a
// share of the rate in this process and book it later.
//
// # Charged once
//
// A request whose reply is lost is sent again, takes its permits once and gets
// the result that it got the first time, even if they were released meanwhile. A
// caller that leaves without a result keeps nothing.
package rratelimiter
