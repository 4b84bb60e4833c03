package fallback_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// learns has the Client of a limiter grant once more, and learn how many Clients there
// are.
func learns(c *Limiter) {
	c.Helper()
	c.Sleep(11 * time.Second)
	c.Took(1, 0, 0)
	c.Sleep(10 * time.Millisecond)
	NoError(c.T, c.Release(c.Context(), 1))
	c.Sleep(2 * time.Second)
}

// begins sets 10 permits in an interval, and returns when the Client knows it and all are
// there.
func startsInterval(c *Limiter, interval time.Duration) {
	c.Helper()
	NoError(c.T, c.SetRate(c.Context(), Overall, 10, interval))
	learns(c)
	c.Sleep(interval)
}

// outage lets Redis be away, and be known to be.
func outage(c *Limiter) (ends func()) {
	c.Helper()
	open := c.Gate.Shut()
	for range 3 {
		decides(c, c.WithFallback(rratelimiter.FallbackDeny), 0, "false", budget)
	}
	return open
}

// Without Redis a Client grants its share: all clients together the rate.
func TestAllClientsTogetherGrantTheRate(t *testing.T) {
	for _, tt := range []struct {
		name    string
		rate    int64
		clients int
		opts    []rratelimiter.Option
		want    int
	}{
		{"alone", 10, 1, nil, 10},
		{"one of two", 10, 2, nil, 5},
		{"one of three", 10, 3, nil, 3},
		{"one of ten", 10, 10, nil, 1},
		{"fixed", 10, 3, []rratelimiter.Option{rratelimiter.WithLocalShare(0.7)}, 7},
		{"less than a permit", 2, 5, nil, 1},
	} {
		fallsBack(t, tt.rate, rratelimiter.FallbackLocal, func(c *Limiter) {
			for range tt.clients - 1 {
				c.Other().Took(1, time.Minute, 0)
				c.Sleep(time.Second)
			}
			learns(c)
			end := outage(c)
			if n := TakeAll(c, c.RateLimiter); n != tt.want {
				t.Errorf("%s: %d granted, want %d", tt.name, n, tt.want)
			}
			end()
			c.Sleep(time.Minute)
			c.HasTaken(0)
		}, tt.opts...)
	}
}

// A Client that gives back what Java took is no more Clients than before.
func TestAReleaseOfPermitsOfJavaHalvesNoShare(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *Limiter) {
		NoError(c.T, c.SetRate(c.Context(), Overall, 10, 20*time.Second))
		c.JavaTakes(1, 3, time.Now().UnixMilli())
		NoError(c.T, c.Release(c.Context(), 3))
		learns(c)
		end := outage(c)
		if n := TakeAll(c, c.RateLimiter); n != 10 {
			t.Errorf("%d granted, want 10", n)
		}
		end()
		c.Sleep(time.Minute)
	})
}

// Each client of a PER_CLIENT limit has all of it.
func TestEachClientOfAPerClientLimitGrantsItsRate(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *Limiter) {
		NoError(c.T, c.SetRate(c.Context(), PerClient, 4, time.Second))
		c.Other().Took(1, 0, 0)
		learns(c)
		end := outage(c)
		if n := TakeAll(c, c.RateLimiter); n != 4 {
			t.Errorf("%d granted, want 4", n)
		}
		end()
		c.Sleep(300 * time.Millisecond)
		c.HasTaken(4)
		c.Sleep(time.Minute)
		c.HasTaken(0)
	})
}

// What Redis granted within the last interval counts against the share, so that an
// outage does not begin with a second window.
func TestGrantsBeforeAnOutageCount(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *Limiter) {
		startsInterval(c, 10*time.Second)
		c.Took(7, 0, 0)
		end := outage(c)
		if n := TakeAll(c, c.RateLimiter); n != 3 {
			t.Errorf("%d granted, want 3", n)
		}
		end()
		c.Sleep(time.Minute)
	})
}

// Without Redis callers wait for permits as long as they may, in this process.
func TestCallersWaitWithoutRedis(t *testing.T) {
	fallsBack(t, 2, rratelimiter.FallbackLocal, func(c *Limiter) {
		end := outage(c)
		const slot = time.Second / 32
		decides(c, c.RateLimiter, 0, "true", 0)
		decides(c, c.RateLimiter, 0, "true", 0)
		decides(c, c.RateLimiter, 0, "false", 0)
		decides(c, c.RateLimiter, 500*time.Millisecond, "false", 500*time.Millisecond)
		decides(c, c.RateLimiter, time.Minute, "true", 500*time.Millisecond+slot+time.Microsecond)
		ctx, cancel := context.WithTimeout(c.Context(), 300*time.Millisecond)
		defer cancel()
		visit := c.Comes(ctx, 2, time.Minute)
		c.Sleep(2 * time.Second)
		if v := visit(); !errors.Is(v.Err, context.DeadlineExceeded) || v.After != 300*time.Millisecond {
			t.Errorf("%+v; want the end of the context", v)
		}
		WantErr(t, ErrOf(c.TryAcquire(c.Context(), 3, 0)), rratelimiter.ErrPermitsExceedRate)
		// One that wants more than there will be soon asks Redis when that is back.
		c.Took(2, time.Minute, 0)
		back := c.Comes(c.Context(), 2, time.Minute)
		c.Sleep(100 * time.Millisecond)
		end()
		c.Sleep(10 * time.Second)
		if v := back(); !v.OK || c.Client.Health().Decided != 3+6 {
			t.Errorf("%+v, %+v", v, c.Client.Health())
		}
	})
}

