package rratelimiter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// A first copy that arrives after the second one is not charged, either.
func TestALateFirstCopyIsNotCharged(t *testing.T) {
	n := newLine(t, 10, time.Hour)
	release := n.proxy.HoldNext(1, isScript)
	done := make(chan error, 1)
	go func() {
		ok, err := n.l.TryAcquire(context.Background(), 10, 0)
		if !ok {
			err = errors.Join(err, errors.New("refused"))
		}
		done <- err
	}()
	until(t, func() bool { return n.proxy.Held() == 1 })
	n.proxy.Cut()
	n.want(<-done)
	before := n.scriptsRun()
	release()
	until(t, func() bool { return n.scriptsRun() > before })
	n.l.keeps(10, n.l.value(), n.l.permits())
	n.l.has(0)
}

// A release that is sent again finds that it was done, by its number, even when
// the limiter was empty and others have taken permits since.
func TestAReleaseInTwoCopiesIsDoneOnce(t *testing.T) {
	n := newLine(t, 10, time.Hour)
	n.l.takes(4)
	release := n.proxy.HoldNext(1, isScript)
	done := make(chan error, 1)
	go func() { done <- n.l.Release(context.Background(), 4) }()
	until(t, func() bool { return n.proxy.Held() == 1 })
	n.proxy.Cut()
	n.want(<-done)
	n.l.takes(7)
	before := n.scriptsRun()
	release() // the first copy, late
	until(t, func() bool { return n.scriptsRun() > before })
	n.l.has(3)
	n.l.keeps(10, n.l.value(), n.l.permits())
}

// What was taken has come back by itself when a release arrives an interval
// late, and what is out then is somebody else's.
func TestAReleaseThatIsAnIntervalLateGivesNothingBack(t *testing.T) {
	const interval = 50 * time.Millisecond
	n := newLine(t, 10, interval)
	n.l.takes(4)
	_ = n.proxy.HoldNext(1, isScript) // the first copy never arrives
	start := time.Now()
	done := make(chan error, 1)
	go func() { done <- n.l.Release(context.Background(), 4) }()
	until(t, func() bool { return n.proxy.Held() == 1 && time.Since(start) > interval })
	n.proxy.Cut()
	n.want(<-done)
	n.l.has(6)
	n.l.keeps(10, n.l.value(), n.l.permits())
}

