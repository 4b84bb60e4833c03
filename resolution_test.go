package rratelimiter_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// All that is granted in a slot is one record, whichever Client grants it. It has
// the time of the end of the slot, and the form that Java reads.
func TestWhatIsGrantedInASlotIsOneRecord(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 1000, time.Second)
		start := b.now
		clients := []*limiter{l.coarse(100 * time.Millisecond), l.coarse(100 * time.Millisecond),
			l.coarse(100*time.Millisecond + 999)}
		for _, at := range []int64{0, 1, 1, 50, 99, 100, 101, 200, 201, 250, 299, 300, 305} {
			b.now = start + at
			for i, c := range clients {
				c.takes(int64(i + 1))
			}
		}
		want := []redis.Z{{Score: 0, Member: int64(6)}, {Score: 100, Member: int64(30)},
			{Score: 200, Member: int64(12)},
			{Score: 300, Member: int64(24)}, {Score: 400, Member: int64(6)}}
		got := b.look.ZRangeWithScores(b.Context(), l.permits(), 0, -1).Val()
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
		l.keeps(1000, l.value(), l.permits())
	})
}

// Permits come back up to the resolution later than they would, never earlier;
// and as many records count as there are slots in an interval, and one more.
func TestPermitsComeBackUpToASlotLater(t *testing.T) {
	for _, d := range []int64{1, 10, 70, 100, 999, 1000, 3_600_000} {
		onBoth(t, func(b *bench) {
			const rate, interval = 100, 1000
			slot := min(d, interval)
			random := rand.New(rand.NewPCG(uint64(d), 7))
			l := b.limiter(overall, rate, interval*time.Millisecond)
			all := []*limiter{l.coarse(time.Duration(d) * time.Millisecond),
				l.coarse(time.Duration(d) * time.Millisecond)}
			exact := &ledger{rate: rate, interval: interval}
			late := &ledger{rate: rate, interval: interval + slot}
			told := &ledger{rate: rate, interval: interval} // by the ends of slots
			for range 150 {
				b.now += random.Int64N(70)
				n := 1 + random.Int64N(15)
				r, err := all[random.IntN(2)].Allow(b.Context(), n)
				if r.Allowed {
					told.grants = append(told.grants, grant{(b.now + slot - 1) / slot * slot, n})
				}
				reset := told.reset(b.now)
				if err != nil || !r.Allowed && r.RetryAfter != told.wait(b.now, n) || r.ResetAfter != reset {
					b.Fatalf("%d permits: %+v, %v; want %v and a reset after %v", n, r, err,
						told.wait(b.now, n), reset)
				}
				if r.Allowed && exact.wait(b.now, n) != 0 || !r.Allowed && late.wait(b.now, n) == 0 {
					b.Fatalf("resolution %d ms: %d at %d: %+v; to the ms a wait of %v, at most of %v",
						d, n, b.now, r, exact.wait(b.now, n), late.wait(b.now, n))
				}
				if r.Allowed {
					exact.grants = append(exact.grants, grant{b.now, n})
					late.grants = exact.grants
				}
				if most := (interval+slot-1)/slot + 1; r.Allowed && l.size() > most {
					b.Fatalf("resolution %d ms: %d records, want at most %d", d, l.size(), most)
				}
				l.keeps(rate, l.value(), l.permits())
			}
		})
	}
}

// The numbers of a limiter with a resolution, to the ms.
func TestNumbersWithAResolution(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 10, time.Second).coarse(100 * time.Millisecond)
		start := b.now
		for _, step := range []struct {
			at, permits  int64
			allowed      bool
			left         int64
			retry, reset int64
		}{
			{1, 4, true, 6, 0, 1099},
			{1, 7, false, 6, 1099, 1099},
			{99, 7, false, 6, 1001, 1001},
			{100, 7, false, 6, 1000, 1000},
			{150, 6, true, 0, 0, 1050},
			{150, 4, false, 0, 950, 1050},
			{1001, 4, false, 0, 99, 199},
			{1099, 1, false, 0, 1, 101},
			{1100, 4, true, 0, 0, 1000},
			{1100, 1, false, 0, 100, 1000},
			{1199, 6, false, 0, 1, 901},
			{1200, 6, true, 0, 0, 1000},
			{2200, 10, true, 0, 0, 1000},
		} {
			b.now = start + step.at
			r, err := l.Allow(b.Context(), step.permits)
			want := rratelimiter.Result{Allowed: step.allowed, Name: l.Name(), Limit: 10,
				Interval: time.Second, Remaining: step.left,
				RetryAfter: time.Duration(step.retry) * time.Millisecond,
				ResetAfter: time.Duration(step.reset) * time.Millisecond}
			if !reflect.DeepEqual(r, want) || err != nil {
				b.Errorf("%d at %d: %+v, %v; want %+v", step.permits, step.at, r, err, want)
			}
		}
	})
}

// Records of Java, and of Go without a resolution, are left alone, in the same
// ms as well.
func TestRecordsOfOthersAreNotMerged(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 100, time.Second)
		others := []string{"\x10aaaaaaaaaaaaaaaa\x02\x00\x00\x00", "\x10\xd2Gozzzzzzzzzzzzz\x02\x00\x00\x00",
			"\x08abcdefgh\x03\x00\x00\x00"}
		for _, m := range others {
			l.record(b.now, m)
		}
		b.set(l.value(), 100-7)
		l.takes(5)
		m := l.coarse(50 * time.Millisecond)
		m.takes(1)
		m.takes(2)
		got := l.records(l.permits())
		slices.Sort(got)
		if !slices.Equal(got, []int64{2, 2, 3, 3, 5}) {
			b.Fatalf("records %v, want those of others, 5 of Go's own and 3 of the slot", got)
		}
		for _, m := range others {
			if score := b.look.ZScore(b.Context(), l.permits(), m).Val(); score != float64(b.now) {
				b.Errorf("% x at %.0f", m, score)
			}
		}
		l.keeps(100, l.value(), l.permits())
	})
}

