package records_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

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
