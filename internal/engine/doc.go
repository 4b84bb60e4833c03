// Package engine is how callers of one limiter share calls to Redis, wait in line and leave.
//
// An [Engine] has a [Limiter] for each name and a [Group] for several. A call of a Limiter
// enters its queue (queue.go) as a waiter (waiter.go), which a batch (batch.go) takes. The
// batch sends a request (request.go) and splits the reply (reply.go). A caller that was
// refused and has time stands in the line (line.go). What a request may have taken without
// its caller knowing goes back (withdraw.go).
//
// The engine knows nothing of the Client. Errors get the name of the limiter once, in the
// exported method that was called.
package engine
