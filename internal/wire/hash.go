package wire

// The fields of the hash. Redisson before 3.38.0 does not write KeepAlive.
const (
	Rate      = "rate"          // permits per interval
	Interval  = "interval"      // ms
	Type      = "type"          // 0 OVERALL, 1 PER_CLIENT
	KeepAlive = "keepAliveTime" // ms; 0 for a limiter that does not expire

	// Longest is of Go: an interval longer than the present one that was in use lately, and until when
	// that counts as lately (scripts/parts/span.lua). Java ignores it.
	Longest = "longest"

	// Waiting is of Go, too: which Clients have callers in line, for how many permits, and until when
	// each of these counts (scripts/parts/portion.lua).
	Waiting = "waiting"
)

// SessionPrefix begins the name of a field that Go keeps in the hash, one for each
// Client that uses the limiter: the session. Java ignores it. The field holds the
// number of the Client's last request, when it came, what it took and where that
// is recorded (scripts/parts/session.lua).
const SessionPrefix = "session:"

// Freed is a field beside the sessions that belongs to no Client (scripts/parts/remove.lua).
const Freed = SessionPrefix + "freed"

// Booking ends the name of a session that notes bookings alone (scripts/book.lua).
const Booking = ".0"

// Number returns a number as sessions write it: with 16 digits, so that texts
// compare as numbers do.
func Number(n int64) string {
	var text [16]byte
	for i := len(text) - 1; i >= 0; i-- {
		text[i] = byte('0' + n%10)
		n /= 10
	}
	return string(text[:])
}

// The types of a limiter, as in the field Type, and the places of their keys in Keys.Pairs.
const (
	Overall   = 0
	PerClient = 1
)
