package wire

import (
	"encoding/binary"
	"math"
	"testing"
)

// FuzzRecord: permits that are packed are read back, in each format and behind any
// bytes. A member that is too short is no record.
func FuzzRecord(f *testing.F) {
	f.Add(uint32(1), []byte{})
	f.Add(uint32(math.MaxUint32), []byte("\x10abcdefghijklmnop"))
	f.Add(uint32(0x01020304), []byte("\x08\x00\x00\x00\x00\x00\x00\x00abcdefgh"))
	f.Fuzz(func(t *testing.T, permits uint32, prefix []byte) {
		for i, l := range Layouts {
			r := string(l.Append(prefix, permits, false)[len(prefix):])
			if len(r) != len(l.Header)+l.random+4 || r[:len(l.Header)] != l.Header {
				t.Fatalf("%v of %d: % x", i, permits, r)
			}
			if n := binary.LittleEndian.Uint32([]byte(r[len(r)-4:])); n != permits {
				t.Fatalf("%v of %d: % x holds %d", i, permits, r, n)
			}
			if l.Marks() && r == string(l.Append(nil, permits, false)) {
				t.Fatalf("two records are the same: % x", r)
			}
		}
		member := string(binary.LittleEndian.AppendUint32(prefix, permits))
		if n, ok := Permits(member); !ok || n != int64(permits) {
			t.Fatalf("%d, %v; want %d", n, ok, permits)
		}
		short := member[len(member)-3:]
		if n, ok := Permits(short); ok {
			t.Fatalf("% x: taken for a record of %d", short, n)
		}
	})
}

func TestRecordsHoldWhatIsAskedFor(t *testing.T) {
	for permits, records := range map[int64]int{
		1: 1, 5: 1, MaxPermits: 1, MaxPermits + 1: 2, 3 * MaxPermits: 3, 3*MaxPermits + 1: 4, 1 << 40: 257,
	} {
		sum := int64(0)
		all := string(Layouts[0].AppendAll(nil, permits, false))
		for i := 0; i < len(all); i += 21 {
			n, ok := Permits(all[i : i+21])
			if !ok || n == 0 {
				t.Errorf("%d: a record of %d, %v", permits, n, ok)
			}
			sum += n
		}
		if sum != permits || len(all) != records*21 {
			t.Errorf("%d permits: %d bytes of together %d, want %d records", permits, len(all), sum, records)
		}
	}
}
