package slidingwindow_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/slidingwindow"
)

// on returns a limiter on Redis.
func on(t *testing.T, rdb redis.UniversalClient, a formtest.Algorithm) limit.Releaser {
	t.Helper()
	return redistest.Must(a.OnRedis(rdb, "name"))(t)
}

// each runs a test for a Log and for Counters.
func each(t *testing.T, test func(t *testing.T, of maker)) {
	t.Helper()
	for name, of := range map[string]maker{
		"Log": log, "Counter": counterOf(0), "Counter of 1 part": counterOf(1),
	} {
		t.Run(name, func(t *testing.T) { test(t, of) })
	}
}

// A limiter with changed numbers keeps the permits that were taken before.
func TestAChangeOfNumbersKeepsWhatWasTaken(t *testing.T) {
	each(t, func(t *testing.T, of maker) {
		for _, to := range []struct {
			rate     int64
			interval time.Duration
		}{
			{20, time.Minute},
			{20, time.Hour},
			{5000, time.Minute},
			{20, 17 * time.Second},
			{20, time.Second},
		} {
			synctest.Test(t, func(t *testing.T) {
				rdb := redistest.MiniClient(t, redistest.Mini(t))
				formtest.Allow(t, on(t, rdb, of(10, time.Minute)), 10, true)
				now := on(t, rdb, of(to.rate, to.interval))
				r := formtest.Allow(t, now, to.rate-9, false)
				if r.Remaining != to.rate-10 || r.RetryAfter <= 0 ||
					r.ResetAfter > 2*max(to.interval, time.Minute) {
					t.Errorf("now %d in %v: %+v", to.rate, to.interval, r)
				}
				time.Sleep(r.RetryAfter - time.Microsecond)
				formtest.Allow(t, now, to.rate-9, false)
				time.Sleep(time.Microsecond)
				formtest.Allow(t, now, to.rate-9, true)
				time.Sleep(2 * max(to.interval, time.Minute))
				formtest.Allow(t, now, to.rate, true)
			})
		}
		synctest.Test(t, func(t *testing.T) { // fewer permits than are out
			rdb := redistest.MiniClient(t, redistest.Mini(t))
			formtest.Allow(t, on(t, rdb, of(10, time.Minute)), 10, true)
			now := on(t, rdb, of(4, time.Minute))
			if r := formtest.Allow(t, now, 4, false); r.Remaining != 0 {
				t.Errorf("4 instead of 10: %+v", r)
			}
			redistest.NoError(t, now.Release(t.Context(), 3))
			formtest.Allow(t, now, 1, false) // 7 are out
		})
	})
}

// poll takes permits of limiters in turn, at a pace, and returns how many were granted.
func poll(t *testing.T, pace, lasts time.Duration, all ...limit.Limiter) (granted int64) {
	t.Helper()
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		for _, l := range all {
			r := redistest.Must(l.Allow(t.Context(), 1))(t)
			if r.Allowed {
				granted++
			}
			time.Sleep(pace)
		}
	}
	return granted
}

// Counters with other parts may share a name, as during a deploy: permits come back however often one
// kind of parts is converted to the other, and an hour later a change costs less than a part of both.
func TestCountersWithOtherPartsShareALimit(t *testing.T) {
	for _, parts := range []int{1, 3, 7, 100} {
		synctest.Test(t, func(t *testing.T) {
			rdb := redistest.MiniClient(t, redistest.Mini(t))
			one := on(t, rdb, formtest.Of(slidingwindow.Counter{Rate: 10, Interval: time.Second}))
			other := on(t, rdb, counterOf(parts)(10, time.Second))
			if n := poll(t, 10*time.Millisecond, 4*time.Second, one, other); n < 20 || n > 50 {
				t.Errorf("10 and %d parts: %d permits in 4 s, want about 40", parts, n)
			}
			time.Sleep(time.Hour)
			for range 10 {
				formtest.Allow(t, one, 1, true)
				time.Sleep(100 * time.Millisecond)
			}
			if r := formtest.Allow(t, other, 10, false); parts > 1 && r.Remaining > 2 {
				t.Errorf("%d parts: %+v", parts, r)
			}
			time.Sleep(2 * time.Second)
			formtest.Allow(t, other, 10, true)
		})
	}
}

// Limiters with other intervals may share a name, as during a deploy: permits of the longer interval stay
// taken, whichever limiter calls meanwhile. Each keeps its own bound.
func TestTheLongerIntervalHolds(t *testing.T) {
	each(t, func(t *testing.T, of maker) {
		synctest.Test(t, func(t *testing.T) {
			rdb := redistest.MiniClient(t, redistest.Mini(t))
			hour, second := on(t, rdb, of(40, time.Hour)), on(t, rdb, of(40, time.Second))
			long, short := int64(0), int64(0)
			for range 15 {
				long += poll(t, time.Millisecond, 50*time.Millisecond, hour)
				short += poll(t, time.Millisecond, time.Millisecond, second)
				time.Sleep(30 * time.Second)
			}
			if long > 40 {
				t.Errorf("a limit of 40 in an hour grants %d", long)
			}
			time.Sleep(2 * time.Hour) // then each is alone
			formtest.Allow(t, second, 40, true)
			time.Sleep(2 * time.Second)
			formtest.Allow(t, second, 40, true)
		})
	})
}

