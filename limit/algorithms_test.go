package limit_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/concurrency"
	"github.com/redisson-go/rratelimiter/limit/fixedwindow"
	"github.com/redisson-go/rratelimiter/limit/leakybucket"
	"github.com/redisson-go/rratelimiter/limit/limittest"
	"github.com/redisson-go/rratelimiter/limit/slidingwindow"
	"github.com/redisson-go/rratelimiter/limit/tokenbucket"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// algorithms are all that have a form in memory and one on Redis. Capacity and rate of the buckets differ.
// Half a permit a second fills a bucket of one in two seconds.
var algorithms = []struct {
	name    string
	scripts []string
	suite   formtest.Suite
}{
	{"fixedwindow.Window", []string{"fixedwindow/take.lua"}, formtest.Suite{
		Kind: limittest.FixedWindow, Worst: 2, Grain: time.Millisecond,
		New: func(rate int64, interval time.Duration) formtest.Algorithm {
			return formtest.Of(fixedwindow.Window{Rate: rate, Interval: interval})
		},
	}},
	{"fixedwindow.Calendar", []string{"fixedwindow/calendar.lua"}, formtest.Suite{
		Kind: limittest.FixedWindow, Worst: 2, Fixed: true,
		New: func(rate int64, _ time.Duration) formtest.Algorithm {
			// In this zone it is 23:00 now.
			zone := time.FixedZone("", 23*60*60-int(time.Now().Unix()%(24*60*60)))
			return formtest.Of(fixedwindow.Calendar{Rate: rate, Unit: fixedwindow.Day, Location: zone})
		},
	}},
	{"slidingwindow.Log", []string{"slidingwindow/log.lua"}, formtest.Suite{
		Kind: limittest.SlidingLog, Worst: 1,
		New: func(rate int64, interval time.Duration) formtest.Algorithm {
			return formtest.Of(slidingwindow.Log{Rate: rate, Interval: interval})
		},
	}},
	{"slidingwindow.Counter", []string{"slidingwindow/counter.lua"}, formtest.Suite{
		Kind: limittest.FixedWindow, Worst: 2, // that is also how its permits come back
		New: func(rate int64, interval time.Duration) formtest.Algorithm {
			return formtest.Of(slidingwindow.Counter{Rate: rate, Interval: interval})
		},
	}},
	{"slidingwindow.Counter", []string{"slidingwindow/counter.lua"}, formtest.Suite{
		Kind: limittest.FixedWindow, Worst: 2,
		New: func(rate int64, interval time.Duration) formtest.Algorithm {
			return formtest.Of(slidingwindow.Counter{Rate: rate, Interval: interval, Parts: 1})
		},
	}},
	{"tokenbucket.Bucket", []string{"tokenbucket/take.lua"}, formtest.Suite{
		Kind: limittest.TokenBucket, Worst: 2,
		New: func(rate int64, interval time.Duration) formtest.Algorithm {
			b := tokenbucket.Bucket{Capacity: rate, Rate: float64(rate) / 2, Interval: interval / 2}
			return formtest.Of(b)
		},
	}},
	{"leakybucket.Meter", []string{"leakybucket/pour.lua"}, formtest.Suite{
		Kind: limittest.TokenBucket, Worst: 2,
		New: func(rate int64, interval time.Duration) formtest.Algorithm {
			return formtest.Of(leakybucket.Meter{Capacity: rate, Rate: 7 * rate, Interval: 7 * interval})
		},
	}},
	{"leakybucket.Queue", []string{"leakybucket/queue.lua"}, formtest.Suite{
		Kind: limittest.Paced, Worst: 2,
		New: func(rate int64, interval time.Duration) formtest.Algorithm {
			return formtest.Of(leakybucket.Queue{Rate: rate, Interval: interval, Capacity: rate})
		},
	}},
	{"concurrency.Limit", []string{"concurrency/*.lua", "concurrency/parts/*.lua"}, formtest.Suite{
		Kind: limittest.SlidingLog, Worst: 1,
		New: func(rate int64, interval time.Duration) formtest.Algorithm {
			return formtest.Of(concurrency.Limit{Most: rate, Lease: interval})
		},
	}},
}

func TestForms(t *testing.T) {
	for _, a := range algorithms {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			formtest.Run(t, a.suite)
		})
	}
}

func TestMemoryAllocatesNothing(t *testing.T) {
	ctx := t.Context()
	for _, a := range algorithms {
		l := redistest.Must(a.suite.New(1000, time.Hour).InMemory())(t)
		one := l.For("key")
		ofKey := func() { _, _ = one.Allow(ctx, 1) }
		if l, ok := l.Limiter.(limit.Ledger); ok {
			ofKey = func() { _, _ = l.For("key").Allow(ctx, 1) }
		}
		for range 2 { // granted, then refused
			if n := testing.AllocsPerRun(600, func() { _, _ = l.Allow(ctx, 1) }); n > 0 {
				t.Errorf("%s in memory: %v allocations for each call", a.name, n)
			}
			if n := testing.AllocsPerRun(600, ofKey); n > 0 {
				t.Errorf("%s in memory, with keys: %v allocations for each call", a.name, n)
			}
		}
	}
}

// docs/algorithms.md grants a user the commands of the scripts, and no others.
func TestThePageNamesTheCommandsOfTheScripts(t *testing.T) {
	page := redistest.Must(os.ReadFile("../docs/algorithms.md"))(t)
	for _, a := range algorithms {
		name := regexp.QuoteMeta(a.name)
		row := regexp.MustCompile("(?m)^\\| `" + name + "` \\| [^|]+ \\| (\\+[a-z +]+) \\|$").
			FindSubmatch(page)
		if row == nil {
			t.Errorf("docs/algorithms.md has no rights of %s", a.name)
			continue
		}
		got, want := strings.Fields(string(row[1])), commands(t, a.scripts...)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: docs/algorithms.md has %s, the scripts have %s", a.name, got, want)
		}
	}
}

// commands returns the rights that scripts need, sorted.
func commands(t *testing.T, patterns ...string) (rights []string) {
	t.Helper()
	for _, pattern := range patterns {
		for _, file := range redistest.Must(filepath.Glob(pattern))(t) {
			text := redistest.Must(os.ReadFile(file))(t)
			for _, m := range regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`).FindAllSubmatch(text, -1) {
				rights = append(rights, "+"+strings.ToLower(string(m[1])))
			}
		}
	}
	slices.Sort(rights)
	return slices.Compact(rights)
}
