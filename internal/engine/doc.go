// Package engine lets the callers of one limiter share calls to Redis, wait in line and leave.
//
// An [Engine] makes a [Limiter] for each name, and a [Group] for several limiters. A call of a
// Limiter enters its queue (queue.go) as a waiter (waiter.go), which a batch (batch.go) takes. The
// batch sends a request (request.go) and splits the reply (reply.go). A refused caller that has
// time left stands in the line (line.go). A withdrawal (withdraw.go) returns permits whose
// caller has left.
//
// A call of a Group skips the queue (groupcall.go). Callers that arrive during such a call share the next one
// (meeting.go), and a refused caller has a place in the line of each member (grouplines.go). A reservation is
// a call of a Group that a settlement (settle.go) ends. Package internal/ahead makes leases from
// reservations.
//
// The engine does not know the root package. Each exported method of a Limiter or Group adds the
// name of the limiter to the errors that it returns.
package engine