// After the clock of Redis is set back, permits come back within an interval, and not before their time.
func TestTheClockOfRedisIsSetBack(t *testing.T) {
	server, set := redistest.StartClocked(t)
	rdb := server.Client(t)
	each(t, func(t *testing.T, of maker) {
		l := redistest.Must(of(10, time.Hour).OnRedis(rdb, redistest.Name(t)))(t)
		set(0)
		formtest.Allow(t, l, 10, true)
		set(-10 * time.Hour)
		if r := formtest.Allow(t, l, 10, false); r.Remaining > 0 || r.ResetAfter > 2*time.Hour {
			t.Errorf("%+v", r)
		}
		set(-10*time.Hour + formtest.Allow(t, l, 10, false).ResetAfter)
		formtest.Allow(t, l, 10, true)
	})
}

// Unreadable data count as a rate that was just taken, so that the bound holds, and go when that rate has
// come back.
func TestUnreadableDataCountsAsARate(t *testing.T) {
	each(t, func(t *testing.T, of maker) {
		synctest.Test(t, func(t *testing.T) {
			m := redistest.Mini(t)
			rdb := redistest.MiniClient(t, m)
			l := on(t, rdb, of(10, time.Minute))
			formtest.Allow(t, l, 1, true)
			key := m.Keys()[0]
			if rdb.Type(t.Context(), key).Val() == "zset" {
				rdb.ZAdd(t.Context(), key, redis.Z{Score: 1e300, Member: "x"})
			} else {
				rdb.Set(t.Context(), key, "x", 0)
			}
			r := formtest.Allow(t, l, 1, false)
			time.Sleep(r.ResetAfter)
			formtest.Allow(t, l, 10, true)
		})
	})
}

// A Log of more than 1,000 grants has at most 1,001 records: then permits come back up to a thousandth of
// the interval late.
func TestALogHasABoundedNumberOfRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		rdb := redistest.MiniClient(t, m)
		l := on(t, rdb, formtest.Of(slidingwindow.Log{Rate: 1250, Interval: time.Second}))
		first := time.Now()
		for range 1250 {
			formtest.Allow(t, l, 1, true)
			time.Sleep(600 * time.Microsecond)
		}
		if n := rdb.ZCard(t.Context(), m.Keys()[0]).Val(); n > 1001 {
			t.Errorf("%d records", n)
		}
		wait := formtest.Allow(t, l, 1250, false)
		if late := time.Until(first.Add(1249*600*time.Microsecond + time.Second)); wait.ResetAfter != late {
			t.Errorf("all are back after %v, want %v", wait.ResetAfter, late)
		}
		next := time.Now().Add(formtest.Allow(t, l, 1, false).RetryAfter)
		if late := next.Sub(first.Add(time.Second)); late < 0 || late > time.Millisecond {
			t.Errorf("the first permit came back %v late", late)
		}
	})
}

// A clock that is set back to the very time of a record leaves one record.
func TestAClockSetBackToTheTimeOfARecord(t *testing.T) {
	m := redistest.Mini(t)
	l := on(t, redistest.MiniClient(t, m), formtest.Of(slidingwindow.Log{Rate: 12, Interval: time.Minute}))
	start := time.Unix(1_999_999_999, 0)
	m.SetTime(start)
	formtest.Allow(t, l, 9, true)
	m.SetTime(start.Add(time.Second))
	formtest.Allow(t, l, 3, true)
	m.SetTime(start)
	for range 2 {
		if r := formtest.Allow(t, l, 1, false); r.Remaining > 0 || r.RetryAfter != time.Minute {
			t.Errorf("%+v", r)
		}
	}
}

// The sums of a Log start over before floats would lose permits.
func TestSumsStartOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		rdb := redistest.MiniClient(t, m)
		l := on(t, rdb, formtest.Of(slidingwindow.Log{Rate: 10, Interval: time.Minute}))
		now := float64(time.Now().UnixMicro())
		rdb.ZAdd(t.Context(), "{name}:slidinglog", redis.Z{Score: now, Member: "281474976710653:3"})
		for left := range int64(3) {
			time.Sleep(time.Second)
			if r := formtest.Allow(t, l, 2, true); r.Remaining != 5-2*left {
				t.Errorf("%+v, want %d left", r, 5-2*left)
			}
		}
		if r := formtest.Allow(t, l, 5, false); r.RetryAfter != 58*time.Second {
			t.Errorf("%+v", r)
		}
		redistest.NoError(t, l.Release(t.Context(), 3))
		formtest.Allow(t, l, 4, true)
		formtest.Allow(t, l, 1, false)
	})
}
