package rratelimiter

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A counter takes requests one by one, in any order.
type counter struct {
	*testing.T
	s    *redistest.Server
	now  int64 // Unix ms
	keys *limiterKeys
}

func newCounter(t *testing.T, typ RateType, rate int64) *counter {
	t.Helper()
	s := redistest.Start(t)
	at := &counter{T: t, s: s, now: 1_700_000_000_000}
	l := at.client().RateLimiter("l")
	at.keys = l.keys.Load()
	if err := l.SetRate(t.Context(), typ, rate, time.Hour); err != nil {
		t.Fatal(err)
	}
	return at
}

// client returns one of the same ID, with the clock of the counter.
func (at *counter) client() *Client {
	c := New(at.s.Client(at.T), WithID("me"), WithClock(func() time.Time { return time.UnixMilli(at.now) }))
	at.Cleanup(func() { _ = c.Close() })
	return c
}

// hands sends a request and returns the reply.
func (at *counter) hands(r *request) acquireReply {
	at.Helper()
	rep, err := r.send(at.Context())
	if err != nil {
		at.Fatal(err)
	}
	return rep
}

// has expects so many permits to be left.
func (at *counter) has(permits int64) {
	at.Helper()
	n, err := at.keys.client.RateLimiter("l").AvailablePermits(at.Context())
	if n != permits || err != nil {
		at.Errorf("%d, %v are left, want %d", n, err, permits)
	}
}

// of returns the withdrawal of a request whose reply was lost.
func of(r *request) *withdrawal { return &withdrawal{r.number - 1, keptAll, time.Now()} }

// A request that withdraws earlier ones leaves its number, even if it is refused itself.
// The earlier ones may still arrive.
func TestWhoTakesBackLeavesItsNumber(t *testing.T) {
	for what, permits := range map[string]int64{"granted": 2, "refused": 6, "more than the rate": 11} {
		t.Run(what, func(t *testing.T) {
			at := newCounter(t, Overall, 10)
			at.hands(at.keys.newAcquire([]run{{5, 1}}, nil))
			late := at.keys.newAcquire([]run{{1, 1}}, nil)
			next := at.keys.newAcquire([]run{{permits, 1}}, of(late))
			left := int64(5)
			if at.hands(next); permits <= left {
				left -= permits
			}
			at.hands(late)
			at.has(left)
		})
	}
}

// Two callers ask for all permits, and one is granted those that their request withdraws.
// The other waits for the permits of that grant, not for those that were withdrawn.
func TestHowLongARefusalIsWhereAllIsTakenBack(t *testing.T) {
	at := newCounter(t, Overall, 10)
	lost := at.keys.newAcquire([]run{{10, 1}}, nil)
	at.hands(lost)
	at.now += 600_000
	both := at.keys.newAcquire([]run{{10, 2}}, of(lost))
	if a := at.hands(both).judged; len(a) != 2 || a[0] != 1 || a[1] != time.Hour.Microseconds() {
		t.Errorf("%d; want 1 granted, and an hour", a)
	}
}

// The rate of a PerClient limiter is lowered. Then a request is refused, and withdraws
// permits that have gone back already. The value is right by the new rate.
func TestARefusalThatTakesBackAtALowerRate(t *testing.T) {
	at := newCounter(t, PerClient, 20)
	lost := at.keys.newAcquire([]run{{2, 1}}, nil)
	at.hands(lost)
	at.s.Admin().ZRemRangeByRank(t.Context(), at.keys.Pairs[PerClient].Permits, 0, -1)
	at.now += 10
	at.hands(at.client().RateLimiter("l").keys.Load().newAcquire([]run{{10, 1}}, nil))
	at.s.Admin().HSet(t.Context(), "l", "rate", 12)
	at.hands(at.keys.newAcquire([]run{{13, 1}}, of(lost)))
	granted := 0
	for range 20 {
		if at.hands(at.keys.newAcquire([]run{{1, 1}}, nil)).judged == nil { // a refusal has some
			granted++
		}
	}
	if granted > 2 {
		t.Errorf("%d were granted with 10 of 12 out", granted)
	}
}

// A Client without records of its own gives permits back, and so takes the record of a grant
// that is withdrawn later. The withdrawal finds as many permits in the records that are left.
func TestAWithdrawalOfARecordThatAReleaseHasTaken(t *testing.T) {
	at := newCounter(t, Overall, 20)
	lost := at.keys.newAcquire([]run{{5, 1}}, nil)
	at.hands(lost)
	at.now += 10
	at.hands(at.client().RateLimiter("l").keys.Load().newAcquire([]run{{7, 1}}, nil))
	at.hands(at.client().RateLimiter("l").keys.Load().newRelease(4, nil))
	at.has(12)
	at.hands(at.keys.newRelease(0, of(lost)))
	at.has(17) // 3 of the 7 are still out
}

// A limiter is in the list of withdrawals once, however many replies it loses.
func TestALimiterStandsInTheListOnce(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.StartProxy(t, s.Addr)
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr, MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	c := New(rdb)
	t.Cleanup(func() { _ = c.Close() })
	l := c.RateLimiter("l")
	if err := l.SetRate(t.Context(), Overall, 100, time.Hour); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		p.SwallowReply(1)
		if _, err := l.TryAcquire(t.Context(), 1, 0); err == nil {
			t.Fatal("no error though the reply was lost")
		}
		if err := l.Release(t.Context(), 1); err != nil { // Redis is well again
			t.Fatal(err)
		}
		if n := c.waiting(); n > 1 {
			t.Fatalf("one limiter stands in the list %d times", n)
		}
	}
}

// waiting returns how many entries the list of withdrawals has.
func (c *Client) waiting() int {
	c.withdrawals.mu.Lock()
	defer c.withdrawals.mu.Unlock()
	return len(c.withdrawals.parked)
}

// resting reports whether the Client has no queue.
func (c *Client) resting() bool {
	c.queuesMu.Lock()
	defer c.queuesMu.Unlock()
	return len(c.queues) == 0
}

// A caller leaves while its request waits for a connection, or for a dial. The request was
// not sent, so nothing is withdrawn.
func TestWhatWasNotSentIsNotTakenBack(t *testing.T) {
	s := redistest.Start(t)
	if err := New(s.Admin()).RateLimiter("l").SetRate(t.Context(), Overall, 10, time.Hour); err != nil {
		t.Fatal(err)
	}
	for name, mod := range map[string]func(o *redis.Options){
		"pool": func(*redis.Options) {},
		"dial": func(o *redis.Options) {
			o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			rdb := s.Client(t, func(o *redis.Options) {
				o.PoolSize, o.PoolTimeout, o.DialTimeout = 1, 10*time.Second, 300*time.Millisecond
			}, mod)
			c := New(rdb)
			t.Cleanup(func() { _ = c.Close() })
			free := func() error { return nil }
			if name == "pool" {
				conn := rdb.Conn()
				if err := conn.Ping(t.Context()).Err(); err != nil { // it has the only connection
					t.Fatal(err)
				}
				free = conn.Close
			}
			ok, err := c.RateLimiter("l").TryAcquire(t.Context(), 1, 100*time.Millisecond)
			if ok || err == nil {
				t.Errorf("%v, %v without a connection", ok, err)
			}
			if err := free(); err != nil {
				t.Fatal(err)
			}
			for start := time.Now(); !c.resting(); time.Sleep(time.Millisecond) {
				if time.Since(start) > 10*time.Second {
					t.Fatal("it takes back what was never taken")
				}
			}
			if n := c.requests.Load(); n != 1 {
				t.Errorf("%d requests, want the one that was not sent", n)
			}
		})
	}
}
