package rratelimiter

import (
	"fmt"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A RecordFormat is how a Client writes records, the members of the sorted set
// NAME:permits (WithRecordFormat). Each record stands for one grant. A format is
// named by the letters of the pattern with which Redisson packs it. A Client reads
// records of all formats, also mixed in one limiter, whichever it writes.
type RecordFormat int

const (
	// RecordBc0I16 is what Redisson 3.21.0 and later write, and 3.17.0 and
	// later read: a length byte, 16 random bytes, the permits.
	RecordBc0I16 RecordFormat = wire.Bc0I16

	// RecordBc0I8 is what Redisson 3.17.0 to 3.20.1 write, and 3.17.0 and
	// later read: the same with 8 random bytes.
	RecordBc0I8 RecordFormat = wire.Bc0I8

	// RecordLc0I is what Redisson 3.16.4 to 3.16.8 write, and all that they
	// read: 8 bytes of length, 8 random bytes, the permits.
	RecordLc0I RecordFormat = wire.Lc0I

	// RecordFI is what Redisson 3.13.3 to 3.16.3 write, and all that they read:
	// a number of 4 bytes, the permits. Unlike Redisson's, no two such records
	// of ours are ever the same, and 3.17.0 and later read them, too.
	RecordFI RecordFormat = wire.FI
)

// String returns the letters and the number of random bytes, as in "Bc0I/16".
func (format RecordFormat) String() string {
	if !format.known() {
		return fmt.Sprintf("RecordFormat(%d)", int(format))
	}
	return format.layout().Name
}

func (format RecordFormat) known() bool { return format >= 0 && int(format) < len(wire.Layouts) }

func (format RecordFormat) layout() *wire.Layout { return &wire.Layouts[format] }

// RecordPermits returns the permits that a member of the sorted set NAME:permits
// holds: its last four bytes, whatever its RecordFormat. It is for tools that look
// at the keys. A member too short to be a record is an ErrBadState.
func RecordPermits(member string) (int64, error) {
	permits, ok := wire.Permits(member)
	if !ok {
		return 0, fmt.Errorf("%w: a record of %d bytes, must be at least 4", ErrBadState, len(member))
	}
	return permits, nil
}
