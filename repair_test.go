package rratelimiter_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// repairs expects what Repair tells.
func (l *limiter) repairs(want rratelimiter.Repaired) {
	l.b.Helper()
	got, err := l.Repair(l.b.Context())
	if err != nil || got != want {
		l.b.Fatalf("repair at %d: %+v, %v; want %+v", l.b.now, got, err, want)
	}
}

// Records of every format become those of one, with their permits and times.
func TestRepairBringsRecordsIntoOneFormat(t *testing.T) {
	onBoth(t, func(b *bench) {
		for _, f := range formats {
			l := b.limiter(overall, 100, time.Minute).inFormat(f.since)
			start := b.now
			for _, j := range java {
				l.record(b.now, j.member)
				b.now++
			}
			b.set(l.value(), 85)
			other := int64(len(java) - 1) // one of them has the format already
			if f.since == fI {
				other = 5 // those of Java are not such as a later Java can read
			}
			l.repairs(rratelimiter.Repaired{Records: 5, Rewritten: other})
			for i, z := range b.look.ZRangeWithScores(b.Context(), l.permits(), 0, -1).Val() {
				m := z.Member.(string)
				n, err := wire.Permits(m)
				b.want(err)
				if n != java[i].permits || int64(z.Score) != start+int64(i) || len(m) != f.size ||
					!strings.HasPrefix(m, f.header) {
					b.Errorf("%v: % x at %.0f, want %d permits", f, m, z.Score, java[i].permits)
				}
			}
			l.keeps(100, l.value(), l.permits())
			l.repairs(rratelimiter.Repaired{Records: 5})
		}
	})
}

// What no Redisson has written is dropped, a time far ahead is brought back,
// and a value that others have made wrong is put right.
func TestRepairDropsWhatCannotBeRead(t *testing.T) {
	// one byte short of an fI, and of anything
	rubbish := []string{"", "x", "abc", "abcd", "\x03\x00\x00\x00\x00" + "\x01\x00\x00",
		"\x10abcdefghijklmno\x01\x00\x00\x00", "\x10abcdefghijklmnopq\x01\x00\x00\x00",
		strings.Repeat("x", 300),
		"\x08\x00\x00\x00\x00\x00\x00\x01abcdefgh\x01\x00\x00\x00", "\x10abcdefghijklmnop\x00\x00\x00\x00",
		"12345678\x00\x00\x00\x00"}
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 10, time.Minute)
		for i, m := range rubbish {
			if len(m) == 8 {
				continue // that is an fI, whatever it says
			}
			l.record(b.now+int64(i), m)
		}
		l.record(b.now, "\x10abcdefghijklmnop\x02\x00\x00\x00")
		l.record(b.now+time.Hour.Milliseconds(), "\x10ABCDEFGHIJKLMNOP\x01\x00\x00\x00")
		l.record(b.now-time.Hour.Milliseconds(), "\x10xxxxxxxxxxxxxxxx\x05\x00\x00\x00")
		b.set(l.value(), 9)
		b.now += int64(len(rubbish))
		got, err := l.Repair(b.Context())
		b.want(err)
		dropped := int64(len(rubbish) - 1)
		if got.Records != 2 || got.Rewritten != 1 || got.Dropped != dropped {
			b.Fatalf("%+v; want 2 left, one rewritten, %d dropped", got, dropped)
		}
		l.keeps(10, l.value(), l.permits())
		l.has(7)
		b.now += time.Minute.Milliseconds() - 1
		l.refused(10, time.Millisecond)
		b.now++
		l.takes(10)
	})
}

