package records_test

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// The bytes of each format: header, random bytes, permits.
func TestRecordsHaveTheBytesOfTheirFormat(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		for _, f := range Formats {
			l := b.NewLimiter(Overall, 1<<50, time.Minute).InFormat(f.Since)
			seen := map[string]bool{}
			for range 20 {
				l.Takes(0x01020304)
			}
			for _, m := range l.Members() {
				random := m[len(f.Header) : len(m)-4]
				if len(m) != f.Size || !strings.HasPrefix(m, f.Header) ||
					m[len(m)-4:] != "\x04\x03\x02\x01" || seen[random] {
					b.Fatalf("%v: % x among %d", f, m, len(seen))
				}
				seen[random] = true
			}
			if len(seen) != 20 {
				b.Fatalf("%v: %d records of 20 grants", f, len(seen))
			}
			l.Takes(1<<33 + 5) // needs three records
			l.Keeps(1<<50, l.ValueKey(), l.PermitsKey())
			b.Now += time.Minute.Milliseconds()
			l.Has(1 << 50)
			l.Takes(7)
			l.HasRecords(7)
		}
	})
}

// Whatever a Client writes, it reads all formats in one limiter: the records
// count, are given back, and expire.
func TestEveryFormatIsReadInOneLimiter(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		for _, f := range Formats {
			base := b.NewLimiter(Overall, 100, time.Second)
			l := base.InFormat(f.Since)
			for _, j := range JavaRecords {
				l.Record(b.Now, j.Member)
				b.Now++
			}
			l.Record(b.Now, "x") // no record at all
			l.Has(85)            // the value is lost
			for _, other := range Formats {
				base.InFormat(other.Since).Takes(10)
				b.Now++
			}
			l.Has(45)
			b.Want(b.Look.ZRem(b.Context(), l.PermitsKey(), "x").Err())
			l.Keeps(100, l.ValueKey(), l.PermitsKey())
			l.Refused(46, 991*time.Millisecond) // when the oldest record, of two permits, is back
			l.Gives(42)                         // the oldest: Java's, and 27 of Go's
			l.HasRecords(3, 10)
			l.Keeps(100, l.ValueKey(), l.PermitsKey())
			b.Now += 992
			l.Takes(87) // of a hundred all but [3 10]
			l.Refused(3, 6*time.Millisecond)
			l.Keeps(100, l.ValueKey(), l.PermitsKey())
			b.Now += 2000
			l.Takes(100)
			l.Keeps(100, l.ValueKey(), l.PermitsKey())
		}
	})
}

// C8: four random bytes are few, and still no record replaces another one.
func TestShortRecordsAreNeverTheSame(t *testing.T) {
	n := NewProxied(t, 1<<30, time.Hour)
	l := n.InFormat(FI)
	const grants = 12_000 // by chance alone, some 17 pairs of them would be the same
	for i := range grants {
		n.Now += int64(i % 2)
		l.Takes(1)
	}
	if got := Sum(l.Records(l.PermitsKey())); got != grants {
		t.Errorf("records of %d permits, %d were granted", got, grants)
	}
	l.Keeps(1<<30, l.ValueKey(), l.PermitsKey())
}

// Nor do they when a release makes a record that is there already.
func TestAReleaseKeepsRecordsApart(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		for _, j := range JavaRecords {
			l := b.NewLimiter(Overall, 20, time.Hour)
			random := j.Member[:len(j.Member)-4]
			for i := range byte(4) {
				l.Record(b.Now+int64(i), random+string([]byte{i + 1, 0, 0, 0}))
			}
			b.SetKey(l.ValueKey(), 20-10)
			for left := int64(9); left > 0; left-- {
				l.Gives(1) // out of the newest one
				if got := Sum(l.Records(l.PermitsKey())); got != left {
					b.Fatalf("% x: %d in %v, want %d", j.Member, got, l.Records(l.PermitsKey()), left)
				}
				l.Keeps(20, l.ValueKey(), l.PermitsKey())
			}
		}
	})
}

func TestWithRedissonDecidesTheFormat(t *testing.T) {
	rdb := redistest.MiniClient(t, redistest.Mini(t))
	for version, size := range map[string]int{
		"4.7.0": 21, "3.21.0": 21, "3.20.1": 13, "3.17.0": 13, "3.16.8": 20, "3.16.4": 20, "v3.16.4": 20,
		"3.16.3": 8, "3.13.3": 8,
	} {
		c := rratelimiter.New(rdb, rratelimiter.WithRedisson(version))
		l := c.RateLimiter("since-"+version).WithRate(1, time.Hour)
		NoError(t, l.Acquire(t.Context(), 1))
		records := rdb.ZRange(t.Context(), "{"+l.Name()+"}:permits", 0, -1).Val()
		if len(records) != 1 || len(records[0]) != size {
			t.Errorf("%s: records %q, want one of %d bytes", version, records, size)
		}
		_ = c.Close()
	}
}

// Redisson of 2017 to 2020 reads an fI as a number of 4 bytes and the permits. Later ones take it for a BC0I.
// Redisson makes the number of a long, and none of ours is one that it would write.
func TestAnFIIsReadByBothGenerations(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 1<<40, time.Minute).InFormat(FI)
		for n := range int64(200) {
			l.Takes(n + 1)
		}
		if got := len(l.Members()); got != 200 {
			b.Fatalf("%d records, want 200", got)
		}
		for _, m := range l.Members() {
			length := int(m[0])
			old, later := m[4:], m[1+length:]
			exponent := binary.LittleEndian.Uint32([]byte(m)) >> 23 & 0xff
			if len(old) != 4 || old != later || exponent < 127+64 {
				b.Fatalf("% x", m)
			}
		}
	})
}
