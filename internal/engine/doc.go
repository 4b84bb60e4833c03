// Package engine asks Redis for the callers of one Client. It puts together what the packages below it do one
// by one: internal/request builds, sends and reads; internal/queue lets the callers of one limiter share
// requests.
//
// An [Engine] makes a [Limiter] for each name, and a [Group] for several limiters. A call of a Limiter enters
// its queue. A call of a Group does not: callers that arrive during such a call share the next one
// (meeting.go), and a refused caller has a place in the line of each member. A reservation is a call of a
// Group that a [Settlement] ends. Package internal/ahead makes leases from reservations.
//
// The engine does not know the root package. Each exported method of a Limiter or Group adds the name of the
// limiter to the errors that it returns.
package engine