// What was granted without Redis is booked when that is back: an outage does not end in
// a second window. It counts from the time at which it was granted.
func TestGrantsOfAnOutageAreBooked(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *Limiter) {
		startsInterval(c, 10*time.Second)
		end := outage(c)
		c.Took(4, 0, 0)
		c.Sleep(5 * time.Second)
		c.Took(3, 0, 0)
		NoError(c.T, c.Release(c.Context(), 1)) // also what is given back
		if h := c.Client.Health(); !h.Degraded || h.Unbooked != 6 {
			t.Errorf("%+v; want 6 unbooked", h)
		}
		end()
		c.Sleep(3 * time.Second)
		if h := c.Client.Health(); h.Degraded || h.Unbooked != 0 {
			t.Errorf("%+v; want all booked", h)
		}
		c.HasTaken(6)
		if n := TakeAll(c, c.RateLimiter); n != 4 {
			t.Errorf("%d granted by Redis, want 4", n)
		}
		c.Sleep(2500 * time.Millisecond)
		c.HasTaken(6) // the first 4 are back
		c.Sleep(5 * time.Second)
		c.HasTaken(4)
		c.Sleep(time.Minute)
		c.HasTaken(0)
	})
}

// Redis comes back empty. What was granted without it is booked as soon as there is a
// rate again, as long as it counts.
func TestGrantsOfAnOutageOutliveTheLimiter(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *Limiter) {
		startsInterval(c, 10*time.Second)
		end := outage(c)
		c.Took(6, 0, 0)
		c.Mini.FlushAll()
		end()
		c.Sleep(3 * time.Second)
		WantErr(t, ErrOf(c.TryAcquire(c.Context(), 1, 0)), rratelimiter.ErrNotInitialized)
		NoError(c.T, ErrOf(c.TrySetRate(c.Context(), Overall, 10, 10*time.Second)))
		c.Sleep(1300 * time.Millisecond) // the longest pause between probes is 1.25 s
		c.HasTaken(6)
		c.Sleep(10 * time.Second)
		c.HasTaken(0)
		if h := c.Client.Health(); h.Degraded || h.Unbooked != 0 {
			t.Errorf("%+v", h)
		}
	})
}

// A process starts while Redis is away. It limits by the rate that it wanted to set, and
// books what it grants when there is one.
func TestAProcessThatStartsWithoutRedisLimits(t *testing.T) {
	Bubble(t, func(c *Limiter) {
		c.RDB.AddHook(Hook(c.Gate.Process))
		open := c.Gate.Shut()
		ctx, cancel := context.WithTimeout(c.Context(), time.Second)
		defer cancel()
		if set, err := c.TrySetRate(ctx, Overall, 4, 10*time.Second); set || !errors.Is(err,
			context.DeadlineExceeded) {
			t.Errorf("%v, %v; want the end of the context", set, err)
		}
		if n := TakeAll(c, c.RateLimiter); n != 4 {
			t.Errorf("%d granted, want 4", n)
		}
		open()
		c.Sleep(time.Second)
		NoError(c.T, ErrOf(c.TrySetRate(c.Context(), Overall, 4, 10*time.Second)))
		c.Sleep(2 * time.Second)
		if h := c.Client.Health(); h.Unbooked != 0 || h.Degraded {
			t.Errorf("%+v; want all booked", h)
		}
		c.HasTaken(4)
		c.Sleep(10 * time.Second)
		c.HasTaken(0)
	}, rratelimiter.WithGoOnly(), rratelimiter.WithFallback(rratelimiter.FallbackLocal))
}

// The first use of a key is one script call. Without Redis the key has as large a share as a limiter whose
// Clients were counted.
func TestTheFirstUseOfAKeyIsOneCall(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *Limiter) {
		scripts := c.CountScripts()
		c.Other().Took(1, time.Minute, 0)
		learns(c)
		keyed := c.Client.Keyed("k", 10, time.Minute)
		for i, want := range []int{1, 2, 1} { // the second use also counts the Clients
			scripts()
			NoError(t, Yes(keyed.TryAcquire(c.Context(), "thrice", 1, 0)))
			c.Sleep(10 * time.Millisecond)
			if sent := scripts(); sent != want {
				t.Errorf("use %d: %d scripts, want %d", i+1, sent, want)
			}
		}
		NoError(t, Yes(keyed.TryAcquire(c.Context(), "once", 1, 0)))
		end := outage(c)
		for key, want := range map[string]int{"thrice": 7, "once": 4, "new": 5} {
			if n := TakeAll(c, keyed.RateLimiter(key)); n != want {
				t.Errorf("%s: %d granted, want %d", key, n, want)
			}
		}
		end()
		c.Sleep(time.Minute)
	})
}

