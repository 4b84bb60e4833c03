package wire

import (
	"strconv"
	"strings"
)

// The fields of the hash. Redisson before 3.38.0 does not write KeepAlive.
const (
	Rate      = "rate"          // permits per interval
	Interval  = "interval"      // ms
	Type      = "type"          // 0 OVERALL, 1 PER_CLIENT
	KeepAlive = "keepAliveTime" // ms; 0 for a limiter that does not expire

	// Longest is written by Go, and Java ignores it: an interval longer than the present one that was in use
	// lately, and until when that counts (scripts/parts/config.lua).
	Longest = "longest"

	// Waiting is also written by Go: which Clients have callers in line, for how many permits, and until when
	// each of these counts (scripts/parts/portion.lua).
	Waiting = "waiting"
)

// SessionPrefix begins the name of a field that Go keeps in the hash, one for each
// Client that uses the limiter: the session. Java ignores it. The field holds the
// number of the Client's last request, its time, its permits and the time of their
// records (scripts/parts/sessions.lua).
const SessionPrefix = "session:"

// SessionLetters is the number of random letters after SessionPrefix, as crypto/rand.Text makes them. They
// carry 80 bits: two Clients with one session would take each other's requests for resent copies.
const SessionLetters = 16

// IsSession reports whether a field has the name of a session. Other fields with SessionPrefix are vouchers
// (VoucherOf), or anything that users have written.
func IsSession(field string) bool {
	letters, ok := strings.CutPrefix(field, SessionPrefix)
	if letters, number, of := strings.Cut(letters, "."); ok && len(letters) == SessionLetters {
		outside := func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '2' || r > '7') }
		_, err := strconv.ParseUint(number, 10, 64)
		return !strings.ContainsFunc(letters, outside) && (!of || err == nil)
	}
	return false
}

// VoucherOf returns the field that says for which rate and interval a client's own value in a PER_CLIENT
// limit is right, by the key of the value (scripts/parts/write.lua).
func VoucherOf(value string) string { return SessionPrefix + value }

// Booking ends the name of a session that notes bookings alone (scripts/book.lua).
const Booking = ".0"

// NumberSize is the length of a Number.
const NumberSize = 16

// Number returns a number as sessions write it: with 16 digits, so that texts
// compare like numbers.
func Number(n int64) string { return string(AppendNumber(make([]byte, 0, NumberSize), n)) }

// AppendNumber appends Number(n).
func AppendNumber(b []byte, n int64) []byte {
	var text [NumberSize]byte
	for i := len(text) - 1; i >= 0; i-- {
		text[i] = byte('0' + n%10)
		n /= 10
	}
	return append(b, text[:]...)
}

// The types of a limiter, as in the field Type, and the places of their keys in Keys.Pairs.
const (
	Overall   = 0
	PerClient = 1
)