// What the first copy of a request meets that comes when nobody waits for it any
// more, for its second copy was answered, or its caller was told of an error. It
// does nothing where anything that the session was told of came after it.
//
// What is made anew knows nothing of what came before it: there, and a minute after
// the last request of its Client, a late copy is a request like any other.
func TestWhatALateCopyMeets(t *testing.T) {
	const nothing = "" // nothing has changed, to the byte
	again, never := func(d *desk, ask func(*limiter) error) error { return d.asks(1, ask) }, func(d *desk, ask func(*limiter) error) error {
		if err := d.asks(1, ask); err == nil {
			d.n.Error("it was to be given up")
		}
		return nil
	}
	type sent func(d *desk, ask func(*limiter) error) error
	acquire := func(l *limiter) error { return second(l.TryAcquire(context.Background(), 4, 0)) }
	release := func(l *limiter) error { return l.Release(context.Background(), 4) }
	for _, tc := range []struct {
		name   string
		sent   sent
		before func(d *desk)
		after  func(d *desk)
		met    string // by an acquire: session, records and value
		late   string // after it
		rmet   string // by a release of 4 of 5
		rlate  string
	}{
		{"its second copy was granted", again, nil, nil,
			"+0: 4 at +0; [4]; 6", nothing, "+0: -4; [1]; 9", nothing},
		{"its second copy was refused", again, func(d *desk) { d.other.takes(10 - d.out()) }, func(d *desk) { d.other.gives(10) },
			"+0: 0 at +0; []; 10", nothing, "+0: -4; []; 10", nothing},
		{"a later request was granted", again, nil, func(d *desk) { d.l.takes(2) },
			"+1: 2 at +0; [2 4]; 4", nothing, "+1: 2 at +0; [1 2]; 7", nothing},
		{"a later request was refused", again, nil, func(d *desk) { d.l.refused(10, time.Hour) },
			"+0: 4 at +0; [4]; 6", nothing, "+0: -4; [1]; 9", nothing},
		{"a later request gave back", again, nil, func(d *desk) { d.l.gives(1) },
			"+1: -1; [3]; 7", nothing, "+1: -1; []; 10", nothing},
		{"given up, a later request was granted", never, nil, func(d *desk) { d.l.takes(2) },
			"+1: 2 at +0; [2]; 8", nothing, "+1: 2 at +0; [2 5]; 3", nothing},
		{"given up, a later request was refused", never, nil, func(d *desk) {
			others := 10 - d.out()
			d.other.takes(others)
			d.l.refused(1, time.Hour)
			d.other.gives(others)
		}, "+1: 0 at +0; []; 10", nothing, "-1: 5 at +0; [5]; 5", "+0: -4; [1]; 9"}, // who gave it back knows of no number
		{"given up, a later request could not be", never, nil, func(d *desk) {
			if _, err := d.l.TryAcquire(context.Background(), 11, 0); !errors.Is(err, rratelimiter.ErrPermitsExceedRate) {
				d.n.Error(err)
			}
		}, "+1: 0 at +0; []; 10", nothing, "-1: 5 at +0; [5]; 5", "+0: -4; [1]; 9"},
		{"given up, a later request gave back", never, nil, func(d *desk) { d.l.gives(1) },
			"+1: 0; []; 10", nothing, "+1: -1; [4]; 6", nothing},
		{"given up and withdrawn", never, nil, func(d *desk) { d.withdrawn() },
			"+1: 0; []; 10", nothing, "-1: 5 at +0; [5]; 5", "+0: -4; [1]; 9"},
		{"a rate was set", again, nil, func(d *desk) { d.n.want(d.other.SetRate(context.Background(), overall, 10, time.Hour)) },
			"+0: 4; []; ", "+0: 4; []; 10", "+0: -4; []; ", nothing},
		{"a rate was set, and keeps state", again, nil, func(d *desk) {
			d.n.want(d.other.SetRate(context.Background(), overall, 20, time.Hour, rratelimiter.WithKeepState()))
		}, "+0: 4 at +0; [4]; 16", nothing, "+0: -4; [1]; 19", nothing},
		{"deleted", again, nil, func(d *desk) { d.deleted() }, "none; []; ", nothing, "none; []; ", nothing},
		{"deleted and made anew", again, nil, func(d *desk) {
			d.deleted()
			_, err := d.other.TrySetRate(context.Background(), overall, 10, time.Hour)
			d.n.want(err)
		}, "none; []; ", "+0: 4 at +0; [4]; 6", "none; []; ", "+0: 0; []; 10"},
		{"renamed", again, nil, func(d *desk) { d.n.want(d.l.Rename(context.Background(), d.l.Name()+"new")) },
			"+0: 4 at +0; [4]; 6", nothing, "+0: -4; [1]; 9", nothing},
		{"used by others for an hour, but a few", again, nil, func(d *desk) { d.passes(59*time.Minute, 7) },
			"+0: 4 at -3540000; [4]; 6", nothing, "+0: -4; [1]; 9", nothing},
		{"swept out", again, nil, func(d *desk) { d.passes(61*time.Second, 20) },
			"none; [4]; 6", "+0: 4 at -61000; [4 4]; 2", "none; [1]; 9", "+0: -1; []; 10"},
	} {
		for what, ask := range map[string]func(*limiter) error{"an acquire": acquire, "a release": release} {
			t.Run(tc.name+", "+what, func(t *testing.T) {
				n := newLine(t, 10, time.Hour, func(o *redis.Options) {
					if o.MaxRetries = 1; tc.met[0] == '+' && strings.HasPrefix(tc.name, "given up") {
						o.MaxRetries = -1
					}
				})
				d := &desk{postman: n.postman(), l: n.l, other: n.somebodyElse()}
				met, after := tc.met, tc.late
				if what == "a release" {
					met, after = tc.rmet, tc.rlate
					n.l.takes(5)
				}
				if tc.before != nil {
					tc.before(d)
				}
				n.want(tc.sent(d, ask))
				if tc.after != nil {
					tc.after(d)
				}
				if got := d.state(d.l.Name()); got != met {
					t.Errorf("it meets %q, want %q", got, met)
				}
				name, before := d.late[atHash].(string), d.dumps()
				err := n.look.Do(context.Background(), d.late...).Err()
				if err != nil && !redis.HasErrorPrefix(err, "NOTINIT ") {
					t.Error(err)
				}
				switch now := d.dumps(); {
				case after == nothing && now != before:
					t.Errorf("it has changed %q to %q", before, now)
				case after != nothing && d.state(name) != after:
					t.Errorf("it leaves %q, want %q", d.state(name), after)
				}
			})
		}
	}
}

