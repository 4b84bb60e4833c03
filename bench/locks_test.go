package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// at is a hold from a ms to another one.
func at(from, to, caller int) lockHold {
	return lockHold{time.UnixMilli(int64(from)), time.UnixMilli(int64(to)), caller}
}

// The time between holds is counted, and whether another caller came.
func TestHandingOf(t *testing.T) {
	h := handingOf([]lockHold{at(6, 7, 1), at(0, 1, 1), at(11, 12, 2), at(3, 4, 1)})
	h.add(handingOf([]lockHold{at(20, 21, 1), at(30, 31, 2)}))
	used := usage{1, map[string]command{"evalsha": {calls: 8}}}
	s := h.sample(used)
	want := "{2000 9000 190.476 0.5 2 250000}"
	if got := fmt.Sprintf("{%.0f %.0f %.3f %g %g %.0f}", s.p50, s.p99, s.perSecond, s.others, s.scripts,
		s.cpu); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	unknown := handingOf([]lockHold{at(0, 1, noCaller), at(2, 3, noCaller)})
	if s := unknown.sample(used); !math.IsNaN(s.others) {
		t.Errorf("of callers that are not known, %g went to others", s.others)
	}
	none := handingOf(nil)
	if s := none.sample(usage{}); s.perSecond > 0 || s.p99 > 0 {
		t.Errorf("without holds: %+v", s)
	}
}

// Holds count from when both sides have begun until one has ended.
func TestShareOf(t *testing.T) {
	golang := []lockHold{at(10, 11, 0), at(30, 31, 1), at(40, 41, 0), at(60, 61, 0), at(110, 111, 0)}
	java := []lockHold{at(0, 1, noCaller), at(20, 21, noCaller), at(100, 101, noCaller), at(50, 51, noCaller)}
	s := shareOf(golang, java)
	if s.golang != 4 || s.java != 3 || s.fewest != 0 || s.most != 3 {
		t.Errorf("%+v", s)
	}
	got := fmt.Sprintf("%.3f %.3f %.3f", s.goWithout, s.javaWithout, s.perSecond)
	if got != "40.000 50.000 77.778" {
		t.Errorf("longest without and holds a second: %s", got)
	}
	golang = []lockHold{at(0, 1, 0), at(10, 11, 0), at(20, 21, 0), at(30, 31, 0)}
	java = []lockHold{at(15, 16, noCaller), at(25, 26, noCaller)}
	if s := shareOf(golang, java); s.golang != 1 || s.java != 2 {
		t.Errorf("of Java, which began later and ended earlier: %+v", s)
	}
	b := besideOf([]lockShare{s, {golang: 3, java: 1}, {golang: 1, java: 1}})
	if float64(b.Least) != 0.5 || math.Abs(float64(b.Share)-3.0/7) > 1e-9 {
		t.Errorf("%+v", b)
	}
	if starved := besideOf([]lockShare{shareOf(golang, nil)}); starved.Least > 0 {
		t.Errorf("without Java: %+v", starved)
	}
}

// A crowd notices that two were inside at once, and ends when a caller has failed.
func TestLockCrowd(t *testing.T) {
	needs(t, "redis-server")
	server, ctx := redistest.Start(t), t.Context()
	rdb := server.Client(t)
	both := make(chan struct{}) // the other has come, too
	lone := lockCrowd{processes: 1, callers: 1, rounds: 3, name: redistest.Name(t)}
	side := &goLocks{lockers: []locker{noLock}, rdbs: []*redis.Client{rdb}}
	holds, err := side.run(ctx, lone)
	if err == nil {
		err = lone.inside(ctx, server.Admin(), len(holds))
	}
	if err != nil || len(holds) != 3 {
		t.Errorf("%d holds, %v", len(holds), err)
	}
	err = lone.inside(ctx, server.Admin(), 4) // one that was lost
	if err == nil || !strings.Contains(err.Error(), "two were inside") {
		t.Errorf("error %v", err)
	}

	failed := errors.New("failed")
	side.lockers = append(side.lockers, func(context.Context, string) (func(context.Context) error, error) {
		close(both)
		return nil, failed
	})
	side.lockers[0] = func(ctx context.Context, _ string) (func(context.Context) error, error) {
		<-both
		<-ctx.Done() // nobody would unlock
		return nil, ctx.Err()
	}
	side.rdbs = append(side.rdbs, rdb)
	two := lockCrowd{processes: 2, callers: 2, rounds: 3, name: redistest.Name(t)}
	if _, err := side.run(ctx, two); !errors.Is(err, failed) {
		t.Errorf("error %v", err)
	}
	two.until = time.UnixMilli(1)
	if holds, err := side.run(ctx, two); len(holds) > 0 || err != nil {
		t.Errorf("after its time: %d holds, %v", len(holds), err)
	}
	if thrown(javapeer.LockCrowdResult{Errors: map[string]int{"RedisTimeoutException": 1}}) == nil {
		t.Error("an exception is no error")
	}
}

// A rival that fails loses its figures in a scene; this library's failure is one of the part.
func TestLockTurnFails(t *testing.T) {
	needs(t, "redis-server")
	s := scope{brief: true, rounds: 1}
	var err error
	func() {
		defer func() { s.End(recover(), &err) }()
		server := redistest.Start(&s)
		a := &lockArena{scope: &s, server: server, admin: server.Admin(), scenes: lockScenes(&s)}
		failed := errors.New("failed")
		side := &goLocks{rdbs: []*redis.Client{server.Client(&s)}, lockers: []locker{
			func(context.Context, string) (func(context.Context) error, error) { return nil, failed },
		}}
		rival := &lockResult{
			lockEntrant: lockEntrant{name: "rival", in: inAlone},
			samples:     make([][]lockSample, len(a.scenes)), failed: make([]bool, len(a.scenes)),
		}
		rival.samples[sceneAlone] = make([]lockSample, 1)
		for range 2 {
			if e := a.turn(t.Context(), rival, side, sceneAlone); e != nil {
				t.Error(e)
			}
		}
		if len(a.failures) != 1 || !rival.failed[sceneAlone] || len(rival.samples[sceneAlone]) > 0 {
			t.Errorf("%q, %+v", a.failures, rival)
		}
		a.results = []*lockResult{rival}
		if rows := a.aloneRows(); len(rows) > 0 {
			t.Errorf("figures of one that has failed: %+v", rows)
		}
		for _, goal := range a.targets() {
			if strings.Contains(goal.What, "by Redisson") && goal.Met {
				t.Errorf("met without Redisson: %+v", goal)
			}
		}
		rival.name, rival.failed[sceneAlone] = ourLockName, false
		if e := a.turn(t.Context(), rival, side, sceneAlone); !errors.Is(e, failed) {
			t.Errorf("error %v", e)
		}
	}()
	if err != nil {
		t.Error(err)
	}
}
