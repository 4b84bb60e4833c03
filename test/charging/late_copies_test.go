package charging_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// The specs here are of requests that arrive when go-redis has sent them again,
// or when their callers have gone.

// When a release arrives an interval late, its permits have come back
// already. The permits that are out then belong to other callers.
func TestAReleaseThatIsAnIntervalLateGivesNothingBack(t *testing.T) {
	const interval = 50 * time.Millisecond
	n := NewProxied(t, 10, interval)
	n.Takes(4)
	c := n.Holds(n.GivesBack(4)) // the first copy never arrives
	start := time.Now()
	Until(t, func() bool { return time.Since(start) > interval })
	n.Want(c.Overtaken())
	n.Has(6)
	n.Keeps(10, n.ValueKey(), n.PermitsKey())
}

// The first copy of a release arrives when the release has gone on, or another one
// has been done. It gives nothing back.
func TestALateFirstCopyOfAReleaseGivesNothingBack(t *testing.T) {
	for name, next := range map[string]func(l *Limiter){
		"alone":          func(*Limiter) {},
		"before another": func(l *Limiter) { l.Gives(1) },
	} {
		for _, records := range []int64{100, 5_000} {
			t.Run(fmt.Sprint(name, " ", records), func(t *testing.T) {
				n := NewProxied(t, 20_000, time.Hour)
				n.Fill(n.Now-500, 100, 10_000, 1)
				n.SetKey(n.ValueKey(), 10_000)
				c := n.Holds(n.GivesBack(records))
				n.Want(c.Overtaken())
				next(n)
				left := n.Size()
				if left > 10_000-records {
					t.Fatalf("%d records are left, and %d were given back", left, records)
				}
				c.Arrives()
				if got := n.Size(); got != left {
					t.Fatalf("the late copy has given back %d permits", left-got)
				}
			})
		}
	}
}

// A request with a resolution got the reply of its second copy, or was withdrawn.
// Its first copy charges nothing, whatever was granted meanwhile.
func TestWithAResolutionALateFirstCopyIsNotCharged(t *testing.T) {
	for _, retries := range []int{1, -1} { // answered, or withdrawn
		for _, meanwhile := range []int64{0, 3} {
			n, m := NewCoarse(t, 30, func(o *redis.Options) { o.MaxRetries = retries })
			c := n.Holds(m.AsksFor(10))
			taken := meanwhile
			if err := c.Overtaken(); retries > 0 {
				n.Want(err)
				taken += 10
			} else if !errors.Is(err, rratelimiter.ErrNoAnswer) {
				t.Fatalf("%v, want ErrNoAnswer", err)
			}
			c.Followed()
			if meanwhile > 0 {
				m.Takes(meanwhile)
			}
			c.Arrives()
			m.Has(30 - taken)
			m.Keeps(30, m.ValueKey(), m.PermitsKey())
		}
	}
}

// A copy arrives when its caller was refused and waits. What it takes is taken
// back, and the caller is served.
func TestALateCopyServesItsWaiter(t *testing.T) {
	n := NewProxied(t, 1, time.Hour)
	other := n.Other()
	other.Takes(1)
	c := n.Holds(func() error { return Yes(n.TryAcquire(context.Background(), 1, 5*time.Second)) })
	n.Proxy.Cut()
	c.Followed() // by the second copy, which is refused
	other.Gives(1)
	c.Pass()
	n.Want(<-c.Told)
	n.Keeps(1, n.ValueKey(), n.PermitsKey())
	n.HasRecords(1)
}

// SetRate clears the keys of the other type in a second script. When that comes
// late it leaves the type in force alone.
func TestALateClearHarmsNoCaller(t *testing.T) {
	n := NewProxied(t, 10, time.Hour)
	same := NewClient(t, n.Look, rratelimiter.WithID(n.Client.ID()))
	other := n.By(same)
	n.Want(n.SetRate(t.Context(), Overall, 10, time.Hour))
	n.SetKey(n.ValueKey()+":"+n.Client.ID(), 1) // something to clear
	scripts := 0
	clears := n.HoldsNext(func(args []string) bool {
		if IsScript(args) {
			scripts++
		}
		return scripts == 2
	}, func() error { return n.SetRate(context.Background(), Overall, 10, time.Hour) })
	n.Want(other.SetRate(t.Context(), PerClient, 5, time.Hour))
	other.Takes(3)
	clears.Pass()
	n.Want(<-clears.Told)
	other.Has(2)
}

