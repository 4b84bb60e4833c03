// Package outage decides calls while Redis is away. A circuit for each server says whether Redis
// is asked (circuit.go). A call falls back as its policy says (call.go). A limiter grants the
// share of this Client (local.go), and books it when Redis is back (book.go).
package outage