// A first copy that arrives when the release has gone on, or another one has
// been done, gives nothing back.
func TestALateFirstCopyOfARelease(t *testing.T) {
	for name, next := range map[string]func(l *limiter){
		"alone":          func(*limiter) {},
		"before another": func(l *limiter) { l.gives(1) },
	} {
		for _, records := range []int{100, 5_000} {
			t.Run(fmt.Sprint(name, " ", records), func(t *testing.T) {
				n := newLine(t, 20_000, time.Hour)
				n.l.crowd(n.now-500, 100, 10_000, 1)
				n.set(n.l.value(), 10_000)
				release := n.proxy.HoldNext(1, isScript)
				done := make(chan error, 1)
				go func() { done <- n.l.Release(context.Background(), int64(records)) }()
				until(t, func() bool { return n.proxy.Held() == 1 })
				n.proxy.Cut()
				n.want(<-done)
				next(n.l)
				left, before := n.l.size(), n.scriptsRun()
				release()
				until(t, func() bool { return n.scriptsRun() > before })
				if got := n.l.size(); got != left {
					t.Fatalf("the late copy has given back %d permits", left-got)
				}
			})
		}
	}
}

// A first copy that comes late charges nothing, though there is enough for both,
// and leaves the record where it is.
func TestALateFirstCopyMovesNoRecord(t *testing.T) {
	n := newLine(t, 20, time.Hour)
	c := rratelimiter.New(n.rdb) // by the time of the server, which goes on
	t.Cleanup(func() { _ = c.Close() })
	n.l.RateLimiter = c.RateLimiter(n.l.Name())
	release := n.proxy.HoldNext(1, isScript)
	done := make(chan error, 1)
	go func() { _, err := n.l.TryAcquire(context.Background(), 5, 0); done <- err }()
	until(t, func() bool { return n.proxy.Held() == 1 })
	n.proxy.Cut()
	n.want(<-done)
	at := n.look.ZRangeWithScores(t.Context(), n.l.permits(), 0, 0).Val()[0].Score
	before := n.scriptsRun()
	release()
	until(t, func() bool { return n.scriptsRun() > before })
	n.l.keeps(20, n.l.value(), n.l.permits())
	n.l.has(15)
	if got := n.look.ZRangeWithScores(t.Context(), n.l.permits(), 0, 0).Val()[0].Score; got != at {
		t.Fatalf("the record was moved from %.0f to %.0f", at, got)
	}
}

// The clearing of the other type's keys that comes late leaves the type in force alone.
func TestALateClearHarmsNobody(t *testing.T) {
	n := newLine(t, 10, time.Hour)
	same := rratelimiter.New(n.look, rratelimiter.WithID(n.client.ID()))
	t.Cleanup(func() { _ = same.Close() })
	other := &limiter{same.RateLimiter(n.l.Name()), n.bench}
	n.want(n.l.SetRate(t.Context(), overall, 10, time.Hour))
	n.set(n.l.value()+":"+n.client.ID(), 1) // something to clear
	scripts := 0
	release := n.proxy.HoldNext(1, func(args []string) bool {
		if isScript(args) {
			scripts++
		}
		return scripts == 2
	})
	done := make(chan error, 1)
	go func() { done <- n.l.SetRate(context.Background(), overall, 10, time.Hour) }()
	until(t, func() bool { return n.proxy.Held() == 1 })
	n.want(other.SetRate(t.Context(), perClient, 5, time.Hour))
	other.takes(3)
	release()
	n.want(<-done)
	other.has(2)
}

// A first copy that arrives after the second one was answered, or after the
// request was withdrawn, charges nothing, whatever was granted meanwhile.
func TestWithAResolutionALateFirstCopyIsNotCharged(t *testing.T) {
	for _, retries := range []int{1, -1} { // answered by the second copy, or withdrawn
		for _, meanwhile := range []int64{0, 3} {
			n, m := rough(t, 30, func(o *redis.Options) { o.MaxRetries = retries })
			late := n.proxy.HoldNext(1, isScript)
			done := make(chan error, 1)
			go func() { _, err := m.TryAcquire(context.Background(), 10, 0); done <- err }()
			until(t, func() bool { return n.proxy.Held() == 1 })
			before := n.scriptsRun()
			n.proxy.Cut()
			taken := meanwhile
			if err := <-done; retries > 0 {
				n.want(err)
				taken += 10
			}
			until(t, func() bool { return n.scriptsRun() > before }) // the second copy, or the withdrawal
			if meanwhile > 0 {
				m.takes(meanwhile)
			}
			before = n.scriptsRun()
			late()
			until(t, func() bool { return n.scriptsRun() > before })
			m.has(30 - taken)
			m.keeps(30, m.value(), m.permits())
		}
	}
}

