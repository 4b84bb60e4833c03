package rratelimiter

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"
)

// FuzzRecord: what is packed is read back, whatever the format and the bytes
// before the permits; what is too short is an error.
func FuzzRecord(f *testing.F) {
	f.Add(uint32(1), []byte{})
	f.Add(uint32(math.MaxUint32), []byte("\x10abcdefghijklmnop"))
	f.Add(uint32(0x01020304), []byte("\x08\x00\x00\x00\x00\x00\x00\x00abcdefgh"))
	f.Fuzz(func(t *testing.T, permits uint32, prefix []byte) {
		for i, l := range layouts {
			r := string(l.append(prefix, permits, false)[len(prefix):])
			if len(r) != len(l.header)+l.random+4 || r[:len(l.header)] != l.header || binary.LittleEndian.Uint32([]byte(r[len(r)-4:])) != permits {
				t.Fatalf("%v of %d: % x", RecordFormat(i), permits, r)
			}
			if l.marks() && r == string(l.append(nil, permits, false)) {
				t.Fatalf("two records are the same: % x", r)
			}
		}
		member := string(binary.LittleEndian.AppendUint32(prefix, permits))
		if n, err := RecordPermits(member); err != nil || n != int64(permits) {
			t.Fatalf("%d, %v; want %d", n, err, permits)
		}
		short := member[len(member)-3:]
		if _, err := RecordPermits(short); !errors.Is(err, ErrBadState) {
			t.Fatalf("% x: %v, want ErrBadState", short, err)
		}
	})
}

func TestRecordsHoldWhatIsAskedFor(t *testing.T) {
	for permits, records := range map[int64]int{
		1: 1, 5: 1, maxCount: 1, maxCount + 1: 2, 3 * maxCount: 3, 3*maxCount + 1: 4, maxPermits: 257,
	} {
		sum := int64(0)
		all := string(layouts[0].appendAll(nil, permits, false))
		for i := 0; i < len(all); i += 21 {
			n, err := RecordPermits(all[i : i+21])
			if err != nil || n == 0 {
				t.Errorf("%d: a record of %d, %v", permits, n, err)
			}
			sum += n
		}
		if sum != permits || len(all) != records*21 {
			t.Errorf("%d permits: %d bytes of together %d, want %d records", permits, len(all), sum, records)
		}
	}
}
