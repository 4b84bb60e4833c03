package wire

import (
	"encoding/binary"
	"math"
	"strings"
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
			r := string(l.Append(prefix, permits)[len(prefix):])
			if len(r) != len(l.Header)+l.random+4 || r[:len(l.Header)] != l.Header {
				t.Fatalf("%v of %d: % x", i, permits, r)
			}
			if n := binary.LittleEndian.Uint32([]byte(r[len(r)-4:])); n != permits {
				t.Fatalf("%v of %d: % x holds %d", i, permits, r, n)
			}
			if l.random >= 8 && r == string(l.Append(nil, permits)) {
				t.Fatalf("two records are the same: % x", r)
			}
		}
		member := string(binary.LittleEndian.AppendUint32(prefix, permits))
		if n, err := Permits(member); err != nil || n != int64(permits) {
			t.Fatalf("%d, %v; want %d", n, err, permits)
		}
		short := member[len(member)-3:]
		if n, err := Permits(short); err == nil {
			t.Fatalf("% x: taken for a record of %d", short, n)
		}
	})
}

func TestRecordsHoldWhatIsAskedFor(t *testing.T) {
	for permits, records := range map[int64]int{
		1: 1, 5: 1, MaxPermits: 1, MaxPermits + 1: 2, 3 * MaxPermits: 3, 3*MaxPermits + 1: 4, 1 << 40: 257,
	} {
		sum := int64(0)
		all := string(Layouts[0].AppendAll(nil, permits))
		for i := 0; i < len(all); i += 21 {
			n, err := Permits(all[i : i+21])
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

// The format beside each version of Redisson is the one that it writes.
func TestBeside(t *testing.T) {
	const none = -1
	for version, want := range map[string]int{
		"3.13.3": FI, "3.13.4": FI, "3.15.6": FI, "3.16.3": FI,
		"3.16.4": Lc0I, "3.16.8": Lc0I, "v3.16.4": Lc0I,
		"3.17.0": Bc0I8, "3.20.1": Bc0I8, "3.20.999": Bc0I8,
		"3.21.0": Bc0I16, "3.52.0": Bc0I16, "3.100.0": Bc0I16, "4.0.0": Bc0I16, "4.7.0": Bc0I16,
		"10.0.0": Bc0I16,
		"3.13.2": none, "3.9.9": none, "2.15.2": none, "0.0.0": none, // another limiter
		"": none, "3": none, "3.16": none, "3.16.4.1": none, // which patch release?
		"3.16.4-SNAPSHOT": none, "3.17.0-rc1": none, // it may write what was before
		"v": none, "vv3.16.4": none, " 3.16.4": none, "3.16.x": none, "3.-16.4": none, "+3.16.4": none,
		"3..4": none, "3.16.99999999999999999999": none, "latest": none,
	} {
		if got := Beside(version); got != want {
			t.Errorf("%q: %d, want %d", version, got, want)
		}
	}
	for i, l := range Layouts {
		if Beside(l.Since) != i {
			t.Errorf("%s is not the format of %s", l.Name, l.Since)
		}
	}
}

// Clients of one process never take the records of one another for their own.
func TestClientsOfAProcessHaveDifferentMarks(t *testing.T) {
	for _, l := range Layouts {
		if l.random < 8 {
			continue
		}
		const clients = 1000
		marks := map[string]bool{}
		for range clients {
			client := l.ForClient()
			if mark := client.ClientMark(); strings.HasPrefix(string(client.Append(nil, 1)), mark) {
				marks[mark] = true
			}
		}
		if len(marks) != clients {
			t.Errorf("%s: %d Clients have %d marks", l.Name, clients, len(marks))
		}
	}
}
