package records_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/grants"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// All that is granted in a slot is one record, whichever Client grants it. It has
// the time of the end of the slot, and the form that Java reads.
func TestWhatIsGrantedInASlotIsOneRecord(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 1000, time.Second)
		start := b.Now
		clients := []*Limiter{l.Coarse(100 * time.Millisecond), l.Coarse(100 * time.Millisecond),
			l.Coarse(100*time.Millisecond + 999)}
		for _, at := range []int64{0, 1, 1, 50, 99, 100, 101, 200, 201, 250, 299, 300, 305} {
			b.Now = start + at
			for i, c := range clients {
				c.Takes(int64(i + 1))
			}
		}
		want := []redis.Z{{Score: 0, Member: int64(6)}, {Score: 100, Member: int64(30)},
			{Score: 200, Member: int64(12)},
			{Score: 300, Member: int64(24)}, {Score: 400, Member: int64(6)}}
		got := b.Look.ZRangeWithScores(b.Context(), l.PermitsKey(), 0, -1).Val()
		if len(got) != len(want) {
			b.Fatalf("%d records, want %d", len(got), len(want))
		}
		for i, z := range got {
			m := []byte(z.Member.(string))
			if len(m) != 21 || m[0] != 16 || int64(binary.LittleEndian.Uint32(m[17:])) != want[i].Member ||
				z.Score != float64(start)+want[i].Score {
				b.Errorf("% x at %.0f; want %d permits at %.0f", m, z.Score-float64(start), want[i].Member,
					want[i].Score)
			}
		}
		l.Keeps(1000, l.ValueKey(), l.PermitsKey())
	})
}

// Permits come back up to the resolution later than they would, never earlier;
// and as many records count as there are slots in an interval, and one more.
func TestPermitsComeBackUpToASlotLater(t *testing.T) {
	for _, d := range []int64{1, 10, 70, 100, 999, 1000, 3_600_000} {
		OnBoth(t, func(b *Bench) {
			const rate, interval = 100, 1000
			slot := min(d, interval)
			random := rand.New(rand.NewPCG(uint64(d), 7))
			l := b.NewLimiter(Overall, rate, interval*time.Millisecond)
			all := []*Limiter{l.Coarse(time.Duration(d) * time.Millisecond),
				l.Coarse(time.Duration(d) * time.Millisecond)}
			var exact, told grants.Grants // told: by the ends of slots
			for range 150 {
				b.Now += random.Int64N(70)
				n := 1 + random.Int64N(15)
				r, err := all[random.IntN(2)].Allow(b.Context(), n)
				b.Want(err)
				wait := exact.Wait(b.Now, rate, interval, n)
				most := exact.Wait(b.Now, rate, interval+slot, n)
				if r.Allowed && wait != 0 || !r.Allowed && most == 0 {
					b.Fatalf("resolution %d ms: %d at %d: %+v; to the ms a wait of %v, at most of %v",
						d, n, b.Now, r, wait, most)
				}
				if r.Allowed {
					exact = append(exact, grants.Grant{At: b.Now, Permits: n})
					told = append(told, grants.Grant{At: (b.Now + slot - 1) / slot * slot, Permits: n})
				}
				want := rratelimiter.Result{Allowed: r.Allowed,
					Remaining:  rate - told.Within(b.Now, interval).Sum(),
					ResetAfter: told.Wait(b.Now, rate, interval, rate)}
				if !r.Allowed {
					want.RetryAfter = told.Wait(b.Now, rate, interval, n)
				}
				want.Name, want.Limit, want.Interval = l.Name(), rate, interval*time.Millisecond
				if !reflect.DeepEqual(r, want) {
					b.Fatalf("%d permits: %+v, want %+v", n, r, want)
				}
				if most := (interval+slot-1)/slot + 1; r.Allowed && l.Size() > most {
					b.Fatalf("resolution %d ms: %d records, want at most %d", d, l.Size(), most)
				}
				l.Keeps(rate, l.ValueKey(), l.PermitsKey())
			}
		})
	}
}

// Records of Java, and of Go without a resolution, are left alone, in the same
// ms as well.
func TestRecordsOfOthersAreNotMerged(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 100, time.Second)
		others := []string{"\x10aaaaaaaaaaaaaaaa\x02\x00\x00\x00", "\x10\xd2Gozzzzzzzzzzzzz\x02\x00\x00\x00",
			"\x08abcdefgh\x03\x00\x00\x00"}
		for _, m := range others {
			l.Record(b.Now, m)
		}
		b.SetKey(l.ValueKey(), 100-7)
		l.Takes(5)
		m := l.Coarse(50 * time.Millisecond)
		m.Takes(1)
		m.Takes(2)
		got := l.Records(l.PermitsKey())
		slices.Sort(got)
		if !slices.Equal(got, []int64{2, 2, 3, 3, 5}) {
			b.Fatalf("records %v, want those of others, 5 of Go's own and 3 of the slot", got)
		}
		for _, m := range others {
			if score := b.Look.ZScore(b.Context(), l.PermitsKey(), m).Val(); score != float64(b.Now) {
				b.Errorf("% x at %.0f", m, score)
			}
		}
		l.Keeps(100, l.ValueKey(), l.PermitsKey())
	})
}

// More than a record can hold is in several; nothing is lost, and there are no
// more than it takes.
func TestASlotBeyond32BitsLosesNothing(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		const rate = 1 << 50
		l := b.NewLimiter(Overall, rate, time.Second)
		m := l.Coarse(100 * time.Millisecond)
		taken := int64(0)
		for _, n := range []int64{5, 1 << 32, 1<<32 - 1, 7, 1 << 34, 1<<32 - 6, 3, 1<<32 - 1, 1, 1, 1} {
			m.Takes(n)
			taken += n
			l.Keeps(rate, l.ValueKey(), l.PermitsKey())
			m.Has(rate - taken)
		}
		for range 30 {
			m.Takes(1)
			taken++
		}
		if got, most := l.Size(), 2*(taken/math.MaxUint32+1); got > most {
			b.Errorf("%d records %v for %d permits, want at most %d", got, l.Records(l.PermitsKey()), taken,
				most)
		}
		m.Gives(1 << 33)
		m.Has(rate - taken + 1<<33)
		l.Keeps(rate, l.ValueKey(), l.PermitsKey())
		b.Now += 1100
		m.Takes(1 << 40)
		l.Keeps(rate, l.ValueKey(), l.PermitsKey())
	})
}

// A release takes out of the oldest of merged records, which belong to no Client. Later
// grants are merged again.
func TestAReleaseTakesTheOldestOfMergedRecords(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 100, time.Second)
		m, other := l.Coarse(100*time.Millisecond), l.Coarse(100*time.Millisecond)
		for _, step := range []struct {
			take, give int64
			later      int64
			records    string
		}{
			{10, 3, 1, "[7]"}, {5, 0, 1, "[7 5]"}, {5, 7, 100, "[10]"}, {4, 6, 0, "[4 4]"},
			{2, 1, 0, "[3 6]"}, {1, 100, 0, "[]"}, {6, 0, 0, "[6]"},
		} {
			m.Takes(step.take)
			other.Gives(step.give)
			if got := fmt.Sprint(l.Records(l.PermitsKey())); got != step.records {
				b.Fatalf("%+v: records %s", step, got)
			}
			l.Keeps(100, l.ValueKey(), l.PermitsKey())
			b.Now += step.later
		}
	})
}
