package fallback_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// Allow says that Redis did not decide, and Acquire, which cannot say no, returns the
// error where the fallback refuses.
func TestAFallbackSaysThatRedisDidNotDecide(t *testing.T) {
	for fallback, want := range map[rratelimiter.Fallback]rratelimiter.Result{
		rratelimiter.FallbackAllow: {Allowed: true, Limit: 10, Degraded: true},
		rratelimiter.FallbackDeny:  {Limit: 10, RetryAfter: time.Second, Degraded: true},
		rratelimiter.FallbackLocal: {Allowed: true, Limit: 10, Remaining: 7, Degraded: true,
			Interval: time.Second, ResetAfter: 1032 * time.Millisecond},
	} {
		plays(t, "silent", func(p *play) {
			l := p.RateLimiter.WithFallback(fallback)
			want.Name = l.Name()
			if r, err := l.Allow(p.Context(), 3); err != nil || !reflect.DeepEqual(r, want) {
				t.Errorf("%d: %+v, %v; want %+v", fallback, r, err, want)
			}
			if err := l.Acquire(p.Context(), 1); (fallback == rratelimiter.FallbackDeny) !=
				errors.Is(err, rratelimiter.ErrNoAnswer) ||
				err != nil && fallback != rratelimiter.FallbackDeny {
				t.Errorf("%d: Acquire: %v", fallback, err)
			}
			reserves(p, l, want.Allowed)
			p.does("back; +1m")
			r, err := l.Allow(p.Context(), 1)
			if err != nil || r.Degraded || r.Remaining != 9 {
				t.Errorf("%d: %+v, %v; want a reply of Redis", fallback, r, err)
			}
			p.does("off")
			if r, err := l.Allow(p.Context(), 50); err != nil || !r.Allowed || !r.Degraded {
				t.Errorf("%d: %+v, %v; want granted without a limit", fallback, r, err)
			}
		})
	}
}

// reserves reserves without Redis: such a reservation has no ID, and nothing to settle. A charge asks Redis,
// and so does the release of what Redis has granted.
func reserves(p *play, l *rratelimiter.RateLimiter, granted bool) {
	p.Helper()
	tried, result, err := l.TryReserve(p.Context(), 1)
	if (tried != nil) != granted || result.Allowed != granted || !result.Degraded || err != nil {
		p.Errorf("TryReserve: %v, %+v, %v", tried, result, err)
	}
	r, err := l.Reserve(p.Context(), 1, 0)
	if (r != nil) != granted || err != nil || granted && (r.ID() != "" || r.Settle(p.Context(), 9) != nil) {
		p.Errorf("Reserve: %v, %v", r, err)
	}
	ctx, cancel := context.WithTimeout(p.Context(), 2*budget) // they have no budget
	defer cancel()
	WantErr(p, ErrOf(l.Charge(ctx, 1)), context.DeadlineExceeded)
	WantErr(p, l.Release(ctx, 10), context.DeadlineExceeded)
}

// After three failures in a row Redis gets only one probe at a time. When it is back, the circuit closes, and
// the hook reports both.
func TestTheCircuitOpensAndCloses(t *testing.T) {
	plays(t, "client allow; silent; take 1 after 250ms; well; take 1 after 250ms; well; take 1 after 250ms",
		func(p *play) {
			before := p.Gate.Count()
			p.does("take 1 x600 every 100ms; degraded; decided 603")
			h := p.Client.Health()
			if time.Since(h.Since) < time.Minute {
				t.Errorf("%+v", h)
			}
			WantErr(t, h.Cause, rratelimiter.ErrNoAnswer)
			if got, want := h.Cause.Error(), "no answer from Redis within "+budget.String(); got != want {
				t.Errorf("%s, want %s, and no limiter", got, want)
			}
			if probes := p.Gate.Count() - before; probes < 19 || probes > 24 { // a few take permits back
				t.Errorf("%d requests in a minute, want 2 s for each probe and 1 s for the pauses", probes)
			}
			p.does("back; +4s; well; take 1; taken 1; hooks open closed")
		})
}

