package fixedwindow_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/fixedwindow"
)

func TestBoundsOfACalendar(t *testing.T) {
	formtest.Refuses(t, map[string]fixedwindow.Calendar{
		"Rate is 0":             {Unit: fixedwindow.Day},
		"Rate is 1099511627777": {Rate: 1<<40 + 1, Unit: fixedwindow.Day},
		"Unit is 0, must be Day, Week, Month or ":  {Rate: 1},
		"Unit is 5, must be Day, Week, Month or Y": {Rate: 1, Unit: 5},
	})
}

// Quotas begin anew with their period, to the microsecond, in each form. It is Saturday 2000-01-01 00:00 UTC.
func TestQuotas(t *testing.T) {
	berlin := redistest.Must(time.LoadLocation("Europe/Berlin"))(t)
	quota := func(rate int64, unit fixedwindow.Unit, zone *time.Location) formtest.Algorithm {
		return formtest.Of(fixedwindow.Calendar{Rate: rate, Unit: unit, Location: zone})
	}
	formtest.Tell(t, quota(10, fixedwindow.Day, berlin), map[string]string{
		"the day ends at midnight in its zone": "" +
			"take 1 reset 23h; sleep 22h59m59.999999s; take 9 reset 1us; refuse 1 retry 1us; sleep 1us; " +
			"take 10 reset 24h; refuse 1 retry 24h",
		"the day has 23 hours, and 25": "" +
			"sleep 2039h; take 1 reset 23h; sleep 5207h; take 1 reset 25h",
		"the key expires at the end, which nothing else moves": "" +
			"take 1; sleep 0.5ms; take 1; redis PTTL KEY = 82799999..82800000; redis PERSIST KEY; " +
			"take 8; refuse 1; redis PTTL KEY = 82799999..82800000; redis PERSIST KEY; sleep 23h; drain 10",
		"memory keeps a key for a day of 25 hours": "" +
			"sleep 7222h0m1s; other: take 1; sleep 23h59m59s; one: take 10; sleep 2s; other: take 1; " +
			"sleep 24h0m1s; other: take 1; one: refuse 1",
		"a debt ends with the day": "take 4; charge 16 left 0 debt 10; sleep 23h; take 10",
		"permits come back only to their day": "" +
			"take 4 as a; sleep 23h; take 10; back 4 a; refuse 1; release 3; take 3; refuse 1",
		"a clock set back in the night grants no more": "" +
			"take 10; clock 23h; take 9; clock -1m; take 1; refuse 1 retry 24h1m; clock 1m; " +
			"refuse 1; clock -1m; sleep 1m; refuse 1; sleep reset; take 10",
		"a clock set back by days keeps permits for two days at most": "" +
			"take 1; clock 2400h; take 10; clock -2400h; refuse 1 retry 47h; see none reset 47h; " +
			"sleep 23h; refuse 1 retry 24h; sleep retry; take 10 reset 24h",
	})
	second := time.Date(2026, 1, 15, 8, 30, 0, 300_000, time.UTC)
	formtest.Tell(t, formtest.Of(fixedwindow.Calendar{Rate: 10, Unit: fixedwindow.Day, Anchor: second}),
		map[string]string{"a period begins with a second, though the anchor has a part of it": "" +
			"take 1 reset 8h30m; sleep 8h29m59.9999s; take 9; refuse 1 retry 100us; sleep 100us; drain 10"})
	deploy := map[string]formtest.Algorithm{
		"year": quota(10, fixedwindow.Year, nil),
		"fifteenth": formtest.Of(fixedwindow.Calendar{
			Rate: 10, Unit: fixedwindow.Month, Anchor: time.Date(2000, 1, 15, 0, 0, 0, 0, time.UTC),
		}),
		"day": quota(10, fixedwindow.Day, nil), "month": quota(100, fixedwindow.Month, nil),
		"other": quota(20, fixedwindow.Day, nil),
	}
	formtest.Play{Algorithms: deploy}.Tell(t, map[string]string{
		"the longest end holds, whoever began": "" +
			"day: take 4 as a; month: take 1 reset 744h; day: drain 5; sleep 24h; " +
			"day: refuse 1 retry 720h; day: back 4 a; day: drain 4; month: drain 90; sleep 720h; " +
			"day: drain 10; month: drain 90",
		"periods that overlap for more than a year keep the permits": "" +
			"year: take 4; sleep 8500h; fifteenth: take 1 reset 620h; year: drain 5; fifteenth: refuse 1; " +
			"sleep 620h; year: drain 10",
		"another rate keeps the permits": "" +
			"day: drain 10; other: drain 10; day: refuse 1; sleep 24h; day: drain 10",
	})
}