// The first copy of a merged call arrives after the reply to the second one. It
// charges nothing, or what it takes is taken back: whether all of the call was
// granted, a part, or nothing.
func TestALateFirstCopyOfAMergedCallIsNotCharged(t *testing.T) {
	const rate = 30
	for name, tc := range map[string]struct {
		before  int64 // taken by Java, and back before the late copy arrives
		permits []int64
		granted int64
	}{
		"all granted, and enough is left for all again":  {0, []int64{4, 4}, 8},
		"all granted, and enough is left for a part":     {0, []int64{4, 4, 4, 4}, 16},
		"a part granted, and enough comes back for all":  {22, []int64{4, 4}, 4},
		"nothing granted, and enough comes back for all": {29, []int64{4, 4}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			InBothModes(t, rate, nil, func(p *Batch) {
				record := fmt.Sprintf("\x10%016d%c\x00\x00\x00", 0, byte(tc.before))
				if tc.before > 0 {
					p.Record(p.Now-1, record)
					p.SetKey(p.ValueKey(), rate-tc.before)
				}
				guests := p.JoinAll(tc.permits...)
				merged := p.Merges()
				p.Proxy.Cut()
				p.Agree(rate, rate-1-tc.before, guests)
				if tc.before > 0 {
					p.Want(p.Look.ZRem(context.Background(), p.PermitsKey(), record).Err())
					p.Want(p.Look.IncrBy(context.Background(), p.ValueKey(), tc.before).Err())
				}
				before := p.ScriptsRun()
				merged()
				Until(p.T, func() bool { return p.ScriptsRun() > before })
				p.UntilOut(1 + tc.granted)
				p.WantTaken(rate, 1+tc.granted)
			})
		})
	}
}

// A lateCase is what became of a request, and of its limiter, before its first
// copy arrives.
type lateCase struct {
	name   string
	sent   func(d *desk, ask func(*Limiter) error) error
	before func(d *desk)
	after  func(d *desk)
	met    string // by an acquire: session, records and value
	late   string // after it
	rmet   string // by a release of 4 of 5
	rlate  string
}

const nothing = "" // nothing has changed, to the byte

// again is a request whose second copy is answered.
func again(d *desk, ask func(*Limiter) error) error { return d.asks(1, ask) }

// never is a request that is given up.
func never(d *desk, ask func(*Limiter) error) error {
	if err := d.asks(1, ask); err == nil {
		d.n.Error("it was to be given up")
	}
	return nil
}