// A hook may ask the limiter, and one that panics does not keep the circuit open.
func TestAHookThatMisbehavesKeepsNoCircuitOpen(t *testing.T) {
	var l *rratelimiter.RateLimiter
	calls, panics := 0, true
	plays(t, "client allow", func(p *play) {
		l = p.RateLimiter
		for range 2 {
			p.does("silent")
			for range 3 {
				func() {
					defer func() { _ = recover() }()
					_, _ = p.TryAcquire(p.Context(), 1, 0)
				}()
			}
			panics = false
			p.does("back; +1m; well")
		}
		if calls != 4 {
			t.Errorf("the hook was called %d times, want 4", calls)
		}
	}, rratelimiter.WithHealthHook(func(rratelimiter.Health) {
		calls++
		for range 4 {
			_, _ = l.TryAcquire(context.Background(), 1, 0)
		}
		if panics {
			panic("hook")
		}
	}))
}

// Refusals and their waits are also right for the longest intervals and deadlines.
func TestRefusalsHoldForTheLongestIntervals(t *testing.T) {
	plays(t, "", func(p *play) {
		ctx, cancel := context.WithDeadline(p.Context(), time.Now().AddDate(200, 0, 0))
		defer cancel()
		p.Want(p.SetRate(ctx, Overall, 1, math.MaxInt64/time.Millisecond*time.Millisecond))
		p.does("learn; silent")
		start := time.Now()
		r, err := p.Allow(ctx, 1)
		if took := time.Since(start); err != nil || !r.Allowed || !r.Degraded || took != budget {
			t.Errorf("%+v, %v after %v", r, err, took)
		}
		r, err = p.Allow(ctx, 1)
		if err != nil || r.Allowed || r.RetryAfter < 365*24*time.Hour {
			t.Errorf("%+v, %v; want refused for ages", r, err)
		}
		p.does("no 1 within 1s after 1s; back; +1m")
	})
}

// A caller that waits while Redis comes back returns by its timeout.
func TestTheTimeoutIsKeptWhenRedisIsBack(t *testing.T) {
	const slow = "client local budget 1s; rate 1 1h; take 1; +1s; slow 30m; as deny no 1 after 1s x3"
	plays(t, slow, func(p *play) {
		timeout := func(i int) time.Duration { return 5*time.Second + time.Duration(i)*50*time.Millisecond }
		var visits []func() Visit
		for i := range 50 {
			visits = append(visits, p.Comes(p.Context(), 1, timeout(i)))
		}
		p.does("slow 300ms; +1m")
		for i, visit := range visits {
			if v := visit(); !v.Done || v.Err != nil || v.After > timeout(i)+50*time.Millisecond {
				t.Errorf("caller %d: %+v; want a result by %v", i, v, timeout(i))
			}
		}
		p.does("+2h")
	})
}

// A Client with grants of many limiters to book does not repeat all bookings while Redis refuses them. When
// Redis has memory again, all are booked at once.
func TestRefusedBookingsAreFew(t *testing.T) {
	const limiters, calls = 500, 2 // scripts of a booking
	plays(t, "refuse OOM command not allowed", func(p *play) {
		keyed := p.Client.Keyed("many", 10, time.Hour)
		for i := range limiters {
			p.Want(keyed.For(fmt.Sprint(i)).Acquire(p.Context(), 1))
		}
		p.does("+5s") // each was tried once
		const few, rounds = 50, 14
		before := p.Gate.Count()
		p.does("+10s")
		if n := p.Gate.Count() - before; n == 0 || n > rounds*calls*(few+1) {
			t.Errorf("%d scripts in 10 s", n)
		}
		p.does("back; +2s; unbooked 0")
	})
}