// Memory and Redis decide alike, whatever the clock does.
func TestQuotasDecideAlike(t *testing.T) {
	mini := formtest.NewMini(t)
	verbs := []string{"a", "r", "p", "c"}
	for seed := range uint64(redistest.Rounds(t, 40)) {
		random := rand.New(rand.NewPCG(seed, 45))
		c := fixedwindow.Calendar{
			Rate: 1 + random.Int64N(20), Unit: fixedwindow.Unit(1 + random.IntN(4)),
			Location: redistest.Must(time.LoadLocation("Pacific/Apia"))(t),
			Anchor:   time.Unix(random.Int64N(2e9), 0),
		}
		now := time.Date(2011, 12, 1+random.IntN(30), 0, 0, 0, 0, time.UTC)
		mini.FlushAll()
		mini.SetTime(now)
		memory := redistest.Must(c.InMemory(limit.WithClock(func() time.Time { return now })))(t)
		shared := redistest.Must(c.OnRedis(mini.Client, "name"))(t)
		for i := range 150 {
			both := func(l limit.Ledger) (limit.Result, error) {
				r := rand.New(rand.NewPCG(seed, uint64(i)))
				n := 1 + r.Int64N(c.Rate)
				switch verbs[r.IntN(len(verbs))] {
				case "r":
					return limit.Result{}, l.Release(t.Context(), n)
				case "p":
					return l.Peek(t.Context())
				case "c":
					if r.IntN(9) == 0 {
						return l.Charge(t.Context(), n)
					}
				}
				return l.Allow(t.Context(), n)
			}
			want := redistest.Must(both(memory))(t)
			got := redistest.Must(both(shared))(t)
			if got.Name = ""; !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d, %+v, call %d at %v: on Redis %+v, want %+v", seed, c, i, now, got, want)
			}
			called := now
			now = now.Add(time.Duration(random.Int64N(int64(10 * time.Hour))))
			if random.IntN(10) == 0 {
				now = now.Add(-time.Duration(random.Int64N(int64(1000 * time.Hour))))
			}
			if random.IntN(20) == 0 {
				now = now.Add(time.Duration(random.Int64N(int64(5000 * time.Hour))))
			}
			for _, key := range mini.Keys() { // miniredis adds nothing to the times to live
				mini.SetTTL(key, mini.TTL(key)+max(0, called.Sub(now)))
			}
			mini.SetTime(now)
		}
	}
}

// The clock of Redis decides, also if it is days off: one more round trip for each period, and no more.
func TestTheClockOfRedisDecides(t *testing.T) {
	for _, off := range []time.Duration{-9 * 24 * time.Hour, -time.Minute, time.Minute, 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			mini := formtest.NewMini(t)
			mini.SetTime(time.Now().Add(off))
			c := fixedwindow.Calendar{Rate: 10, Unit: fixedwindow.Day}
			l := redistest.Must(c.OnRedis(mini.Client, "name"))(t)
			trips := redistest.RoundTrips(mini.Client)
			want := 24*time.Hour - (off%(24*time.Hour)+24*time.Hour)%(24*time.Hour)
			for range 10 {
				if r := formtest.Allow(t, l, 1, true); r.ResetAfter != want {
					t.Errorf("%v off: all are back in %v, want %v", off, r.ResetAfter, want)
				}
			}
			mini.SetTime(time.Now().Add(off + want))
			formtest.Allow(t, l, 10, true)
			// 11 calls, a script that is unknown, and at most two periods.
			if n := trips.Load(); n > 14 {
				t.Errorf("%v off: 11 calls take %d round trips", off, n)
			}
		})
	}
}

// A text that no limiter has written counts as none.
func TestForeignTextsAreNoQuota(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	l := redistest.Must(fixedwindow.Calendar{Rate: 3, Unit: fixedwindow.Day}.OnRedis(rdb, "name"))(t)
	const began, ends = " 1700000000000000", " 9000000000000000"
	live := fmt.Sprintf(" %d %d", time.Now().UnixMicro()-1e6, time.Now().UnixMicro()+60e6)
	for _, text := range []string{
		strings.Repeat("1", 3<<20), "3", "3" + began, "3" + began + ends, "3" + ends + " 1",
		"9999999999999" + live, strings.Repeat("0", 50) + "3" + live, "3" + ends + began,
		"3 0 1", "3 1" + ends, "-3" + began + ends, "3 nan nan", "nan" + began + " inf",
		"9999999999999" + began + ends, "3" + began + strings.Repeat("9", 29), "03" + began + ends + " ",
	} {
		redistest.NoError(t, rdb.Set(t.Context(), "{name}:calendar", text, time.Minute).Err())
		formtest.Allow(t, l, 3, true)
		formtest.Allow(t, l, 1, false)
		if ttl := rdb.PTTL(t.Context(), "{name}:calendar").Val(); ttl > 24*time.Hour {
			t.Errorf("%.50q: the key lives for %v", text, ttl)
		}
	}
}
