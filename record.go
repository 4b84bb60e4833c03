package rratelimiter

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
)

// A record is a member of the sorted set NAME:permits, the trace of one
// grant. Redisson 3.21 and later write it with struct.pack("Bc0I", 16, r, n):
// a length byte, that many random bytes, and the permits as an unsigned
// 32-bit little-endian number. Every format Redisson has had ends in those
// four bytes, and a reader here looks at nothing else.
const (
	randomSize = 16
	recordSize = 1 + randomSize + 4
	maxCount   = math.MaxUint32 // permits of one record
)

// newRecord returns a record of its own for a grant of 1 to maxCount permits.
func newRecord(permits uint32) string {
	var b [recordSize]byte
	b[0] = randomSize
	binary.LittleEndian.PutUint64(b[1:], rand.Uint64())
	binary.LittleEndian.PutUint64(b[9:], rand.Uint64())
	binary.LittleEndian.PutUint32(b[1+randomSize:], permits)
	return string(b[:])
}

// appendRecords appends the records of one grant: one, or as many as it takes
// for permits beyond what a record can hold.
func appendRecords(args request, permits int64) request {
	for permits > maxCount {
		args = append(args, newRecord(maxCount))
		permits -= maxCount
	}
	return append(args, newRecord(uint32(permits)))
}

// RecordPermits returns the permits that a member of the sorted set
// NAME:permits holds: its last four bytes, in whichever of Redisson's formats
// it was written. It is for those who look at the keys; a member too short to
// be a record is an ErrBadState.
func RecordPermits(member string) (int64, error) {
	if len(member) < 4 {
		return 0, fmt.Errorf("%w: a record of %d bytes, must be at least 4", ErrBadState, len(member))
	}
	return int64(binary.LittleEndian.Uint32([]byte(member[len(member)-4:]))), nil
}
