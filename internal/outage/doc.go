// Package outage decides calls while Redis is down. A circuit for each server decides
// whether Redis is asked (circuit.go). A call falls back according to its policy
// (call.go). A limiter grants this Client's share (local.go), and books the grants when
// Redis is back (book.go).
//
// Locks are taken in this order: the mu of a circuit, that of the Guard, and that
// of a localLimiter. A call to a Group locks several of the last kind, in the
// order of their hashes.
package outage
