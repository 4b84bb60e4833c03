package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// A Layout describes the records of one format: a header, random bytes, and the
// permits as an unsigned 32-bit little-endian number. Every format of Redisson ends
// in these four bytes. Go reads nothing else of a record that Java writes, and
// recognizes its own records by a mark (goMark).
type Layout struct {
	Name   string // the letters of Redisson's format, and the number of random bytes
	Since  string // the first version of Redisson that writes it
	Header string
	random int
	client string // the mark of a Client, as far as the format has room; empty without one
}

// The formats, as indexes of Layouts.
const (
	Bc0I16 = iota // Redisson 3.21.0 and later
	Bc0I8         // 3.17.0 to 3.20.1
	Lc0I          // 3.16.4 to 3.16.8
	FI            // 3.13.3 to 3.16.3
)

// Layouts has the Layout of each format. The header of an fI is the first byte of its
// number. Read as a Bc0I, it is the length of what follows.
var Layouts = [...]Layout{
	Bc0I16: {"Bc0I/16", "3.21.0", "\x10", 16, ""},
	Bc0I8:  {"Bc0I/8", "3.17.0", "\x08", 8, ""},
	Lc0I:   {"Lc0I", "3.16.4", "\x08\x00\x00\x00\x00\x00\x00\x00", 8, ""},
	FI:     {"fI", "3.13.3", "\x03", 3, ""},
}

const (
	// MaxPermits is how many permits one record holds.
	MaxPermits = math.MaxUint32

	// RecordSpace is room for any record, and for what Append cuts off.
	RecordSpace = 24

	permitsSize = 4

	// goMark begins the random bytes of every record that Go writes, unless
	// they are too few. It tells that no Java client took the permits
	// (scripts/parts/go.lua); one record of Java in 65,536 bears it by chance.
	goMark = "\xd2G"

	// leaseMark begins the random bytes of a lease, whose record may be dated ahead
	// (scripts/parts/ahead_of.lua).
	leaseMark = goMark + "oRLease"

	// reservedMark begins those of a reservation. A record is settled by its name, so a release takes it
	// last, and Repair does not join it with others (scripts/parts/reserved.lua). An fI has a bit instead.
	reservedMark = goMark + "r"
	reservedBit  = 0x08
)

// clients numbers the Clients of this process, from a random number on.
var (
	firstClient = rand.Uint64()
	clients     atomic.Uint64
)

// ForClient returns the same layout with a mark of its own in its records, by which
// a Client recognizes them (scripts/parts/find.lua). The mark begins with the number of
// the Client, because the Clients of a process must not have the same one by chance.
//
// The random bytes behind the mark keep the records of a Client apart: 8 of them, and 4 in the formats of 8,
// where one pair of Clients of different processes in 32,768 has the same mark.
func (l Layout) ForClient() *Layout {
	number := firstClient + clients.Add(1)
	mark := binary.BigEndian.AppendUint64(nil, number<<48|rand.Uint64()>>16)
	switch {
	case l.random >= 16:
		l.client = string(mark[:6])
	case l.random >= 8:
		l.client = string(mark[:2])
	}
	return &l
}

// ClientMark returns the bytes that every record of a Client begins with, and no other record;
// empty where there is no room for its mark.
func (l *Layout) ClientMark() string {
	if l.client == "" {
		return ""
	}
	return string(l.Append(nil, 0)[:len(l.Header)+len(goMark)+len(l.client)])
}

// Size is how many bytes a record has.
func (l *Layout) Size() int { return len(l.Header) + l.random + permitsSize }

// AppendAll appends the records of one grant: one, or several if a record cannot
// hold all permits.
func (l *Layout) AppendAll(b []byte, permits int64) []byte {
	for more := true; more; {
		more = permits > MaxPermits
		b = l.Append(b, uint32(min(permits, MaxPermits)))
		permits -= MaxPermits
	}
	return b
}

// Append appends one record for a grant.
func (l *Layout) Append(b []byte, permits uint32) []byte {
	b = append(b, l.Header...)
	from, to := len(b), len(b)+l.random
	b = binary.LittleEndian.AppendUint64(b, rand.Uint64())
	b = binary.LittleEndian.AppendUint64(b, rand.Uint64())
	if l.random < 8 { // no room for goMark
		// Beyond any number that Redisson makes of a long, so that it never writes the same.
		b[to-1] = b[to-1]&^reservedBit | 0x60
	} else {
		copy(b[from:], goMark)
		copy(b[from+len(goMark):], l.client)
		b[from+len(goMark)] |= 0x80 // never the next byte of leaseMark or reservedMark
	}
	return binary.LittleEndian.AppendUint32(b[:to], permits)
}

