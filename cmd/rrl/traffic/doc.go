// Package traffic sends the same requests through limiters of all algorithms, in fake time, and shows their
// results: as figures, and as bars on a terminal.
//
// A [Traffic] is the requests, made by [Make]. A [Plan] is the limit, and [Plan.Run]
// returns a [Comparison] with a [Strip] for each algorithm. The limiters are those of the library, in memory
// with a clock that is set by hand, and RRateLimiter on an embedded miniredis with such a clock.
package traffic
