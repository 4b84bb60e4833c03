package rratelimiter_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// expired returns a limiter of 1s with so many expired records of one permit,
// others that count, and so many permits left besides.
func (b *bench) expired(records, others int, left int64) *limiter {
	b.Helper()
	l := b.limiter(overall, int64(records+others)+left, time.Second)
	l.fill(b.now-2000, 100, records, 1)
	l.fill(b.now-500, 100, others, 1)
	b.set(l.value(), left)
	return l
}

// B16: an acquire for which there is enough removes 1,000 expired records, and
// leaves the others to the next calls; or all at once, if none counts. Where
// those are more than 4,000, they go in a call of their own.
func TestAnAcquireThatFitsRemovesAThousand(t *testing.T) {
	onBoth(t, func(b *bench) {
		calls := b.countScripts()
		for _, tc := range []struct {
			records, others int
			left            int64
			after           int64
			calls           int
		}{
			{5_000, 1, 10, 4_001, 1},
			{20_000, 300, 10, 19_300, 1},
			{4_000, 0, 10, 0, 1},
			{4_001, 0, 10, 0, 2},
			{20_000, 0, 10, 0, 2},
			{1_001, 1, 10, 2, 1},
			{1_000, 1, 10, 1, 1},
		} {
			l := b.expired(tc.records, tc.others, tc.left)
			calls()
			l.takes(2) // the script may have to be sent whole, but once
			if n := calls(); n != tc.calls || l.size() != tc.after+1 {
				b.Fatalf("%+v: %d calls have left %d records, want %d", tc, n, l.size(), tc.after+1)
			}
			l.keeps(int64(tc.records+tc.others)+tc.left, l.value(), l.permits())
		}
	})
}

// B16: an acquire that needs what has expired gets it in several calls, and is
// refused only when all of it has been counted.
func TestAnAcquireThatNeedsThemAllAsksAgain(t *testing.T) {
	onBoth(t, func(b *bench) {
		calls := b.countScripts()
		for _, tc := range []struct {
			records, others int
			permits         int64
			granted         bool
			calls           int
		}{
			{5_000, 1, 5_010, true, 5},
			{5_000, 1, 5_011, false, 5},
			{5_500, 20, 5_510, true, 6},
			{5_500, 20, 3_010, true, 3},
			{12_000, 700, 12_011, false, 12},
			{12_000, 0, 12_010, true, 2},
			{3_000, 0, 3_010, true, 1},
		} {
			l := b.expired(tc.records, tc.others, 10)
			calls()
			ok, err := l.TryAcquire(b.Context(), tc.permits, 0)
			if n := calls(); ok != tc.granted || err != nil || n != tc.calls {
				b.Fatalf("%+v: %v, %v in %d calls", tc, ok, err, n)
			}
			l.keeps(int64(tc.records+tc.others+10), l.value(), l.permits())
		}
	})
}

// Whatever is asked while thousands have expired, the answers are those of a
// ledger: never a false no, never too much.
func TestAnswersWhileThousandsHaveExpired(t *testing.T) {
	for seed := range uint64(2) {
		onBoth(t, func(b *bench) {
			random := rand.New(rand.NewPCG(seed, 1))
			const records, rate = 6_000, 7_000
			l := b.limiter(overall, rate, time.Second)
			exact := &ledger{rate: rate, interval: 1000}
			l.fill(b.now, 5, records, 1)
			for i := range int64(records) {
				exact.grants = append(exact.grants, grant{b.now + i/5, 1})
			}
			b.set(l.value(), rate-records)
			b.now += 1200
			for range 30 {
				b.now += random.Int64N(80)
				n := 1 + random.Int64N(200)
				if random.IntN(4) == 0 {
					n = 1 + random.Int64N(rate)
				}
				want := exact.wait(b.now, n)
				r, err := l.Allow(b.Context(), n)
				if err != nil || r.Allowed != (want == 0) || r.RetryAfter != want && l.size() < 5000 {
					b.Fatalf("seed %d: %d at %d: %+v, %v; want a wait of %v", seed, n, b.now, r, err, want)
				}
				if r.Allowed {
					exact.grants = append(exact.grants, grant{b.now, n})
				}
				l.keeps(rate, l.value(), l.permits())
			}
		})
	}
}