// AppendReserved appends the records of a reservation: one, or several if a record cannot hold all permits.
func (l *Layout) AppendReserved(b []byte, permits int64) []byte {
	first := len(b)
	b = l.AppendAll(b, permits)
	for at := first; at < len(b); at += l.Size() {
		random := b[at+len(l.Header):][:l.random]
		if l.random >= 8 {
			copy(random, reservedMark)
		} else {
			random[l.random-1] |= reservedBit
		}
	}
	return b
}

// Leases reports whether there is room for leaseMark. Without that mark, a release would take permits out of
// a lease that still hands them out.
func (l *Layout) Leases() bool { return l.random > len(leaseMark) }

// AppendLease appends the record of a lease, in a format that Leases.
func (l *Layout) AppendLease(b []byte, permits uint32) []byte {
	from := len(b) + len(l.Header)
	b = l.Append(b, permits)
	copy(b[from:], leaseMark)
	return b
}

// Lease reports whether a record of Go of this format is a lease.
func Lease(member string, format int) bool {
	return strings.HasPrefix(member[len(Layouts[format].Header):], leaseMark)
}

// Beside returns the format that a version of Redisson writes and reads, as an index of
// Layouts; -1 if version is older than all formats, or is not three numbers, as in "3.16.4"
// or "v3.16.4".
func Beside(version string) int {
	numbers, ok := release(version)
	if !ok {
		return -1
	}
	return slices.IndexFunc(Layouts[:], func(l Layout) bool {
		since, _ := release(l.Since)
		return slices.Compare(numbers, since) >= 0
	})
}

// release returns the three numbers of a version.
func release(version string) (numbers []uint64, ok bool) {
	for part := range strings.SplitSeq(strings.TrimPrefix(version, "v"), ".") {
		n, err := strconv.ParseUint(part, 10, 32)
		if err != nil {
			return nil, false
		}
		numbers = append(numbers, n)
	}
	return numbers, len(numbers) == 3
}

// Permits returns the permits of a record in any format: its last four bytes. A member too
// short to be a record is an error.
func Permits(member string) (int64, error) {
	if len(member) < permitsSize {
		return 0, fmt.Errorf("a record of %d bytes, must be at least %d", len(member), permitsSize)
	}
	return int64(binary.LittleEndian.Uint32([]byte(member[len(member)-permitsSize:]))), nil
}

// Recognise returns the format of a record as an index of Layouts, -1 if no version of
// Redisson writes such a record, and whether Go wrote it (goMark). One record of Java in
// 65,536 is taken for one of Go.
func Recognise(member string) (format int, byGo bool) {
	format = slices.IndexFunc(Layouts[:], func(l Layout) bool {
		return len(member) == l.Size() && (l == Layouts[FI] || strings.HasPrefix(member, l.Header))
	})
	switch {
	case format < 0:
		return format, false
	case format == FI:
		const mark = 0x60 // Append
		return FI, strings.HasPrefix(member, Layouts[FI].Header) && member[permitsSize-1]&mark == mark
	}
	return format, strings.HasPrefix(member[len(Layouts[format].Header):], goMark)
}

// Reserved returns the permits in the concatenated records of a reservation, 0 if they are not records of Go
// in one format.
func Reserved(records string) (permits int64) {
	for i := range Layouts {
		size, n := Layouts[i].Size(), int64(0)
		for member := range slices.Chunk([]byte(records), size) {
			format, byGo := Recognise(string(member))
			if format != i || !byGo {
				n = 0
				break
			}
			n += int64(binary.LittleEndian.Uint32(member[size-permitsSize:]))
		}
		// All records but the last one are full.
		if n > 0 && int64(len(records)) == (n+MaxPermits-1)/MaxPermits*int64(size) {
			return n
		}
	}
	return 0
}

// Beyond returns the records of the permits that a settlement takes beyond a reservation, whose own records
// have size bytes each. They are the same for each settlement of the reservation (scripts/settle.lua).
func Beyond(reserved string, size int, permits int64) string {
	var b []byte
	for k := 0; permits > 0; k++ {
		b = append(b, reserved[:size-permitsSize]...)
		random := b[len(b)-3:] // its last bytes: all formats have 3 of them or more
		random[0] ^= byte(k >> 8)
		random[1] ^= byte(k)
		random[2] ^= 0x10 // settle.lua changes another bit
		b = binary.LittleEndian.AppendUint32(b, uint32(min(permits, MaxPermits)))
		permits -= MaxPermits
	}
	return string(b)
}