func TestRepairPutsTheValueRight(t *testing.T) {
	onBoth(t, func(b *bench) {
		for _, value := range []int64{10, 7, 6, 3, 0, -5} { // 6 is right
			l := b.limiter(overall, 10, time.Minute)
			l.takes(4)
			b.set(l.value(), value)
			l.repairs(rratelimiter.Repaired{Records: 1, Drift: value - 6})
			l.keeps(10, l.value(), l.permits())
			l.repairs(rratelimiter.Repaired{Records: 1})
		}
		// counts as none, and Java takes none for a full one
		for _, value := range []any{nil, "x", "1.5", "1e+17", ""} {
			l := b.limiter(overall, 10, time.Minute)
			l.takes(4)
			if b.look.Del(b.Context(), l.value()); value != nil {
				b.set(l.value(), value)
			}
			l.repairs(rratelimiter.Repaired{Records: 1, Drift: 4})
			l.keeps(10, l.value(), l.permits())
		}
		// to Go, rubbish of four bytes and more is a record of some permits
		l := b.limiter(overall, 10, time.Minute)
		l.takes(4)
		l.record(b.now, "\x02\x00\x00\x00")
		b.set(l.value(), 4)
		l.has(4)
		l.repairs(rratelimiter.Repaired{Records: 1, Dropped: 1})
		l.has(6)
		l.keeps(10, l.value(), l.permits())

		l = b.limiter(overall, 10, time.Minute)
		l.repairs(rratelimiter.Repaired{})
		l.takes(4)
		b.want(b.look.Del(b.Context(), l.permits()).Err())
		l.repairs(rratelimiter.Repaired{Drift: -4})
		l.has(10)
	})
}

// A time to live stays as it is, keep alive gives a new one; a PerClient
// limiter is repaired under our own keys.
func TestRepairKeepsWhatLives(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 10, time.Second, rratelimiter.WithKeepAlive(time.Hour))
		l.record(b.now, "\x88\x10\x89\xdd\x05\x00\x00\x00")
		b.want(b.look.PExpire(b.Context(), l.Name(), time.Minute).Err())
		l.repairs(rratelimiter.Repaired{Records: 1, Rewritten: 1, Drift: 5})
		for _, key := range []string{l.Name(), l.value(), l.permits()} {
			if ttl := b.look.PTTL(b.Context(), key).Val(); ttl < 59*time.Minute {
				b.Errorf("%s lives for %v", key, ttl)
			}
		}

		l = b.limiter(perClient, 10, time.Second)
		id := b.client.ID()
		key := l.permits() + ":" + id
		b.want(b.look.ZAdd(b.Context(), key, redis.Z{Score: float64(b.now),
			Member: "\x88\x10\x89\xdd\x05\x00\x00\x00"}).Err())
		b.set(l.value()+":"+id, 5)
		l.repairs(rratelimiter.Repaired{Records: 1, Rewritten: 1})
		if got := l.records(key); !slices.Equal(got, []int64{5}) {
			b.Fatalf("records %v", got)
		}
		l.keeps(10, l.value()+":"+id, key)
	})
}

func TestRepairOfWhatIsNoLimiter(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 0, 0)
		if _, err := l.Repair(b.Context()); !errors.Is(err, rratelimiter.ErrNotInitialized) {
			b.Error(err)
		}
		l = b.limiter(overall, 10, time.Minute)
		b.set(l.permits(), "x")
		if _, err := l.Repair(b.Context()); !errors.Is(err, rratelimiter.ErrBadState) {
			b.Error(err)
		}
		wantText(b.T, errOf(l.Repair(b.Context())), l.permits())
	})
}

// Repair of many records is many calls of up to 2,000, and in the end few are
// left, while others take and give: nothing is lost, and nobody gets more than
// the rate.
func TestRepairOfMany(t *testing.T) {
	for _, wrong := range []int64{0, 1000, -1000} {
		n := newLine(t, 1<<30, time.Hour)
		const many = 30_000
		ctx := context.Background()
		var members []redis.Z
		for i := range many {
			m := fmt.Sprintf("%04x%c%c%c%c", i, byte(1+i%3), 0, 0, 0)
			// 12 of 3.6 s
			members = append(members, redis.Z{Score: float64(n.now - int64(i/3*300)), Member: m[:8]})
		}
		n.want(n.look.ZAdd(ctx, n.l.permits(), members...).Err())
		out := sum(n.l.records(n.l.permits()))
		n.set(n.l.value(), 1<<30-out+wrong)

		endUse := n.inUse()
		before := n.scriptsRun()
		got, err := n.l.Repair(ctx)
		taken := endUse()
		n.want(err)
		if taken == 0 {
			t.Error("nobody has used it meanwhile")
		}
		if got.Rewritten < many || got.Dropped != 0 || got.Drift != wrong || got.Records > 2000 {
			t.Errorf("%+v of %d, %d too many", got, many, wrong)
		}
		if calls := n.scriptsRun() - before; calls < many/1000 {
			t.Errorf("%d calls for %d records", calls, many)
		}
		if left := sum(n.l.records(n.l.permits())); left != out+taken {
			t.Errorf("%d permits are out, want %d and %d", left, out, taken)
		}
		for _, m := range n.l.members() {
			if len(m) != 21 {
				t.Fatalf("% x is left", m)
			}
		}
		n.l.keeps(1<<30, n.l.value(), n.l.permits())
	}
}