// Peek is exact where few records count, however many have expired. Otherwise it
// counts each that has expired beyond the first thousand as one permit. It writes
// nothing.
func TestPeekWithThousandsExpired(t *testing.T) {
	onBoth(t, func(b *bench) {
		for _, tc := range []struct {
			records, others int
			permits         byte // of each expired record
			want            int64
		}{
			{5_000, 3, 1, 5_010},
			{5_000, 3, 2, 10_010},
			{5_000, 1_000, 2, 10_010},
			{5_000, 1_001, 2, 2*1_000 + 4_000 + 10},
			{900, 3, 2, 2*900 + 10},
			{5_000, 0, 2, 10_010}, // none counts: full
		} {
			l := b.limiter(overall, int64(tc.records)*int64(tc.permits)+int64(tc.others)+10, time.Second)
			l.fill(b.now-2000, 100, tc.records, tc.permits)
			l.fill(b.now-500, 100, tc.others, 1)
			b.set(l.value(), 10)
			before := l.dump()
			l.has(tc.want)
			r, err := l.Peek(b.Context())
			reset := time.Duration(0)
			if tc.others > 0 {
				reset = time.Duration(500+(tc.others-1)/100) * time.Millisecond
			}
			if err != nil || !r.Allowed || r.Remaining != tc.want || r.ResetAfter != reset {
				b.Fatalf("%+v: %+v, %v", tc, r, err)
			}
			if l.dump() != before {
				b.Fatalf("%+v: peek has written", tc)
			}
		}
	})
}

// B16: one call gives back out of 2,000 records; all of it is given back.
func TestAReleaseOfManyRecords(t *testing.T) {
	onBoth(t, func(b *bench) {
		calls := b.countScripts()
		for _, tc := range []struct {
			permits, left int64
			calls         int
		}{{9_999, 1, 5}, {2_001, 7_999, 2}, {50_000, 0, 5}} {
			l := b.limiter(overall, 10_000, time.Second)
			l.fill(b.now-500, 100, 10_000, 1)
			b.set(l.value(), 0)
			calls()
			l.gives(tc.permits)
			if n := calls(); n != tc.calls || l.size() != tc.left {
				b.Fatalf("%+v: %d records left after %d calls", tc, l.size(), n)
			}
			l.keeps(10_000, l.value(), l.permits())
		}
	})
}

// B4: it is given back once, whichever replies are lost.
func TestAReleaseOfManyRecordsIsDoneOnce(t *testing.T) {
	for _, which := range []int{0, 2, 4, 5} {
		n := newLine(t, 20_000, time.Hour)
		n.l.fill(n.now-500, 100, 10_000, 1)
		n.set(n.l.value(), 10_000)
		seen := 0
		n.proxy.SwallowReplyTo(3, func(args []string) bool {
			if isScript(args) {
				seen++
			}
			return seen == which+1 || which == 5
		})
		n.l.gives(9_000)
		if got := n.l.size(); got != 1_000 || n.proxy.Swallowed() == 0 {
			t.Fatalf("reply %d lost: %d records left, want 1000", which, got)
		}
		n.l.keeps(20_000, n.l.value(), n.l.permits())
	}
}

// For permits that lie behind more than 5,000 records RetryAfter is when all records
// are back. It is never too early.
func TestADeepWaitIsNeverTooShort(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 8_000, 10*time.Second)
		l.fill(b.now, 1, 8_000, 1)
		b.set(l.value(), 0)
		start := b.now
		b.now += 8_000
		l.refused(4_000, 5_999*time.Millisecond) // exact: the record of 3999 ms
		l.refused(5_000, 6_999*time.Millisecond)
		l.refused(5_001, 9_999*time.Millisecond) // it looks no further than 5,000
		l.refused(7_000, 9_999*time.Millisecond)
		b.now = start + 14_999
		l.refused(7_000, 2_000*time.Millisecond)
		b.now += 1_999
		l.refused(7_000, time.Millisecond)
		b.now++
		l.takes(7_000)
		l.keeps(8_000, l.value(), l.permits())
	})
}

