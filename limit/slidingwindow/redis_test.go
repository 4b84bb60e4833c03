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
	l := redistest.Must(a.OnRedis(rdb, "name"))(t)
	return l
}

// allow expects that n permits are granted, or not.
func allow(t *testing.T, l limit.Limiter, n int64, want bool) limit.Result {
	t.Helper()
	r, err := l.Allow(t.Context(), n)
	if err != nil || r.Allowed != want {
		t.Fatalf("Allow(%d): %+v, %v; want %v", n, r, err, want)
	}
	return r
}

// A maker returns an algorithm.
type maker = func(rate int64, interval time.Duration) formtest.Algorithm

// each runs a test for a Log and for Counters.
func each(t *testing.T, test func(t *testing.T, of maker)) {
	t.Helper()
	for name, of := range map[string]maker{
		"Log": func(rate int64, interval time.Duration) formtest.Algorithm {
			return slidingwindow.Log{Rate: rate, Interval: interval}
		},
		"Counter": func(rate int64, interval time.Duration) formtest.Algorithm {
			return slidingwindow.Counter{Rate: rate, Interval: interval}
		},
		"Counter of 1 part": func(rate int64, interval time.Duration) formtest.Algorithm {
			return slidingwindow.Counter{Rate: rate, Interval: interval, Parts: 1}
		},
	} {
		t.Run(name, func(t *testing.T) { test(t, of) })
	}
}

// A limiter whose numbers are changed goes on with what was taken before.
func TestOtherNumbers(t *testing.T) {
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
				allow(t, on(t, rdb, of(10, time.Minute)), 10, true)
				now := on(t, rdb, of(to.rate, to.interval))
				r := allow(t, now, to.rate-9, false)
				if r.Remaining != to.rate-10 || r.RetryAfter <= 0 ||
					r.ResetAfter > 2*max(to.interval, time.Minute) {
					t.Errorf("now %d in %v: %+v", to.rate, to.interval, r)
				}
				time.Sleep(r.RetryAfter - time.Microsecond)
				allow(t, now, to.rate-9, false)
				time.Sleep(time.Microsecond)
				allow(t, now, to.rate-9, true)
				time.Sleep(2 * max(to.interval, time.Minute))
				allow(t, now, to.rate, true)
			})
		}
		synctest.Test(t, func(t *testing.T) { // fewer permits than were taken
			rdb := redistest.MiniClient(t, redistest.Mini(t))
			allow(t, on(t, rdb, of(10, time.Minute)), 10, true)
			now := on(t, rdb, of(4, time.Minute))
			if r := allow(t, now, 4, false); r.Remaining != 0 {
				t.Errorf("4 instead of 10: %+v", r)
			}
			if err := now.Release(t.Context(), 3); err != nil {
				t.Error(err)
			}
			allow(t, now, 1, false) // 7 are out
		})
	})
}

// poll takes one permit after the other of each limiter, at a pace, and returns how many
// were granted.
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

// Versions of a Counter with other parts share a name, as during a deploy: permits come
// back, however often parts become others.
func TestManyPartsAtATime(t *testing.T) {
	for _, parts := range []int{1, 3, 7, 100} {
		synctest.Test(t, func(t *testing.T) {
			rdb := redistest.MiniClient(t, redistest.Mini(t))
			one := on(t, rdb, slidingwindow.Counter{Rate: 10, Interval: time.Second})
			other := on(t, rdb, slidingwindow.Counter{Rate: 10, Interval: time.Second, Parts: parts})
			if n := poll(t, 10*time.Millisecond, 4*time.Second, one, other); n < 20 || n > 50 {
				t.Errorf("10 and %d parts: %d permits in 4 s, want about 40", parts, n)
			}
		})
	}
}

// Versions with other intervals share a name, as during a deploy: what the longer interval
// has given out stays so, whoever calls meanwhile. Each keeps its own bound.
func TestManyIntervalsAtATime(t *testing.T) {
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
				t.Errorf("40 in an hour gives out %d", long)
			}
			time.Sleep(2 * time.Hour) // then each is alone
			allow(t, second, 40, true)
			time.Sleep(2 * time.Second)
			allow(t, second, 40, true)
		})
	})
}

// A Counter may have other parts from now on.
func TestOtherParts(t *testing.T) {
	for _, parts := range []int{1, 3, 7, 100} {
		synctest.Test(t, func(t *testing.T) {
			rdb := redistest.MiniClient(t, redistest.Mini(t))
			old := on(t, rdb, slidingwindow.Counter{Rate: 10, Interval: time.Minute})
			for range 10 {
				allow(t, old, 1, true)
				time.Sleep(6 * time.Second)
			}
			now := on(t, rdb, slidingwindow.Counter{Rate: 10, Interval: time.Minute, Parts: parts})
			// What is not known exactly counts for later: less than a part of both is late.
			if r := allow(t, now, 10, false); parts > 1 && r.Remaining > 2 {
				t.Errorf("%d parts: %+v", parts, r)
			}
			time.Sleep(2 * time.Minute)
			allow(t, now, 10, true)
		})
	}
}

