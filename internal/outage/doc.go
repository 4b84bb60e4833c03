// Package outage is what happens while Redis is away: a circuit for each of its servers says
// whether Redis is asked (circuit.go), a call falls back as its policy says (call.go), a
// share of the rate is granted here (local.go), and is booked when Redis is back (book.go).
package outage
