package rules_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit/rules"
)

// Each algorithm works in memory and on Redis, with the numbers of the file. Its limits can be settled, but
// for those whose permits come back when the call ends.
func TestEachAlgorithmHasTheNumbersOfTheFile(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	for _, test := range []struct {
		limit    string
		most     int64
		interval time.Duration
	}{
		{"rate: 3/1h", 3, time.Hour},
		{"algorithm: rratelimiter, rate: 3/1h", 3, time.Hour},
		{"algorithm: fixed-window, rate: 3/1h", 3, time.Hour},
		{"algorithm: sliding-log, rate: 3/1h", 3, time.Hour},
		{"algorithm: sliding-counter, rate: 3/1h", 3, time.Hour},
		{"algorithm: sliding-counter, rate: 3/1h, parts: 4", 3, time.Hour},
		{"algorithm: token-bucket, rate: 3/1h", 3, time.Hour},
		{"algorithm: token-bucket, rate: 3/1h, burst: 5", 5, 100 * time.Minute},
		{"algorithm: token-bucket, rate: 4/1h, burst: 2", 2, 30 * time.Minute},
		{"algorithm: leaky-bucket, rate: 3/1h", 3, time.Hour},
		{"algorithm: leaky-bucket, rate: 3/1h, burst: 5", 5, 100 * time.Minute},
		{"rate: 3/day", 3, 24 * time.Hour},
		{"rate: 3, per: month, zone: Europe/Berlin, from: 2026-01-15T08:30", 3, 31 * 24 * time.Hour},
		{"algorithm: concurrency, most: 3, lease: 1h", 3, time.Hour},
	} {
		text, settled := limited(test.limit), limited(test.limit)+"\n    settle: true"
		for where, of := range map[string]func(text string) *rules.Rules{
			"memory": func(text string) *rules.Rules { return inMemory(t, text) },
			"Redis":  func(text string) *rules.Rules { return newStore(t, rdb).rules(t, text) },
		} {
			r := of(text)
			g := allow(t, r, get("/"), 1)
			runs := strings.Contains(test.limit, "concurrency")
			if g.Limit != test.most || g.Interval != test.interval || g.Remaining != test.most-1 ||
				g.Running() != runs || g.Reservation() != nil {
				t.Errorf("%s in %s: %+v, want %d in %v", test.limit, where, g, test.most, test.interval)
			}
			wantAllowed(t, r, get("/"), int(test.most)-1)
			if runs {
				continue
			}
			r = of(settled)
			for _, used := range []int64{0, 1, test.most - 1} { // less than is reserved, as much, more
				g = allow(t, r, get("/"), 1)
				redistest.NoError(t, g.Reservation().Settle(t.Context(), used))
			}
			if g = allow(t, r, get("/"), 1); g.Allowed || g.Remaining != 0 {
				t.Errorf("%s in %s, settled: %+v; want a refusal", test.limit, where, g.Result)
			}
		}
	}
}

// Permits of a running call come back with Done, once, and not after their lease has ended.
func TestPermitsOfARunningCallComeBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inMemory(t, limited("algorithm: concurrency, most: 2, lease: 1m"))
		first, late := allow(t, r, get("/"), 1), allow(t, r, get("/"), 1)
		if g := allow(t, r, get("/"), 1); g.Allowed || g.Running() {
			t.Errorf("%+v, want a refusal that holds nothing", g)
		}
		for range 2 {
			redistest.NoError(t, first.Done(t.Context()))
		}
		wantAllowed(t, r, get("/"), 1)
		time.Sleep(time.Minute)
		wantAllowed(t, r, get("/"), 2)
		redistest.NoError(t, late.Done(t.Context()))
		wantAllowed(t, r, get("/"), 0)
	})
}

// A quota of the calendar begins where its zone, and its first day, say so.
func TestQuotasOfTheCalendar(t *testing.T) {
	for limit, want := range map[string]time.Duration{ // from 2000-01-01 00:00 UTC on, a Saturday
		"rate: 3/day":                            24 * time.Hour,
		"rate: 3, per: day, zone: Europe/Berlin": 23 * time.Hour,
		"rate: 3, per: week":                     48 * time.Hour,
		"rate: 3/month, from: 2026-01-15":        14 * 24 * time.Hour,
		"rate: 3/month, from: 2026-01-15T08:30, zone: America/New_York": 349*time.Hour + 30*time.Minute,
		"algorithm: calendar, rate: 3, per: year, from: 2024-02-29":     59 * 24 * time.Hour,
	} {
		synctest.Test(t, func(t *testing.T) {
			if g := allow(t, inMemory(t, limited(limit)), get("/"), 1); g.ResetAfter != want {
				t.Errorf("%s: all are back after %v, want %v", limit, g.ResetAfter, want)
			}
		})
	}
}
