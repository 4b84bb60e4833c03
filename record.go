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
	recordSize = 1 + randomSize + 4 // scripts/record.lua takes records apart by it
	maxCount   = math.MaxUint32     // permits of one record

	// mergedMark is what the random bytes of records with a resolution begin
	// with: Go merges those, and no others (scripts/seen.lua).
	mergedMark = "\xd2GoR"
)

// appendRecords appends the records of one grant: one, or as many as it takes
// for permits beyond what a record can hold. With a resolution they bear the
// mark of those that are merged.
func appendRecords(b []byte, permits int64, merged bool) []byte {
	for more := true; more; {
		more = permits > maxCount
		start := len(b)
		b = appendRecord(b, uint32(min(permits, maxCount)))
		if merged {
			copy(b[start+1:], mergedMark)
		}
		permits -= maxCount
	}
	return b
}

// appendRecord appends a record of its own for a grant.
func appendRecord(b []byte, permits uint32) []byte {
	b = append(b, randomSize)
	b = binary.LittleEndian.AppendUint64(b, rand.Uint64())
	b = binary.LittleEndian.AppendUint64(b, rand.Uint64())
	return binary.LittleEndian.AppendUint32(b, permits)
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