// Redis comes back empty: a Client that does nothing asks for few of the limiters whose
// permits it would book, and books those that are used again.
func TestAnEmptyRestartBooksWhatIsUsedAgain(t *testing.T) {
	const limiters = 500
	plays(t, "", func(p *play) {
		each := make([]*Limiter, limiters)
		setsRate := func(l *Limiter) { p.Want(l.SetRate(p.Context(), Overall, 10, time.Hour)) }
		for i := range each {
			each[i] = p.Wrap(p.Client.RateLimiter(fmt.Sprint("l", i)))
			setsRate(each[i])
		}
		p.does("away")
		for _, l := range each {
			l.Took(1, 0, 0)
		}
		p.does("empty; back; +5s") // all were asked for once
		asked := p.Gate.Count()
		p.does("+20s")
		if n := p.Gate.Count() - asked; n == 0 || n > 20*200 {
			t.Errorf("%d requests in 20 s for %d limiters without a rate", n, limiters)
		}
		for _, l := range each[:10] {
			setsRate(l)
			l.Took(1, 0, 0)
		}
		p.does("+3s")
		for _, l := range each[:10] {
			l.HasTaken(2) // the permit of the outage is booked
		}
	})
}

// More keys are asked for than a Client can count without Redis. None gets an error, not even in a Group, and
// a key that is used more often than most is counted exactly.
func TestAnyNumberOfKeysFallsBack(t *testing.T) {
	const keys, rate, interval = 14_000, 3, time.Minute
	plays(t, "", func(p *play) {
		keyed, total := p.Client.Keyed("many", rate, interval), p.Client.Keyed("total", keys, interval)
		p.does("away")
		popular := 0
		for i := range keys {
			if i%100 == 0 {
				if ok, err := keyed.For("popular").TryAcquire(p.Context(), 1, 0); err != nil {
					t.Fatal(err)
				} else if ok {
					popular++
				}
			}
			l := taker(keyed.For(fmt.Sprint(i)))
			if i%2 == 1 {
				l = p.Client.All(keyed.For(fmt.Sprint(i)), total.For("all"))
			}
			p.Want(Yes(l.TryAcquire(p.Context(), 1, 0)))
			p.Sleep(time.Millisecond)
		}
		if popular != rate {
			t.Errorf("%d granted for a key, want %d", popular, rate)
		}
		p.does("+2m; back; +1m") // nothing is left to book
	})
}

// The first use of a key is one script call. Without Redis the key has as large a share as a limiter whose
// Clients were counted.
func TestTheFirstUseOfAKeyIsOneCall(t *testing.T) {
	plays(t, "", func(p *play) {
		p.does("other take 1; learn")
		keyed := p.Client.Keyed("k", 10, time.Minute)
		for i, want := range []int{1, 2, 1} { // the second use also counts the Clients
			before := p.Gate.Count()
			NoError(t, Yes(keyed.For("thrice").TryAcquire(p.Context(), 1, 0)))
			p.Sleep(10 * time.Millisecond)
			if sent := p.Gate.Count() - before; sent != want {
				t.Errorf("use %d: %d scripts, want %d", i+1, sent, want)
			}
		}
		NoError(t, Yes(keyed.For("once").TryAcquire(p.Context(), 1, 0)))
		p.does("away")
		for key, want := range map[string]int{"thrice": 7, "once": 4, "new": 5} {
			if n := TakeAll(p, keyed.For(key)); n != want {
				t.Errorf("%s: %d granted, want %d", key, n, want)
			}
		}
		allows := keyed.WithFallback(rratelimiter.FallbackAllow)
		if r, err := allows.For("new").Allow(p.Context(), 1); err != nil || !r.Allowed || !r.Degraded {
			t.Errorf("FallbackAllow: %+v, %v", r, err)
		}
		p.does("back; +1m")
	})
}

// Permits that are granted during a booking are also booked at once when
// the circuit has closed. When it closes, Redis knows of the others.
func TestGrantsDuringABookingAreBooked(t *testing.T) {
	var unbooked atomic.Int64
	plays(t, "rate 10 10s; learn; +10s; away; take 4", func(p *play) {
		var once sync.Once
		p.RDB.AddHook(Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			const withRecords = 3 + 3 + 12
			if len(cmd.Args()) > withRecords {
				once.Do(func() { p.Took(2, 0, 0) })
			}
			return next(ctx, cmd)
		}))
		p.does("back; until well; unbooked 0; taken 6")
		if n := unbooked.Load(); n != 2 {
			t.Errorf("%d unbooked when the circuit closed; want 2", n)
		}
	}, rratelimiter.WithHealthHook(func(h rratelimiter.Health) { unbooked.Store(h.Unbooked) }))
}

