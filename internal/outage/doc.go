// Package outage decides calls while Redis is down. A circuit for each server
// says whether Redis is asked (circuit.go). A call falls back as its policy says
// (call.go). A limiter grants the share of this Client (local.go), and books the
// grants when Redis is back (book.go).
//
// Locks are taken in this order: the mu of a circuit, that of the Guard, and that
// of a localLimiter. A call to a Group locks several of the last kind, in the
// order of their hashes.
package outage