// B16: with 200,000 expired records no call of a real server looks at more than
// its share.
func TestNoCallBlocksRedis(t *testing.T) {
	const records = 200_000
	s := redistest.Start(t)
	b := newBench(t, s.Client(t), s.Admin())
	b.want(b.look.ConfigSet(t.Context(), "slowlog-log-slower-than", "0").Err())
	for _, others := range []int{0, 1} {
		l := b.expired(records, others, 100)
		b.want(b.look.SlowLogReset(t.Context()).Err())
		last := l.size()
		take := func() { l.takes(1) }
		ask := []func(){take, func() { l.gives(1) }, func() { b.want(errOf(l.Peek(t.Context()))) }, take}
		for i := range 8 {
			ask[i%len(ask)]()
			size := l.size()
			if last-size > 1_001 && (others > 0 || size > 2) {
				t.Fatalf("%d records: a call has left %d of %d", records, size, last)
			}
			last = size
		}
		ok, err := l.TryAcquire(t.Context(), 20_000, 0)
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		l.keeps(records+int64(others)+100, l.value(), l.permits())
		longest := time.Duration(0)
		for _, entry := range b.look.SlowLogGet(t.Context(), -1).Val() {
			if strings.EqualFold(entry.Args[0], "evalsha") {
				longest = max(longest, entry.Duration)
			}
		}
		if longest == 0 {
			t.Error("the slow log has no script")
		}
		t.Logf("%d expired records, %d that count: the longest script took %v", records, others, longest)
	}
}

// Beyond 10,000 records a value that others have left too high is kept below
// what so many records allow.
func TestAValueTooHighOverTenThousandRecords(t *testing.T) {
	onBoth(t, func(b *bench) {
		const rate = 20_000
		l := b.limiter(overall, rate, time.Second)
		l.fill(b.now-1000, 1, 1, 1)
		l.fill(b.now-500, 100, 10_500, 1)
		b.set(l.value(), rate) // Java: release(10501)
		if ok, err := l.TryAcquire(b.Context(), rate-10_500+1, 0); ok || err != nil {
			b.Fatal(ok, err)
		}
		l.takes(rate - 10_500)
		l.keeps(rate, l.value(), l.permits())
	})
}

// A value that others have left too high gives nobody more than the rate, also
// while expired records are still to be counted.
func TestAValueTooHighWhileThousandsHaveExpired(t *testing.T) {
	onBoth(t, func(b *bench) {
		const rate = 20_000
		l := b.limiter(overall, rate, time.Second)
		l.fill(b.now-2000, 100, 3_000, 1)
		l.fill(b.now, 1, 1, 1)
		b.set(l.value(), rate) // Java: release(3001)
		ok, err := l.TryAcquire(b.Context(), rate+500, 0)
		if ok || !errors.Is(err, rratelimiter.ErrPermitsExceedRate) {
			b.Errorf("%v, %v; want ErrPermitsExceedRate", ok, err)
		}
	})
}

// B12: thousands of records of no permits delay nobody.
func TestThousandsOfRecordsOfNothing(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 100, time.Second)
		l.fill(b.now, 100, 21_000, 0)
		b.set(l.value(), 100)
		b.now += 1005
		l.takes(100)
	})
}

// Drift that others have left is gone an interval later, also when more records
// expire at once than a call counts.
func TestDriftIsRepairedWhileThousandsExpire(t *testing.T) {
	onBoth(t, func(b *bench) {
		const rate = 5_000
		l := b.limiter(overall, rate, time.Second)
		l.fill(b.now-1, 1000, 1000, 1)
		l.fill(b.now+1, 500, 500, 1)
		b.set(l.value(), rate-1500-100) // Java: a request for 100 that was sent twice
		for range 5 {
			l.fill(b.now+999, 1000, 1000, 1)
			l.fill(b.now+1001, 500, 500, 1)
			b.want(b.look.DecrBy(b.Context(), l.value(), 1500).Err())
			b.now += 1002 // the older 1,500 have expired
			l.takes(1)
			l.takes(1)
			b.now -= 2
		}
		value, err := b.look.Get(b.Context(), l.value()).Int64()
		if value+l.size() != rate { // records of one permit each
			b.Fatalf("value %d, %v with %d records, together not %d", value, err, l.size(), rate)
		}
	})
}