func TestAResolutionOfAPerClientLimiter(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(perClient, 10, time.Second)
		for _, id := range []string{"a", "b"} {
			m := l.coarse(100*time.Millisecond, rratelimiter.WithID(id))
			for range 5 {
				m.takes(2)
			}
			m.refused(1, time.Second)
			value, permits := l.value()+":"+id, l.permits()+":"+id
			m.keeps(10, value, permits)
			if got := m.records(permits); len(got) != 1 {
				b.Fatalf("records %v, want one", got)
			}
			if ttl := b.look.PTTL(b.Context(), permits).Val(); ttl < 2*time.Second {
				b.Fatalf("%s lives for %v", permits, ttl)
			}
			m.gives(3)
			m.has(3)
		}
	})
}

// More than a record can hold is in several; nothing is lost, and there are no
// more than it takes.
func TestASlotBeyond32Bits(t *testing.T) {
	onBoth(t, func(b *bench) {
		const rate = 1 << 50
		l := b.limiter(overall, rate, time.Second)
		m := l.coarse(100 * time.Millisecond)
		taken := int64(0)
		for _, n := range []int64{5, 1 << 32, 1<<32 - 1, 7, 1 << 34, 1<<32 - 6, 3, 1<<32 - 1, 1, 1, 1} {
			m.takes(n)
			taken += n
			l.keeps(rate, l.value(), l.permits())
			m.has(rate - taken)
		}
		for range 30 {
			m.takes(1)
			taken++
		}
		if got, most := l.size(), 2*(taken/math.MaxUint32+1); got > most {
			b.Errorf("%d records %v for %d permits, want at most %d", got, l.records(l.permits()), taken,
				most)
		}
		m.gives(1 << 33)
		m.has(rate - taken + 1<<33)
		l.keeps(rate, l.value(), l.permits())
		b.now += 1100
		m.takes(1 << 40)
		l.keeps(rate, l.value(), l.permits())
	})
}

// A release takes out of the oldest of merged records, which are nobody's own. What is
// granted afterwards is merged again.
func TestAReleaseOutOfMergedRecords(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 100, time.Second)
		m, other := l.coarse(100*time.Millisecond), l.coarse(100*time.Millisecond)
		for _, step := range []struct {
			take, give int64
			later      int64
			records    string
		}{
			{10, 3, 1, "[7]"}, {5, 0, 1, "[7 5]"}, {5, 7, 100, "[10]"}, {4, 6, 0, "[4 4]"},
			{2, 1, 0, "[3 6]"}, {1, 100, 0, "[]"}, {6, 0, 0, "[6]"},
		} {
			m.takes(step.take)
			other.gives(step.give)
			if got := fmt.Sprint(l.records(l.permits())); got != step.records {
				b.Fatalf("%+v: records %s", step, got)
			}
			l.keeps(100, l.value(), l.permits())
			b.now += step.later
		}
	})
}

// Rates are set and updated as without a resolution.
func TestSettingARateWithAResolution(t *testing.T) {
	onBoth(t, func(b *bench) {
		m := b.limiter(overall, 10, time.Second).coarse(100 * time.Millisecond)
		m.takes(4)
		b.want(m.SetRate(b.Context(), overall, 20, time.Second, rratelimiter.WithKeepState()))
		m.takes(3)
		if got := fmt.Sprint(m.records(m.permits())); got != "[7]" {
			b.Fatalf("records %s, want [7]", got)
		}
		m.keeps(20, m.value(), m.permits())
		b.want(m.SetRate(b.Context(), overall, 5, 50*time.Millisecond,
			rratelimiter.WithKeepAlive(time.Minute)))
		m.takes(5)
		m.refused(1, 50*time.Millisecond)
		m.keeps(5, m.value(), m.permits())
		if ttl := b.look.PTTL(b.Context(), m.permits()).Val(); ttl < 59*time.Second {
			b.Errorf("the records live for %v", ttl)
		}
		b.want(m.SetRate(b.Context(), perClient, 3, time.Second))
		m.takes(3)
		m.refused(1, time.Second)
		b.want(m.Rename(b.Context(), redistest.Name(b)))
		m.refused(1, time.Second)
		b.now += 1000
		m.takes(3)
	})
}

// A resolution below 1 ms is refused by whatever is called first.
func TestAResolutionOutOfItsBounds(t *testing.T) {
	m := redistest.Mini(t)
	for _, d := range []time.Duration{-1, -time.Second, 1, time.Millisecond - 1} {
		c := rratelimiter.New(redistest.MiniClient(t, m), rratelimiter.WithResolution(d))
		for name, err := range everything(t.Context(), c.RateLimiter("l")) {
			if !errors.Is(err, rratelimiter.ErrInvalidArgument) {
				t.Errorf("%v, %s: %v", d, name, err)
			}
			wantText(t, err, "resolution", d.String(), "1ms")
		}
		_ = c.Close()
	}
}

// RateLimiters that are made for one call each ask together as well.
func TestThrowawayLimitersAskTogether(t *testing.T) {
	n := newLine(t, 30, time.Hour)
	p := &party{line: n, l: n.l}
	p.begins()
	var guests []*guest
	for range 20 {
		p.l = &limiter{n.client.RateLimiter(n.l.Name()), n.bench}
		guests = append(guests, p.comes(1, 0))
	}
	before := n.scriptsRun()
	p.open()
	p.agree(30, 29, guests)
	if calls := n.scriptsRun() - before; calls != 2 {
		t.Errorf("%d calls, want that of the first one and one for all others", calls)
	}
}