// inUse takes 3 permits and gives 1 back, again and again. The function that it
// returns ends that, and returns how many permits were taken.
func (n *line) inUse() (end func() (taken int64)) {
	stop, taken := make(chan struct{}), int64(0)
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := errors.Join(n.l.asksFor(3)(), n.l.givesBack(1)()); err != nil {
				n.Error(err)
				return
			}
			taken += 2
		}
	})
	return func() int64 {
		close(stop)
		group.Wait()
		return taken
	}
}

// Permits of records that became one come back up to a thousandth of an interval
// later, never earlier; many of one ms, and of so many permits that they cannot
// become one, are no harm.
func TestRepairMakesFewRecordsOfMany(t *testing.T) {
	n := newLine(t, 1<<50, time.Hour)
	start := n.now
	var members []redis.Z
	for i := range 4500 {
		m := redis.Z{Score: float64(start), Member: fmt.Sprintf("\x10%016d\x01\x00\x00\x00", i)}
		if i >= 2500 {
			m.Score = float64(start + int64(i))
		}
		if i >= 4000 {
			m.Member = fmt.Sprintf("\x10%016d\xff\xff\xff\xff", i)
		}
		members = append(members, m)
	}
	n.want(n.look.ZAdd(t.Context(), n.l.permits(), members...).Err())
	n.now += 4500
	got, err := n.l.Repair(t.Context())
	if err != nil || got.Records > 2000 || got.Dropped != 0 || got.Drift != 4000+500*math.MaxUint32 {
		t.Fatalf("%+v, %v", got, err)
	}
	n.l.keeps(1<<50, n.l.value(), n.l.permits())
	hour := time.Hour.Milliseconds()
	for i, m := range members { // what had come back by then
		if i%50 > 0 {
			continue
		}
		n.now = int64(m.Score) + hour - 1
		exact := int64(0)
		for _, m := range members {
			if permits, _ := wire.Permits(m.Member.(string)); int64(m.Score) > n.now-hour {
				exact += permits
			}
		}
		left, err := n.l.AvailablePermits(t.Context())
		if n.want(err); left > 1<<50-exact {
			t.Fatalf("%d ms later %d are there, and %d still out", n.now-start, left, exact)
		}
	}
	n.now = start + 4500 + hour + hour/1000
	n.l.has(1 << 50)

	huge := n.l.b.limiter(overall, 1<<50, time.Hour)
	members = members[:0]
	for i := range 2600 { // all of one ms
		members = append(members, redis.Z{Score: float64(n.now),
			Member: fmt.Sprintf("%04d\xff\xff\xff\xff", i)})
	}
	n.want(n.look.ZAdd(t.Context(), huge.permits(), members...).Err())
	huge.repairs(rratelimiter.Repaired{Records: 2600, Rewritten: 2600, Drift: 2600 * math.MaxUint32})
	huge.keeps(1<<50, huge.value(), huge.permits())
}

// A repair whose reply is lost is gone on with.
func TestRepairOverABadLine(t *testing.T) {
	n := newLine(t, 100, time.Hour)
	for _, j := range java {
		n.l.record(n.now, j.member)
	}
	n.set(n.l.value(), 85)
	n.proxy.SwallowReply(3)
	n.want(errOf(n.l.Repair(t.Context())))
	if got := n.proxy.Swallowed(); got != 3 {
		t.Errorf("%d replies were lost, want 3", got)
	}
	if got := len(n.l.members()); got != len(java) {
		t.Errorf("%d records, want %d", got, len(java))
	}
	for _, m := range n.l.members() {
		if len(m) != 21 {
			t.Errorf("% x is left", m)
		}
	}
	n.l.keeps(100, n.l.value(), n.l.permits())
}
