package engine

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A counter takes requests one by one, in any order.
type counter struct {
	*testing.T
	s   *redistest.Server
	now int64 // Unix ms
	l   *Limiter
}

func newCounter(t *testing.T, typ int, rate int64) *counter {
	t.Helper()
	s := redistest.Start(t)
	at := &counter{T: t, s: s, now: 1_700_000_000_000}
	at.l = at.other()
	setRate(t, at.l, typ, rate, time.Hour)
	return at
}

// other returns the limiter of another Engine with the same ID, and the clock of the counter.
func (at *counter) other() *Limiter {
	return newEngine(at.T, at.s.Client(at.T), withClock(&at.now)).limiter("l")
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

// has expects permits to be left.
func (at *counter) has(permits int64) {
	at.Helper()
	v, err := at.l.Peek(at.Context())
	if v.Left != permits || err != nil {
		at.Errorf("%d, %v are left, want %d", v.Left, err, permits)
	}
}

// of returns the withdrawal of a request whose reply was lost.
func of(r *request) *withdrawal {
	return &withdrawal{after: r.number - 1, kept: keptAll, since: time.Now()}
}

// Callers in line are kept back by the first of them that is refused, and a caller that does not wait is
// granted permits. A copy of their request grants the same ones.
func TestACopyGrantsTheSame(t *testing.T) {
	at := newCounter(t, wire.Overall, 10)
	at.hands(newAcquire(at.l, []run{{7, 1}}, nil))
	r := newAcquire(at.l, []run{{5, -1}, {1, -1}, {3, 1}}, nil)
	for range 2 {
		judged := at.hands(r).judged
		if granted := []int64{judged[0], judged[2], judged[4]}; !slices.Equal(granted, []int64{0, 0, 1}) {
			t.Errorf("%d, want only the last one granted", granted)
		}
		r.ambiguous = true
	}
	at.has(0)
}

// A caller wants more than the rate, and the one behind it is granted permits. The rate grows before a copy
// of their request arrives, so the first one is refused now. The second one still has its permits.
func TestACopyAfterAGreaterRateGrantsTheSame(t *testing.T) {
	at := newCounter(t, wire.Overall, 3)
	twoInLine := newAcquire(at.l, []run{{4, -1}, {2, -1}}, nil)
	first := at.hands(twoInLine)
	grown := Change{Rate: Rate{Type: wire.Overall, Permits: 8, Interval: time.Hour}, KeepState: true}
	if _, err := at.l.SetRate(t.Context(), grown); err != nil {
		t.Fatal(err)
	}
	twoInLine.ambiguous = true
	for _, reply := range []acquireReply{first, at.hands(twoInLine)} {
		if granted := []int64{reply.judged[0], reply.judged[2]}; !slices.Equal(granted, []int64{0, 1}) {
			t.Errorf("%d, want the second one granted", granted)
		}
	}
	at.has(6)
}

// Two callers ask for all permits, and one is granted those that their request withdraws.
// The other waits for the permits of that grant, not for those that were withdrawn.
func TestHowLongARefusalIsWhereAllIsTakenBack(t *testing.T) {
	at := newCounter(t, wire.Overall, 10)
	lost := newAcquire(at.l, []run{{10, 1}}, nil)
	at.hands(lost)
	at.now += 600_000
	both := newAcquire(at.l, []run{{10, 2}}, of(lost))
	if a := at.hands(both).judged; len(a) != 2 || a[0] != 1 || a[1] != time.Hour.Microseconds() {
		t.Errorf("%d; want 1 granted, and an hour", a)
	}
}

// The rate of a wire.PerClient limiter is lowered. Then a request is refused, and withdraws
// permits that have gone back already. The value is right by the new rate.
func TestARefusalThatTakesBackAtALowerRate(t *testing.T) {
	at := newCounter(t, wire.PerClient, 20)
	lost := newAcquire(at.l, []run{{2, 1}}, nil)
	at.hands(lost)
	at.s.Admin().ZRemRangeByRank(t.Context(), at.l.Keys().Pairs[wire.PerClient].Permits, 0, -1)
	at.now += 10
	at.hands(newAcquire(at.other(), []run{{10, 1}}, nil))
	at.s.Admin().HSet(t.Context(), "l", "rate", 12)
	at.hands(newAcquire(at.l, []run{{13, 1}}, of(lost)))
	granted := 0
	for range 20 {
		if at.hands(newAcquire(at.l, []run{{1, 1}}, nil)).judged == nil { // a refusal has some
			granted++
		}
	}
	if granted > 2 {
		t.Errorf("%d were granted with 10 of 12 out", granted)
	}
}

// A release has taken the record of a grant that is withdrawn, and left as many permits in later records,
// which callers hold. The withdrawal takes what is not later than the grant, and nothing else: the rest comes
// back with those records.
func TestAWithdrawalOfARecordThatAReleaseHasTaken(t *testing.T) {
	const rate, doubtful, held = 20, 5, 7
	for _, tc := range []struct {
		name   string
		group  bool                       // the grant is that of a call of a Group
		before int64                      // permits of the same Client, in an older record
		by     func(at *counter) *Limiter // the Client that releases
		freed  int64
	}{
		{"by another Client", false, 0, (*counter).other, 4},
		{"by its own, of a Group", true, 0, func(at *counter) *Limiter { return at.l }, 2},
		{"behind older permits", false, 3, (*counter).other, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			at := newCounter(t, wire.Overall, rate)
			if tc.before > 0 {
				at.hands(newAcquire(at.l, []run{{tc.before, 1}}, nil))
				at.now += 10
			}
			lost := newAcquire(at.l, []run{{doubtful, 1}}, nil)
			if tc.group {
				lost.session = at.l.engine.groups.sessions[0].take(at.l.engine)
			}
			at.hands(lost)
			at.now += 10
			at.hands(newAcquire(at.other(), []run{{held, 1}}, nil))
			at.hands(newRelease(tc.by(at), tc.freed, nil))
			back := newRelease(at.l, 0, of(lost))
			back.session = lost.session
			at.hands(back)
			at.has(rate - held)
			at.now += time.Hour.Milliseconds()
			at.has(rate)
		})
	}
}

