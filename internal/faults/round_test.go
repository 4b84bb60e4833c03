package faults

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/grants"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// newRound returns a round of callers that have done nothing yet.
func newRound(t *testing.T, f Fault) *Round {
	return &Round{Testbed: &Testbed{t: t, ctx: t.Context()}, Fault: f,
		Name: redistest.Name(t), Log: &grants.Log{},
		report: &Report{}, golang: &callers{errors: map[string]int{}, texts: map[string]string{}}}
}

// wants expects what is wrong to be just that.
func (r *Round) wants(t *testing.T, wrong ...string) {
	t.Helper()
	for i, want := range wrong {
		if len(r.report.Wrong) != len(wrong) || !strings.Contains(r.report.Wrong[i], want) {
			t.Fatalf("wrong: %q, want %q", r.report.Wrong, wrong)
		}
	}
	if len(wrong) == 0 && len(r.report.Wrong) > 0 {
		t.Fatalf("wrong: %q", r.report.Wrong)
	}
}

// Whatever callers may not see is found.
func TestWhatIsWrongIsFound(t *testing.T) {
	now := time.Now()
	fifty := grants.Entry{Who: "Go 0", Start: now, End: now, Permits: limit.Rate}
	for name, c := range map[string]struct {
		does  func(r *Round)
		wrong []string
	}{
		"nothing": {func(r *Round) {
			r.Log.Add(fifty)
			r.golang.note(0, ended{now, now.Add(tolerance)}, now, nil)
			r.golang.note(0, ended{now, now}, now, rratelimiter.ErrNoAnswer)
			r.golang.texts, r.golang.errors = map[string]string{noAnswer: "", "OOM": ""}, map[string]int{}
		}, nil},
		"one permit too many": {func(r *Round) {
			r.Log.Add(fifty)
			r.Log.Add(grants.Entry{Who: "Go 1", Start: now, End: now, Permits: 1})
		}, []string{"over the limit: 51 permits"}},
		"late": {func(r *Round) {
			r.golang.note(0, ended{now, now.Add(tolerance + time.Millisecond)}, now, nil)
		}, []string{fmt.Sprintf("late by %v", tolerance+time.Millisecond)}},
		"an error that must not be": {func(r *Round) {
			r.golang.note(0, ended{now, now}, now, errors.New("it broke"))
		}, []string{"1 times " + unnamed + ": it broke"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRound(t, Fault{Errors: []string{"OOM"}})
			c.does(r)
			r.judge(&control{})
			r.wants(t, c.wrong...)
		})
	}
}

// A machine that held up all callers explains a late caller.
func TestALateMachineIsNoFault(t *testing.T) {
	now := time.Now()
	r := newRound(t, Fault{})
	r.golang.note(0, ended{now, now.Add(2 * tolerance)}, now, nil)
	r.judge(&control{late: []span{{now, now.Add(tolerance)}}})
	r.wants(t)
}

// Permits that are not back after an interval are lost, and found. So is a value that
// does not fit the records.
func TestPermitsThatAreLostAreFound(t *testing.T) {
	s := redistest.Start(t)
	for name, c := range map[string]struct {
		interval time.Duration
		value    string // in the end
		wrong    []string
	}{
		"nothing":         {limit.Interval, "", nil},
		"not back":        {2 * limit.Interval, "", []string{"3 permits were lost"}},
		"a value too low": {limit.Interval, "7", []string{"in the end 7 are left and 3 outstanding of 50"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRound(t, Fault{})
			r.look = s.Admin()
			l := rratelimiter.New(r.look).RateLimiter(r.Name)
			r.must(l.SetRate(t.Context(), rratelimiter.Overall, limit.Rate, c.interval))
			redistest.Must(l.TryAcquire(t.Context(), 3, 0))(t)
			if c.value != "" {
				r.must(r.look.Set(t.Context(), "{"+r.Name+"}:value", c.value, 0).Err())
				r.invariant()
			} else {
				r.settle()
			}
			r.wants(t, c.wrong...)
		})
	}
}