// lateCases: what is made anew knows nothing of what came before it. There, and a
// minute after the last request of its Client, a late copy is a request like any
// other.
var lateCases = []lateCase{
	{"its second copy was granted", again, nil, nil,
		"+0: 4 at +0; [4]; 6", nothing, "+0: -4; [1]; 9", nothing},
	{"its second copy was refused", again, func(d *desk) {
		d.other.Takes(10 - d.out())
	}, func(d *desk) { d.other.Gives(10) },
		"+0: 0 at +0; []; 10", nothing, "+0: -4; []; 10", nothing},
	{"a later request was granted", again, nil, func(d *desk) { d.l.Takes(2) },
		"+1: 2 at +0; [2 4]; 4", nothing, "+1: 2 at +0; [1 2]; 7", nothing},
	{"a later request was refused", again, nil, func(d *desk) { d.l.Refused(10, time.Hour) },
		"+0: 4 at +0; [4]; 6", nothing, "+0: -4; [1]; 9", nothing},
	{"a later request gave back", again, nil, func(d *desk) { d.l.Gives(1) },
		"+1: -1; [3]; 7", nothing, "+1: -1; []; 10", nothing},
	{"given up, a later request was granted", never, nil, func(d *desk) { d.l.Takes(2) },
		"+1: 2 at +0; [2]; 8", nothing, "+1: 2 at +0; [2 5]; 3", nothing},
	{"given up, a later request was refused", never, nil, func(d *desk) {
		others := 10 - d.out()
		d.other.Takes(others)
		d.l.Refused(1, time.Hour)
		d.other.Gives(others)
		// the releasing Client knows of no number
	}, "+1: 0 at +0; []; 10", nothing, "-1: 5 at +0; [5]; 5", "+0: -4; [1]; 9"},
	{"given up, a later request could not be", never, nil, func(d *desk) {
		WantErr(d.n, ErrOf(d.l.TryAcquire(context.Background(), 11, 0)), rratelimiter.ErrPermitsExceedRate)
	}, "+1: 0 at +0; []; 10", nothing, "-1: 5 at +0; [5]; 5", "+0: -4; [1]; 9"},
	{"given up, a later request gave back", never, nil, func(d *desk) { d.l.Gives(1) },
		"+1: 0; []; 10", nothing, "+1: -1; [4]; 6", nothing},
	{"given up and withdrawn", never, nil, func(d *desk) { d.withdrawn() },
		"+1: 0; []; 10", nothing, "-1: 5 at +0; [5]; 5", "+0: -4; [1]; 9"},
	{"a rate was set", again, nil, func(d *desk) {
		d.n.Want(d.other.SetRate(context.Background(), Overall, 10, time.Hour))
	},
		"+0: 4; []; ", "+0: 4; []; 10", "+0: -4; []; ", nothing},
	{"a rate was set, and keeps state", again, nil, func(d *desk) {
		d.n.Want(d.other.SetRate(context.Background(), Overall, 20, time.Hour, rratelimiter.WithKeepState()))
	}, "+0: 4 at +0; [4]; 16", nothing, "+0: -4; [1]; 19", nothing},
	{"deleted", again, nil, func(d *desk) { d.deleted() }, "none; []; ", nothing, "none; []; ", nothing},
	{"deleted and made anew", again, nil, func(d *desk) {
		d.deleted()
		_, err := d.other.TrySetRate(context.Background(), Overall, 10, time.Hour)
		d.n.Want(err)
	}, "none; []; ", "+0: 4 at +0; [4]; 6", "none; []; ", "+0: 0; []; 10"},
	{"renamed", again, nil, func(d *desk) { d.n.Want(d.l.Rename(context.Background(), d.l.Name()+"new")) },
		"+0: 4 at +0; [4]; 6", nothing, "+0: -4; [1]; 9", nothing},
	{"used by others for an hour, but a few", again, nil, func(d *desk) { d.passes(59*time.Minute, 7) },
		"+0: 4 at -3540000; [4]; 6", nothing, "+0: -4; [1]; 9", nothing},
	{"swept out", again, nil, func(d *desk) { d.passes(61*time.Second, 20) },
		"none; [4]; 6", "+0: 4 at -61000; [4 4]; 2", "none; [1]; 9", "+0: -1; []; 10"},
}

// A first copy arrives when no caller waits for it any more, for its second copy was
// answered, or its caller got an error. It does nothing where anything
// that the session knows of came after it.
func TestALateCopyWithoutACallerDoesNothing(t *testing.T) {
	for _, tc := range lateCases {
		t.Run(tc.name+", an acquire", func(t *testing.T) {
			d := tc.desk(t)
			met, left := tc.meets(d, func(l *Limiter) error {
				return ErrOf(l.TryAcquire(context.Background(), 4, 0))
			})
			d.expect(met, tc.met)
			d.expect(left, tc.late)
		})
		t.Run(tc.name+", a release", func(t *testing.T) {
			d := tc.desk(t)
			d.l.Takes(5)
			met, left := tc.meets(d, func(l *Limiter) error { return l.Release(context.Background(), 4) })
			d.expect(met, tc.rmet)
			d.expect(left, tc.rlate)
		})
	}
}

func (tc lateCase) desk(t *testing.T) *desk {
	n := NewProxied(t, 10, time.Hour, func(o *redis.Options) {
		o.MaxRetries = 1
		if tc.met[0] == '+' && strings.HasPrefix(tc.name, "given up") {
			o.MaxRetries = -1
		}
	})
	return &desk{Failures: Failing(n.RDB), n: n, l: n, other: n.Other()}
}

// meets returns what the late copy meets, and what it leaves.
func (tc lateCase) meets(d *desk, ask func(*Limiter) error) (met, left string) {
	if tc.before != nil {
		tc.before(d)
	}
	d.n.Want(tc.sent(d, ask))
	if tc.after != nil {
		tc.after(d)
	}
	met = d.state(d.l.Name())
	name, before := d.late[atHash].(string), d.dumps()
	err := d.n.Look.Do(context.Background(), d.late...).Err()
	if err != nil && !redis.HasErrorPrefix(err, "NOTINIT ") {
		d.n.Error(err)
	}
	if d.dumps() == before {
		return met, nothing
	}
	return met, d.state(name)
}

func (d *desk) expect(got, want string) {
	d.n.Helper()
	if got != want {
		d.n.Errorf("%q, want %q", got, want)
	}
}
