package rratelimiter

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
)

// A RecordFormat is how a Client writes records, the members of the sorted set
// NAME:permits (WithRecordFormat). Each is the trace of one grant, as Redisson
// of some time packed it, and named by the letters of that format. Whatever a
// Client writes, it reads all of them, in one limiter.
type RecordFormat int

const (
	// RecordBc0I16 is what Redisson 3.21.0 and later write, and 3.17.0 and
	// later read: a length byte, 16 random bytes, the permits.
	RecordBc0I16 RecordFormat = iota

	// RecordBc0I8 is what Redisson 3.17.0 to 3.20.1 write, and 3.17.0 and
	// later read: the same with 8 random bytes.
	RecordBc0I8

	// RecordLc0I is what Redisson 3.16.4 to 3.16.8 write, and all that they
	// read: 8 bytes of length, 8 random bytes, the permits.
	RecordLc0I

	// RecordFI is what Redisson 3.13.3 to 3.16.3 write, and all that they read:
	// a number of 4 bytes, the permits. Unlike Redisson's, no two such records
	// of ours are ever the same, and 3.17.0 and later read them, too.
	RecordFI
)

// String returns the letters and the number of random bytes, as in "Bc0I/16".
func (f RecordFormat) String() string {
	if !f.known() {
		return fmt.Sprintf("RecordFormat(%d)", int(f))
	}
	return layouts[f].name
}

func (f RecordFormat) known() bool { return f >= 0 && int(f) < len(layouts) }

// A layout is what a record of one format is made of: its header, random bytes,
// and the permits as an unsigned 32-bit little-endian number. Every format
// Redisson has had ends in those four bytes, and a reader here looks at nothing
// else.
type layout struct {
	name   string
	header string
	random int
}

// The header of an fI is the first byte of its number. Read as a Bc0I, it is
// the length of what follows.
var layouts = [...]layout{
	RecordBc0I16: {"Bc0I/16", "\x10", 16},
	RecordBc0I8:  {"Bc0I/8", "\x08", 8},
	RecordLc0I:   {"Lc0I", "\x08\x00\x00\x00\x00\x00\x00\x00", 8},
	RecordFI:     {"fI", "\x03", 3},
}

const (
	maxCount    = math.MaxUint32 // permits of one record
	recordSpace = 24             // room for any record, and for what append cuts off

	// goMark begins the random bytes of every record that Go writes, unless
	// they are too few. It tells that no Java client took the permits
	// (scripts/others.lua); one record of Java in 65,536 bears it by chance.
	goMark = "\xd2G"

	// free are the random bytes of a record that are left to chance, at most,
	// when it is one that is merged: those before them are the same in all.
	free       = 4
	mergedMark = goMark + "oRateLimit"
)

// marks reports whether there is room for goMark in the random bytes.
func (l *layout) marks() bool { return l.random >= 8 }

// appendAll appends the records of one grant: one, or as many as it takes for
// permits beyond what a record can hold. Those of a Client with a resolution
// bear the mark of records that are merged (scripts/acquire.lua).
func (l *layout) appendAll(b []byte, permits int64, merged bool) []byte {
	for more := true; more; {
		more = permits > maxCount
		b = l.append(b, uint32(min(permits, maxCount)), merged)
		permits -= maxCount
	}
	return b
}

// append appends a record of its own for a grant.
func (l *layout) append(b []byte, permits uint32, merged bool) []byte {
	b = append(b, l.header...)
	from, to := len(b), len(b)+l.random
	b = binary.LittleEndian.AppendUint64(b, rand.Uint64())
	b = binary.LittleEndian.AppendUint64(b, rand.Uint64())
	switch {
	case !l.marks():
		b[to-1] |= 0x60 // beyond any number that Redisson makes of a long, so that it never writes the same
	case merged:
		copy(b[from:to-free], mergedMark)
	default:
		copy(b[from:], goMark)
		b[from+len(goMark)] |= 0x80 // never the next byte of mergedMark
	}
	return binary.LittleEndian.AppendUint32(b[:to], permits)
}

// RecordPermits returns the permits that a member of the sorted set
// NAME:permits holds: its last four bytes, in whichever RecordFormat it was
// written. It is for those who look at the keys; a member too short to be a
// record is an ErrBadState.
func RecordPermits(member string) (int64, error) {
	if len(member) < 4 {
		return 0, fmt.Errorf("%w: a record of %d bytes, must be at least 4", ErrBadState, len(member))
	}
	return int64(binary.LittleEndian.Uint32([]byte(member[len(member)-4:]))), nil
}