// A limiter is in the list of withdrawals once, however many replies it loses.
func TestALimiterStandsInTheListOnce(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.StartProxy(t, s.Addr)
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr, MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	e := newEngine(t, rdb)
	l := e.limiter("l")
	setRate(t, l, wire.Overall, 100, time.Hour)
	for range 200 {
		p.SwallowReply(1)
		if _, err := l.Acquire(t.Context(), Want{Permits: 1}); err == nil {
			t.Fatal("no error though the reply was lost")
		}
		if err := l.Release(t.Context(), 1); err != nil { // Redis is well again
			t.Fatal(err)
		}
		if n := e.pending(); n > 1 {
			t.Fatalf("one limiter stands in the list %d times", n)
		}
	}
}

// pending returns how many entries the list of withdrawals has.
func (e *Engine) pending() int {
	e.withdrawals.mu.Lock()
	defer e.withdrawals.mu.Unlock()
	return len(e.withdrawals.waiting)
}

// The context of a request ends while it waits for a connection, or for a dial. It was not sent, so nothing
// is withdrawn.
func TestWhatWasNotSentIsNotTakenBack(t *testing.T) {
	s := redistest.Start(t)
	for name, mod := range map[string]func(o *redis.Options){
		"pool": func(*redis.Options) {},
		"dial": func(o *redis.Options) {
			o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		},
	} {
		rdb := s.Client(t, func(o *redis.Options) {
			o.PoolSize, o.PoolTimeout = 1, 10*time.Second
			o.DialTimeout, o.DialerRetries = time.Second, 1
		}, mod)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		t.Cleanup(cancel)
		if name == "pool" {
			conn := rdb.Conn()
			t.Cleanup(func() { _ = conn.Close() })
			if err := conn.Ping(t.Context()).Err(); err != nil { // it has the only connection
				t.Fatal(err)
			}
		}
		r := newAcquire(newEngine(t, rdb).limiter("l"), []run{{1, 1}}, nil)
		if _, err := r.send(ctx); err == nil || r.ambiguous {
			t.Errorf("%s: %v; may have been carried out: %v", name, err, r.ambiguous)
		}
	}
}
