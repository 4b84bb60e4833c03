// Package queue lets the callers of one limiter share requests, wait in line and leave.
//
// A [Registry] has a queue for each limiter in use. A call enters its queue as a waiter, which a batch takes.
// The batch sends a request and hands out the reply. A refused caller that has time left stands in the line.
// A withdrawal returns permits whose caller has left. A call for several limiters stands in the lines of all
// ([Places]).
package queue
