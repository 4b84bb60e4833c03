// Package javapeer starts the Java peer, Redisson's own RRateLimiter and locks behind a
// line protocol (compat_test/java), and talks to it. Tests use it to prove that Go and
// Java mean the same by the same keys, and benchmarks to compare costs.
//
//	peer, err := javapeer.Start(ctx, "")
//	...
//	defer peer.Close()
//	id, err := peer.Connect(ctx, "a", server.Addr)
//	ok, err := peer.Limiter("a", "api").TryAcquire(ctx, 1, 0)
//	err := peer.Lock("a", "order:7", javapeer.Fair).Lock(ctx, "thread 1")
//
// The package checks no argument. An exception of Redisson comes back as an [Error].
// Durations are sent in whole ms; a fraction is dropped.
package javapeer