// The clock of Redis is set back: what was taken comes back an interval later at the
// latest, and not before its time.
func TestTheClockOfRedisIsSetBack(t *testing.T) {
	server, set := redistest.StartClocked(t)
	rdb := server.Client(t)
	each(t, func(t *testing.T, of maker) {
		l := redistest.Must(of(10, time.Hour).OnRedis(rdb, redistest.Name(t)))(t)
		set(0)
		allow(t, l, 10, true)
		set(-10 * time.Hour)
		if r := allow(t, l, 10, false); r.Remaining > 0 || r.ResetAfter > 2*time.Hour {
			t.Errorf("%+v", r)
		}
		set(-10*time.Hour + allow(t, l, 10, false).ResetAfter)
		allow(t, l, 10, true)
	})
}

// Data that cannot be read counts as a rate that was just taken, so that the bound is kept,
// and is gone when that has come back.
func TestUnreadableDataCountsAsARate(t *testing.T) {
	each(t, func(t *testing.T, of maker) {
		synctest.Test(t, func(t *testing.T) {
			m := redistest.Mini(t)
			rdb := redistest.MiniClient(t, m)
			l := on(t, rdb, of(10, time.Minute))
			allow(t, l, 1, true)
			key := m.Keys()[0]
			if rdb.Type(t.Context(), key).Val() == "zset" {
				rdb.ZAdd(t.Context(), key, redis.Z{Score: 1e300, Member: "x"})
			} else {
				rdb.Set(t.Context(), key, "x", 0)
			}
			r := allow(t, l, 1, false)
			time.Sleep(r.ResetAfter)
			allow(t, l, 10, true)
		})
	})
}

// The records of a Log are at most 1,001, also when there are more grants: then permits
// come back up to a thousandth of the interval late.
func TestALogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		rdb := redistest.MiniClient(t, m)
		l := on(t, rdb, slidingwindow.Log{Rate: 1250, Interval: time.Second})
		first := time.Now()
		for range 1250 {
			allow(t, l, 1, true)
			time.Sleep(600 * time.Microsecond)
		}
		if n := rdb.ZCard(t.Context(), m.Keys()[0]).Val(); n > 1001 {
			t.Errorf("%d records", n)
		}
		wait := allow(t, l, 1250, false)
		if late := time.Until(first.Add(1249*600*time.Microsecond + time.Second)); wait.ResetAfter != late {
			t.Errorf("all are back after %v, want %v", wait.ResetAfter, late)
		}
		late := allowAfter(t, l).Sub(first.Add(time.Second))
		if late < 0 || late > time.Millisecond {
			t.Errorf("the first permit came back %v late", late)
		}
	})
}

// allowAfter takes all that is left, and returns when the next permit comes back.
func allowAfter(t *testing.T, l limit.Limiter) time.Time {
	t.Helper()
	for {
		r := redistest.Must(l.Allow(t.Context(), 1))(t)
		if !r.Allowed {
			return time.Now().Add(r.RetryAfter)
		}
	}
}

// The clock of Redis is set back to the very time of a record: there is one then.
func TestSetBackToTheTimeOfARecord(t *testing.T) {
	m := redistest.Mini(t)
	l := on(t, redistest.MiniClient(t, m), slidingwindow.Log{Rate: 12, Interval: time.Minute})
	start := time.Unix(1_999_999_999, 0)
	m.SetTime(start)
	allow(t, l, 9, true)
	m.SetTime(start.Add(time.Second))
	allow(t, l, 3, true)
	m.SetTime(start)
	for range 2 {
		if r := allow(t, l, 1, false); r.Remaining > 0 || r.RetryAfter != time.Minute {
			t.Errorf("%+v", r)
		}
	}
}

// The sums of a Log begin anew where floats would lose permits.
func TestSumsBeginAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		rdb := redistest.MiniClient(t, m)
		l := on(t, rdb, slidingwindow.Log{Rate: 10, Interval: time.Minute})
		now := float64(time.Now().UnixMicro())
		rdb.ZAdd(t.Context(), "{name}:slidinglog", redis.Z{Score: now, Member: "281474976710653:3"})
		for left := range int64(3) {
			time.Sleep(time.Second)
			if r := allow(t, l, 2, true); r.Remaining != 5-2*left {
				t.Errorf("%+v, want %d left", r, 5-2*left)
			}
		}
		if r := allow(t, l, 5, false); r.RetryAfter != 58*time.Second {
			t.Errorf("%+v", r)
		}
		redistest.NoError(t, l.Release(t.Context(), 3))
		allow(t, l, 4, true)
		allow(t, l, 1, false)
	})
}