// A rate clears what was taken, but not the knowledge of what was asked for.
func TestALateCopyAfterARateIsGrantedNothing(t *testing.T) {
	n := newLine(t, 10, time.Hour, sendsOnce)
	comes := n.proxy.HoldNext(1, isScript)
	done := make(chan error, 1)
	go func() { done <- second(n.l.TryAcquire(context.Background(), 2, 0)) }()
	until(t, func() bool { return n.proxy.Held() == 1 })
	n.proxy.Cut()
	if err := <-done; !errors.Is(err, rratelimiter.ErrNoAnswer) {
		t.Fatal(err)
	}
	n.l.takes(1)
	n.want(n.l.SetRate(t.Context(), overall, 10, time.Hour))
	before := n.scriptsRun()
	comes()
	until(t, func() bool { return n.scriptsRun() > before })
	if out := n.out(n.l.permits()); out != 0 {
		t.Errorf("%d are out, and nobody holds them", out)
	}
}

// A copy that comes when its caller has been refused and waits: what it takes
// is taken back, and the caller served.
func TestALateCopyServesItsWaiter(t *testing.T) {
	n := newLine(t, 1, time.Hour)
	other := n.somebodyElse()
	other.takes(1)
	release := n.proxy.HoldNext(1, isScript)
	done := make(chan error, 1)
	go func() {
		ok, err := n.l.TryAcquire(context.Background(), 1, 5*time.Second)
		if !ok {
			err = errors.Join(err, errors.New("refused"))
		}
		done <- err
	}()
	until(t, func() bool { return n.proxy.Held() == 1 })
	before := n.scriptsRun()
	n.proxy.Cut()
	until(t, func() bool { return n.scriptsRun() > before }) // the second copy, refused
	other.gives(1)
	release()
	n.want(<-done)
	n.l.keeps(1, n.l.value(), n.l.permits())
	if got := fmt.Sprint(n.l.records(n.l.permits())); got != "[1]" {
		t.Fatalf("records %s, want [1]", got)
	}
}

// A first copy of a merged call that arrives after the second one was answered
// charges nothing, or has it taken back: whether all of it was granted, a part,
// or nothing.
func TestALateFirstCopyOfAMergedCall(t *testing.T) {
	for name, tc := range map[string]struct {
		before  int64 // taken by somebody else, who gives them back before the late copy arrives
		permits []int64
		granted int64
	}{
		"all granted, and enough is left for all again":  {0, []int64{4, 4}, 8},
		"all granted, and enough is left for a part":     {0, []int64{4, 4, 4, 4}, 16},
		"a part granted, and enough comes back for all":  {22, []int64{4, 4}, 4},
		"nothing granted, and enough comes back for all": {29, []int64{4, 4}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			const rate = 30
			inBothModes(t, rate, nil, func(p *party) {
				java := fmt.Sprintf("\x10%016d%c\x00\x00\x00", 0, byte(tc.before))
				if tc.before > 0 {
					p.l.record(p.now-1, java)
					p.set(p.l.value(), rate-tc.before)
				}
				guests := p.all(tc.permits...)
				held := p.proxy.Held()
				late := p.proxy.HoldNext(1, isScript)
				p.open()
				until(p.T, func() bool { return p.proxy.Held() == held+1 })
				p.proxy.Cut()
				p.agree(rate, rate-1-tc.before, guests)
				if tc.before > 0 {
					p.want(p.look.ZRem(context.Background(), p.l.permits(), java).Err())
					p.want(p.look.IncrBy(context.Background(), p.l.value(), tc.before).Err())
				}
				before := p.scriptsRun()
				late()
				until(p.T, func() bool { return p.scriptsRun() > before })
				until(p.T, func() bool { return sum(p.l.records(p.l.permits())) == 1+tc.granted })
				p.wantTaken(rate, 1+tc.granted)
			})
		})
	}
}