// A booked record is like any other: in the format of the Client, dated with the time of the grant.
func TestABookedRecordIsLikeAnyOther(t *testing.T) {
	plays(t, "rate 10 1h; learn; away", func(p *play) {
		granted := time.Now().UnixMilli()
		p.does("take 4; +5s; back; +3s; unbooked 0; taken 4")
		p.HasRecords(4)
		score := p.Look.ZScore(p.Context(), p.PermitsKey(), p.Members()[0]).Val()
		if at := int64(score); at < granted || at > time.Now().UnixMilli() || float64(at) != score {
			t.Errorf("dated %v, want a whole ms from %d on", score, granted)
		}
		p.does("take 6; no 1; give 10; taken 0")
	})
}

// A cutOff is a limiter whose Client grants permits while it is cut off from the server, and books
// them afterwards.
type cutOff struct {
	*Limiter
	client *rratelimiter.Client
	l      *Limiter
}

// newCutOff returns one of a rate of 10 in an hour. The server knows the scripts: otherwise the first
// reply to a booking that is lost may be NOSCRIPT.
func newCutOff(t *testing.T) *cutOff {
	t.Helper()
	n := NewProxied(t, 10, time.Hour, SendsOnce)
	client := n.NewClient(rratelimiter.WithFallback(rratelimiter.FallbackLocal),
		rratelimiter.WithLocalShare(1))
	c := &cutOff{n, client, n.By(client)}
	n.Want(c.l.SetRate(t.Context(), Overall, 10, time.Hour)) // so it knows the rate
	c.grants(1)
	n.Proxy.Up()
	c.untilBooked()
	n.UntilOut(1)
	n.Other().Gives(1)
	return c
}

// grants cuts the Client off, which then grants permits.
func (c *cutOff) grants(permits int) {
	c.Helper()
	c.Proxy.Down()
	c.Proxy.Cut()
	for range permits {
		c.l.Takes(1)
	}
}

func (c *cutOff) untilBooked() {
	c.Helper()
	Until(c.T, func() bool { return c.client.Health().Unbooked == 0 })
}

// isBooking reports whether a request is a booking.
func isBooking(args []string) bool { return IsScript(args) && len(args) > 3+3+12 }

// A booking whose reply is lost is booked once, also if another Client gives permits back out of its record
// before the second copy comes.
func TestABookingThatWasGivenBackIsNotMadeAgain(t *testing.T) {
	c := newCutOff(t)
	other := c.Other()
	c.grants(4)
	copies := 0
	c.Proxy.SwallowReplyTo(1, isBooking)
	pass := c.Proxy.HoldNext(1, func(args []string) bool {
		if isBooking(args) {
			copies++
		}
		return copies == 2
	})
	c.Proxy.Up()
	Until(t, func() bool { return c.Proxy.Held() == 1 })
	c.UntilOut(4)
	c.Now += 1000
	other.Takes(2)
	c.Other().Gives(2) // out of the oldest record
	other.Has(6)
	pass()
	c.untilBooked()
	c.UntilOut(4)
	other.Has(6)
}

// A copy of a booking that arrives after a later booking books nothing.
func TestALateCopyOfABooking(t *testing.T) {
	c := newCutOff(t)
	c.grants(4)
	first := c.HoldsNext(isBooking, func() error {
		c.Proxy.Up()
		return nil
	})
	c.Want(first.Overtaken())
	c.untilBooked()
	c.UntilOut(4)
	c.Other().Gives(4)
	c.grants(2)
	c.Proxy.Up()
	c.untilBooked()
	c.UntilOut(2)
	first.Arrives()
	c.UntilOut(2)
	c.l.Has(8)
}
