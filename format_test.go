package rratelimiter_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// The bytes of each format: header, random bytes, permits.
func TestRecordFormats(t *testing.T) {
	onBoth(t, func(b *bench) {
		for _, f := range formats {
			l := b.limiter(overall, 1<<50, time.Minute).inFormat(f.since)
			seen := map[string]bool{}
			for range 20 {
				l.takes(0x01020304)
			}
			for _, m := range l.members() {
				random := m[len(f.header) : len(m)-4]
				if len(m) != f.size || !strings.HasPrefix(m, f.header) ||
					m[len(m)-4:] != "\x04\x03\x02\x01" || seen[random] {
					b.Fatalf("%v: % x among %d", f, m, len(seen))
				}
				seen[random] = true
			}
			if len(seen) != 20 {
				b.Fatalf("%v: %d records of 20 grants", f, len(seen))
			}
			l.takes(1<<33 + 5) // needs three records
			l.keeps(1<<50, l.value(), l.permits())
			b.now += time.Minute.Milliseconds()
			l.has(1 << 50)
			l.takes(7)
			if got := fmt.Sprint(l.records(l.permits())); got != "[7]" {
				b.Fatalf("%v: records %s a minute later", f, got)
			}
		}
	})
}

// Whatever a Client writes, it reads all formats in one limiter: the records
// count, are given back, and expire.
func TestEveryFormatIsReadInOneLimiter(t *testing.T) {
	onBoth(t, func(b *bench) {
		for _, f := range formats {
			base := b.limiter(overall, 100, time.Second)
			l := base.inFormat(f.since)
			for _, j := range java {
				l.record(b.now, j.member)
				b.now++
			}
			l.has(85) // the value is lost
			for _, other := range formats {
				base.inFormat(other.since).takes(10)
				b.now++
			}
			l.has(45)
			l.keeps(100, l.value(), l.permits())
			l.refused(46, 991*time.Millisecond) // when the oldest record, of two permits, is back
			l.gives(42)                         // the oldest: Java's, and 27 of Go's
			if got := fmt.Sprint(l.records(l.permits())); got != "[3 10]" {
				b.Fatalf("%v: records %s, want [3 10]", f, got)
			}
			l.keeps(100, l.value(), l.permits())
			b.now += 992
			l.takes(87) // of a hundred all but [3 10]
			l.refused(3, 6*time.Millisecond)
			l.keeps(100, l.value(), l.permits())
			b.now += 2000
			l.takes(100)
			l.keeps(100, l.value(), l.permits())
		}
	})
}

// C8: four random bytes are few, and still no two grants share a record.
func TestShortRecordsAreNeverTheSame(t *testing.T) {
	n := newLine(t, 1<<30, time.Hour)
	l := n.l.inFormat(fI)
	const grants = 12_000 // by chance alone, some 17 pairs of them would be the same
	for i := range grants {
		n.now += int64(i % 2)
		l.takes(1)
	}
	if got := len(l.members()); got != grants {
		t.Errorf("%d records of %d grants", got, grants)
	}
	l.keeps(1<<30, l.value(), l.permits())
}

// Nor do they when a release makes a record that is there already.
func TestAReleaseKeepsRecordsApart(t *testing.T) {
	onBoth(t, func(b *bench) {
		for _, j := range java {
			l := b.limiter(overall, 20, time.Hour)
			random := j.member[:len(j.member)-4]
			for i := range byte(4) {
				l.record(b.now+int64(i), random+string([]byte{i + 1, 0, 0, 0}))
			}
			b.set(l.value(), 20-10)
			for left := int64(9); left > 0; left-- {
				l.gives(1) // out of the newest one
				if got := sum(l.records(l.permits())); got != left {
					b.Fatalf("% x: %d in %v, want %d", j.member, got, l.records(l.permits()), left)
				}
				l.keeps(20, l.value(), l.permits())
			}
		}
	})
}

