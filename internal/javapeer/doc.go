// Package javapeer starts the Java peer, Redisson's own RRateLimiter behind a
// line protocol (compat_test/java), and talks to it. Suites use it to find out
// whether Go and Java mean the same by the same keys, programs to compare what
// both cost.
//
//	peer, err := javapeer.Start(ctx, "")
//	...
//	defer peer.Close()
//	id, err := peer.Connect(ctx, "a", server.Addr)
//	ok, err := peer.Limiter("a", "api").TryAcquire(ctx, 1)
//
// It says what the peer is asked to do and no more: no argument is checked
// here, and what Redisson throws comes back as an [Error]. Durations go out in
// whole ms, a fraction is dropped.
package javapeer
