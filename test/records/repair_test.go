package records_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// repairs expects what Repair tells.
func repairs(l *Limiter, want rratelimiter.Repaired) {
	l.Helper()
	got, err := l.Repair(l.Context())
	if err != nil || got != want {
		l.Fatalf("repair at %d: %+v, %v; want %+v", l.Now, got, err, want)
	}
}

// Records of every format become those of one, with their permits and times.
func TestRepairBringsRecordsIntoOneFormat(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		for _, f := range Formats {
			l := b.NewLimiter(Overall, 100, time.Minute).InFormat(f.Since)
			start := b.Now
			for _, j := range JavaRecords {
				l.Record(b.Now, j.Member)
				b.Now++
			}
			b.SetKey(l.ValueKey(), 85)
			other := int64(len(JavaRecords) - 1) // one of them has the format already
			if f.Since == FI {
				other = 5 // a later Java cannot read those of this one
			}
			repairs(l, rratelimiter.Repaired{Records: 5, Rewritten: other})
			for i, z := range b.Look.ZRangeWithScores(b.Context(), l.PermitsKey(), 0, -1).Val() {
				m := z.Member.(string)
				n, err := wire.Permits(m)
				b.Want(err)
				if n != JavaRecords[i].Permits || int64(z.Score) != start+int64(i) || len(m) != f.Size ||
					!strings.HasPrefix(m, f.Header) {
					b.Errorf("%v: % x at %.0f, want %d permits", f, m, z.Score, JavaRecords[i].Permits)
				}
			}
			l.Keeps(100, l.ValueKey(), l.PermitsKey())
			repairs(l, rratelimiter.Repaired{Records: 5})
		}
	})
}

// What no Redisson has written is dropped, a time far ahead is brought back,
// and a wrong value of another client is put right.
func TestRepairDropsWhatCannotBeRead(t *testing.T) {
	// one byte short of an fI, and of anything
	rubbish := []string{"", "x", "abc", "abcd", "\x03\x00\x00\x00\x00" + "\x01\x00\x00",
		"\x10abcdefghijklmno\x01\x00\x00\x00", "\x10abcdefghijklmnopq\x01\x00\x00\x00",
		strings.Repeat("x", 300),
		"\x08\x00\x00\x00\x00\x00\x00\x01abcdefgh\x01\x00\x00\x00", "\x10abcdefghijklmnop\x00\x00\x00\x00",
		"12345678\x00\x00\x00\x00"}
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 10, time.Minute)
		for i, m := range rubbish {
			if len(m) == 8 {
				continue // that is an fI, whatever it says
			}
			l.Record(b.Now+int64(i), m)
		}
		l.Record(b.Now, "\x10abcdefghijklmnop\x02\x00\x00\x00")
		l.Record(b.Now+time.Hour.Milliseconds(), "\x10ABCDEFGHIJKLMNOP\x01\x00\x00\x00")
		l.Record(b.Now-time.Hour.Milliseconds(), "\x10xxxxxxxxxxxxxxxx\x05\x00\x00\x00")
		b.SetKey(l.ValueKey(), 9)
		l.Record(b.Now, "\x02\x00\x00\x00") // which counts as two permits until it is dropped
		b.Now += int64(len(rubbish))
		got, err := l.Repair(b.Context())
		b.Want(err)
		dropped := int64(len(rubbish))
		if got.Records != 2 || got.Rewritten != 1 || got.Dropped != dropped {
			b.Fatalf("%+v; want 2 left, one rewritten, %d dropped", got, dropped)
		}
		l.Keeps(10, l.ValueKey(), l.PermitsKey())
		l.Has(7)
		b.Now += time.Minute.Milliseconds() - 1
		l.Refused(10, time.Millisecond)
		b.Now++
		l.Takes(10)
	})
}

// Repair of many records is many calls of up to 2,000, and in the end few are left, while callers take and
// give: nothing is lost, and no caller gets more than the rate.
func TestRepairOfManyRecordsLosesNothing(t *testing.T) {
	for _, wrong := range []int64{0, 1000, -1000} {
		n := NewProxied(t, 1<<30, time.Hour)
		const many = 30_000
		ctx := context.Background()
		var members []redis.Z
		for i := range many {
			m := fmt.Sprintf("%04x%c%c%c%c", i, byte(1+i%3), 0, 0, 0)
			// 12 of 3.6 s
			members = append(members, redis.Z{Score: float64(n.Now - int64(i/3*300)), Member: m[:8]})
		}
		n.Want(n.Look.ZAdd(ctx, n.PermitsKey(), members...).Err())
		out := Sum(n.Records(n.PermitsKey()))
		n.SetKey(n.ValueKey(), 1<<30-out+wrong)

		endUse := inUse(n)
		before := n.ScriptsRun()
		got, err := n.Repair(ctx)
		taken := endUse()
		n.Want(err)
		if taken == 0 {
			t.Error("no caller has used it meanwhile")
		}
		drift := got.Drift != 0 && got.Drift != wrong // calls may have corrected it before
		if got.Rewritten == 0 || got.Dropped != 0 || drift || got.Records > 2000 {
			t.Errorf("%+v of %d, %d too many", got, many, wrong)
		}
		if calls := n.ScriptsRun() - before; calls < many/1000 {
			t.Errorf("%d calls for %d records", calls, many)
		}
		if left := Sum(n.Records(n.PermitsKey())); left != out+taken {
			t.Errorf("%d permits are out, want %d and %d", left, out, taken)
		}
		for _, m := range n.Members() {
			if len(m) != 21 {
				t.Fatalf("% x is left", m)
			}
		}
		n.Keeps(1<<30, n.ValueKey(), n.PermitsKey())
	}
}