// B4 in each format: however often a reply is lost, a request is charged once. One
// that is given up is taken back. A late first copy finds that it was done.
func TestInEachFormatChargedOnce(t *testing.T) {
	for _, f := range formats {
		for _, retries := range []int{3, -1} { // -1: it gives up, and what it has taken is withdrawn
			n := newLine(t, 30, time.Hour, func(o *redis.Options) {
				o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff = retries, 1, time.Millisecond
			})
			l := n.l.inFormat(f.since)
			l.takes(1)
			taken := int64(1)
			for lost := 1; lost <= 3; lost++ {
				n.proxy.SwallowReply(min(lost, max(1, retries)))
				ok, err := l.TryAcquire(t.Context(), 4, 0)
				if retries > 0 {
					taken += 4
				}
				if ok != (retries > 0) || ok != (err == nil) {
					t.Fatalf("%v: %v, %v", f, ok, err)
				}
				n.untilOut(taken)
			}
			c := n.holds(l.asksFor(10))
			if err := c.overtaken(); retries > 0 {
				n.want(err)
				taken += 10
			} else if !errors.Is(err, rratelimiter.ErrNoAnswer) {
				t.Fatalf("%v, want ErrNoAnswer", err)
			}
			c.followed()
			c.arrives()
			n.untilOut(taken)
			l.has(30 - taken)
			l.keeps(30, l.value(), l.permits())
		}
	}
}

// With a resolution all that is granted in a slot is one record of the format.
func TestAResolutionInEachFormat(t *testing.T) {
	onBoth(t, func(b *bench) {
		for _, f := range formats {
			l := b.limiter(overall, 1000, time.Second).inFormat(f.since,
				rratelimiter.WithResolution(100*time.Millisecond))
			for range 300 {
				l.takes(1)
				b.now++
			}
			got := l.members()
			if len(got) > 4 || sum(l.records(l.permits())) != 300 {
				b.Fatalf("%v: records %v", f, l.records(l.permits()))
			}
			for _, m := range got {
				if len(m) != f.size || !strings.HasPrefix(m, f.header) {
					b.Errorf("%v: % x", f, m)
				}
			}
			l.keeps(1000, l.value(), l.permits())
		}
	})
}

// The version of Redisson decides which records are written. One that is none, or too old, is
// refused by each call.
func TestWithRedisson(t *testing.T) {
	rdb := redistest.MiniClient(t, redistest.Mini(t))
	for version, size := range map[string]int{
		"4.7.0": 21, "3.21.0": 21, "3.20.1": 13, "3.17.0": 13, "3.16.8": 20, "3.16.4": 20, "v3.16.4": 20,
		"3.16.3": 8, "3.13.3": 8,
	} {
		c := rratelimiter.New(rdb, rratelimiter.WithRedisson(version))
		l := c.RateLimiter("since-"+version).WithRate(1, time.Hour)
		noError(t, l.Acquire(t.Context(), 1))
		records := rdb.ZRange(t.Context(), "{"+l.Name()+"}:permits", 0, -1).Val()
		if len(records) != 1 || len(records[0]) != size {
			t.Errorf("%s: records %q, want one of %d bytes", version, records, size)
		}
		_ = c.Close()
	}
	for _, version := range []string{"", "3", "3.16", "3.13.2", "2.15.2", "3.16.4-SNAPSHOT", "newest"} {
		c := rratelimiter.New(rdb, rratelimiter.WithRedisson(version))
		for name, err := range everything(t.Context(), c.RateLimiter("l")) {
			if !errors.Is(err, rratelimiter.ErrInvalidArgument) {
				t.Errorf("%q, %s: %v", version, name, err)
			}
			wantText(t, err, "version of WithRedisson is "+strconv.Quote(version), "3.13.3 or later")
		}
		_ = c.Close()
	}
}

// Redisson of 2017 to 2020 reads an fI as a number of 4 bytes and the permits.
// Later ones take it for a Bc0I. Redisson makes the number of a long, and none of
// ours is one that it would write.
func TestAnFIIsReadByBothGenerations(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 1<<40, time.Minute).inFormat(fI)
		for n := range int64(200) {
			l.takes(n + 1)
		}
		if got := len(l.members()); got != 200 {
			b.Fatalf("%d records, want 200", got)
		}
		for _, m := range l.members() {
			length := int(m[0])
			old, later := m[4:], m[1+length:]
			exponent := binary.LittleEndian.Uint32([]byte(m)) >> 23 & 0xff
			if len(old) != 4 || old != later || exponent < 127+64 {
				b.Fatalf("% x", m)
			}
		}
	})
}
