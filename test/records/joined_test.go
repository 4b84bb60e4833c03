package records_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// Above 2,000 records a call joins those of Java, and those of Go, within a thousandth of an interval. The value is
// what they hold, no permit comes back early, and none later than that. Reservations stay.
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
	b.Want(b.Look.ConfigSet(ctx, "slowlog-log-slower-than", "200").Err())
	l.Takes(1)
	l.Keeps(1<<40, l.ValueKey(), l.PermitsKey())
	if l.Size() > 2000+int64(len(reserved)) {
		t.Errorf("%d records are left", l.Size())
	}
	longest := time.Duration(0)
	for _, entry := range b.Look.SlowLogGet(ctx, -1).Val() {
		if strings.EqualFold(entry.Args[0], "evalsha") {
			longest = max(longest, entry.Duration)
		}
	}
	t.Logf("%d records in %d bytes, then %d in %d; the longest script took %v", many, before, l.Size(),
		memory(), longest)

	out := func(after int64) (sum int64) { // permits of records that are newer
		records := b.Look.ZRangeByScore(ctx, l.PermitsKey(),
			&redis.ZRangeBy{Min: "(" + strconv.FormatInt(after, 10), Max: strconv.FormatInt(b.Now-1, 10)}).Val()
		for _, record := range records {
			n, err := wire.Permits(record)
			b.Want(err)
			sum += n
		}
		return sum
	}
	for range 50 {
		i := rand.IntN(many - 1)
		had := int64(many - 1 - i)
		for had > 0 && times[many-int(had)] == times[i] { // of the same ms
			had--
		}
		if has := out(times[i]); has < had {
			t.Fatalf("%d permits after %d, %d before: some come back early", has, times[i], had)
		}
		if has := out(times[i] + slice); has > had {
			t.Fatalf("%d permits after %d, %d before: some come back late", has, times[i]+slice, had)
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