// inUse takes 3 permits and gives 1 back, again and again. The function that it
// returns ends that, and returns how many permits were taken.
func inUse(n *Limiter) (end func() (taken int64)) {
	stop, taken := make(chan struct{}), int64(0)
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			err := errors.Join(Yes(n.TryAcquire(n.Context(), 3, 0)), n.Release(n.Context(), 1))
			if err != nil {
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

// Permits of records that became one come back up to a thousandth of an interval later, never earlier; many
// of one ms, and with too many permits to become one, do no harm.
func TestRepairMakesFewRecordsOfMany(t *testing.T) {
	s := redistest.Start(t)
	n := NewBench(t, s.Client(t), s.Admin()).NewLimiter(Overall, 1<<50, time.Hour)
	start := n.Now
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
	n.Want(n.Look.ZAdd(t.Context(), n.PermitsKey(), members...).Err())
	n.SetKey(n.ValueKey(), 1<<50-4000-500*math.MaxUint32+7)
	n.Now += 4500
	got, err := n.Repair(t.Context())
	if err != nil || got.Records > 2000 || got.Dropped != 0 || got.Drift != 7 {
		t.Fatalf("%+v, %v", got, err)
	}
	n.Keeps(1<<50, n.ValueKey(), n.PermitsKey())
	hour := time.Hour.Milliseconds()
	for i, m := range members { // what had come back by then
		if i%50 > 0 {
			continue
		}
		n.Now = int64(m.Score) + hour - 1
		exact := int64(0)
		for _, m := range members {
			if permits, _ := wire.Permits(m.Member.(string)); int64(m.Score) > n.Now-hour {
				exact += permits
			}
		}
		left, err := n.AvailablePermits(t.Context())
		if n.Want(err); left > 1<<50-exact {
			t.Fatalf("%d ms later %d are there, and %d still out", n.Now-start, left, exact)
		}
	}
	n.Now = start + 4500 + hour + hour/1000
	n.Has(1 << 50)

	huge := n.NewLimiter(Overall, 1<<50, time.Hour)
	members = members[:0]
	for i := range 2600 { // all of one ms
		members = append(members, redis.Z{Score: float64(n.Now),
			Member: fmt.Sprintf("%04d\xff\xff\xff\xff", i)})
	}
	n.Want(n.Look.ZAdd(t.Context(), huge.PermitsKey(), members...).Err())
	huge.SetKey(huge.ValueKey(), 1<<50-2600*math.MaxUint32-7)
	repairs(huge, rratelimiter.Repaired{Records: 2600, Rewritten: 2600, Drift: -7})
	huge.Keeps(1<<50, huge.ValueKey(), huge.PermitsKey())
}

// Above 2,000 records a call joins those of Java, and those of Go, within a thousandth of an interval. The
// value is what they hold, no permit comes back early, and none later than that. Reservations stay.
func TestManyRecordsAreJoined(t *testing.T) {
	s := redistest.Start(t)
	b := NewBench(t, s.Client(t), s.Admin())
	ctx, many := t.Context(), 1_000_000
	if testing.Short() {
		many = 100_000
	}
	l := b.NewLimiter(Overall, 1<<40, time.Hour)
	const slice = 3600 // ms
	var reserved []*rratelimiter.Reservation
	for range 3 {
		r, err := l.Reserve(ctx, 5, 0)
		b.Want(err)
		reserved = append(reserved, r)
	}
	times := make([]int64, many) // a record of a permit each, in order
	for i := 0; i < many; i += 1000 {
		var batch []redis.Z
		for j := i; j < i+1000; j++ {
			times[j] = b.Now - 3_000_000 + int64(j)*3_000_000/int64(many)
			mark := [...]string{"\xd2G", "ja"}[j%2]
			batch = append(batch, redis.Z{Score: float64(times[j]),
				Member: fmt.Sprintf("\x10%s%014d\x01\x00\x00\x00", mark, j)})
		}
		b.Want(b.Look.ZAdd(ctx, l.PermitsKey(), batch...).Err())
	}
	b.Want(b.Look.Del(ctx, l.ValueKey()).Err())
	memory := func() int64 { return b.Look.MemoryUsage(ctx, l.PermitsKey(), 0).Val() }
	before := memory()
	l.Takes(1)
	l.Keeps(1<<40, l.ValueKey(), l.PermitsKey())
	if l.Size() > 2000+int64(len(reserved)) {
		t.Errorf("%d records are left", l.Size())
	}
	t.Logf("%d records in %d bytes, then %d in %d", many, before, l.Size(), memory())

	out := func(after int64) (sum int64) { // permits of records that are newer
		records := b.Look.ZRangeArgs(ctx, redis.ZRangeArgs{
			Key: l.PermitsKey(), Start: "(" + strconv.FormatInt(after, 10), Stop: b.Now - 1, ByScore: true,
		}).Val()
		for _, record := range records {
			n, err := wire.Permits(record)
			b.Want(err)
			sum += n
		}
		return sum
	}
	for range 50 {
		i := rand.IntN(many-1000) + 1000
		for times[i] == times[i-1] { // the last of its ms
			i--
		}
		had, at := int64(many-i), times[i-1]
		if has, later := out(at), out(at+slice); has < had || later > had {
			t.Fatalf("after %d %d permits come back, and %d a thousandth later; want %d", at, has, later, had)
		}
	}
	for _, r := range reserved {
		b.Want(r.Settle(ctx, 0))
	}
	l.Keeps(1<<40, l.ValueKey(), l.PermitsKey())
	if l.Size() > 2000 {
		t.Errorf("%d records are left", l.Size())
	}
}