// For a limiter whose rate was not learnt there is no share, and the error is returned.
func TestALimiterThatWasNotLearntHasNoShare(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *Limiter) {
		end := outage(c)
		other := c.Client.RateLimiter("other")
		WantErr(t, ErrOf(other.TryAcquire(c.Context(), 1, 0)), rratelimiter.ErrNoAnswer)
		end()
		c.Sleep(time.Minute)
	})
}

// Redis is back for one Client and perhaps not yet for another: so it takes no more than
// its share for a while. Permits that Redis does not grant do not count.
func TestAClientThatIsBackKeepsToItsShare(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *Limiter) {
		startsInterval(c, 20*time.Second)
		end := outage(c)
		c.Took(2, 0, 0)
		end()
		for c.Client.Health().Degraded {
			c.Sleep(10 * time.Millisecond)
		}
		c.Took(1, 0, 0)
		r, err := c.Allow(c.Context(), 3)
		if err != nil || r.Allowed || !r.Degraded {
			t.Errorf("%+v, %v; want refused beyond the share", r, err)
		}
		c.Other().Took(7, 0, 0) // another Client books what it granted: nothing is left
		decides(c, c.RateLimiter, 0, "false", 0)
		decides(c, c.RateLimiter, 0, "false", 0)
		NoError(c.T, c.Other().Release(c.Context(), 7))
		decides(c, c.RateLimiter, 0, "true", 0)
		decides(c, c.RateLimiter, 0, "true", 0)
		decides(c, c.RateLimiter, 0, "false", 0) // Redis has more, but this is the share
		waits := c.Comes(c.Context(), 1, 10*time.Second)
		c.Sleep(5 * time.Second)
		if v := waits(); !v.OK || v.After > 4500*time.Millisecond {
			t.Errorf("%+v; want granted when the Client may take more than its share again", v)
		}
		if n := TakeAll(c, c.RateLimiter); n != 4 {
			t.Errorf("%d granted after that, want 4", n)
		}
	}, rratelimiter.WithLocalShare(0.5))
}

// Permits that are granted during a booking are also booked at once when
// the circuit has closed. When it closes, Redis knows of the others.
func TestGrantsDuringABookingAreBooked(t *testing.T) {
	var unbooked []int64
	hooked := rratelimiter.WithHealthHook(func(h rratelimiter.Health) {
		unbooked = append(unbooked, h.Unbooked)
	})
	fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *Limiter) {
		startsInterval(c, 10*time.Second)
		end := outage(c)
		c.Took(4, 0, 0)
		var once sync.Once
		c.RDB.AddHook(Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			const withRecords = 3 + 3 + 12
			if len(cmd.Args()) > withRecords {
				once.Do(func() { c.Took(2, 0, 0) })
			}
			return next(ctx, cmd)
		}))
		end()
		for c.Client.Health().Degraded {
			c.Sleep(time.Millisecond)
		}
		if h := c.Client.Health(); h.Unbooked != 0 {
			t.Errorf("%+v; want all booked", h)
		}
		c.HasTaken(6)
		if !slices.Equal(unbooked, []int64{0, 2}) {
			t.Errorf("%d unbooked when the circuit opened and closed; want 0 and 2", unbooked)
		}
	}, hooked)
}

// A share of less than a permit is a permit in more than an interval. Redis need not know
// of it for longer than an interval.
func TestASmallShareIsBookedWithinAnInterval(t *testing.T) {
	fallsBack(t, 2, rratelimiter.FallbackLocal, func(c *Limiter) {
		c.Sleep(5 * time.Second)
		end := outage(c)
		decides(c, c.RateLimiter, 0, "true", 0)
		c.Mini.FlushAll()
		c.Sleep(2 * time.Second)
		decides(c, c.RateLimiter, 0, "false", 0)
		if n := c.Client.Health().Unbooked; n != 0 {
			t.Errorf("%d unbooked after the interval", n)
		}
		c.Sleep(4 * time.Second)
		decides(c, c.RateLimiter, 0, "true", 0)
		end()
		c.Sleep(10 * time.Second)
	}, rratelimiter.WithLocalShare(0.1))
}

// Clients that have not used the limiter for a minute are not counted.
func TestClientsThatAreGoneHaveNoShare(t *testing.T) {
	fallsBack(t, 10, rratelimiter.FallbackLocal, func(c *Limiter) {
		c.Other().Took(1, 0, 0)
		c.Sleep(61 * time.Second)
		learns(c)
		end := outage(c)
		if n := TakeAll(c, c.RateLimiter); n != 10 {
			t.Errorf("%d granted, want 10", n)
		}
		end()
		c.Sleep(time.Minute)
	})
}
