package limit_test

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
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
			return leakybucket.Queue{Rate: rate, Interval: interval, Capacity: rate}
		},
	}},
	{"concurrency.Limit", []string{"concurrency/*.lua", "concurrency/parts/*.lua"}, formtest.Suite{
		Kind: limittest.SlidingLog, Worst: 1,
		New: func(rate int64, interval time.Duration) formtest.Algorithm {
			return concurrency.Limit{Most: rate, Lease: interval}
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

// A limiter in memory allocates nothing while it is used.
func TestMemoryAllocatesNothing(t *testing.T) {
	ctx := t.Context()
	for _, a := range algorithms {
		of := a.suite.New(1000, time.Hour)
		one, many := redistest.Must(of.InMemory())(t), redistest.Must(of.InMemoryKeyed())(t)
		for range 2 { // granted, then refused
			if n := testing.AllocsPerRun(600, func() { _, _ = one.Allow(ctx, 1) }); n > 0 {
				t.Errorf("%s in memory: %v allocations for each call", a.name, n)
			}
			if n := testing.AllocsPerRun(600, func() { _, _ = many.Allow(ctx, "key", 1) }); n > 0 {
				t.Errorf("%s in memory, with keys: %v allocations for each call", a.name, n)
			}
		}
	}
}

// Each input is the traffic of one limiter of each algorithm: its limit, and then steps. Memory and Redis
// decide alike, and no window of real time has more than the bound.
func FuzzForms(f *testing.F) {
	f.Add([]byte("\x05\x02" + "\x00\x00\x01\x01\x03\x20\x00\x02\x04\x30\x00\x04\x06\x01\x00\x00"))
	f.Add([]byte("\x01\x00" + "\x00\x00\x05\x10\x00\x00\x07\x20\x00\x00\x07\x80\x01\x00\x04\xff\x00\x00"))
	f.Add([]byte("\x63\x01" + "\x00\x60\x03\x01\x00\x10\x06\x20\x05\xff\x02\x01\x04\x02\x00\x60"))
	mini := formtest.NewMini(f)
	f.Fuzz(func(t *testing.T, traffic []byte) {
		if len(traffic) < 2 || len(traffic) > 400 {
			return
		}
		rate := 1 + int64(traffic[0])
		interval := []time.Duration{5 * time.Millisecond, time.Second, time.Hour}[traffic[1]%3]
		for _, a := range algorithms {
			if a.suite.Drive(t, rate, interval, mini, traffic[2:]); t.Failed() {
				return
			}
		}
	})
}

// Many keys in memory go when they are unused, whatever the algorithm.
func TestManyUnusedKeysAreDropped(t *testing.T) {
	redistest.Thorough(t)
	const keys, mostKept = 500_000, 20 // bytes for each key in the end
	for _, a := range algorithms {
		t.Run(a.name, func(t *testing.T) {
			now := time.Unix(2_000_000_000, 0)
			clock := limit.WithClock(func() time.Time { return now })
			l := redistest.Must(a.suite.New(10, time.Second).InMemoryKeyed(clock))(t)
			take := func(key string) {
				t.Helper()
				redistest.Must(l.Allow(t.Context(), key, 1))(t)
			}
			before := heap()
			for i := range keys {
				take(strconv.Itoa(i))
			}
			full := heap() - before
			for range 2 { // the first turn keeps what was used since the one before
				now = now.Add(time.Hour)
				take("other")
			}
			if kept := heap() - before; kept > mostKept*keys {
				t.Errorf("%d bytes are left of %d", kept, full)
			}
			take("other") // the limiter is in use until here
		})
	}
}

// heap returns the bytes in use after a collection.
func heap() int64 {
	runtime.GC() //revive:disable-line:call-to-gc what is unused must be gone before it is measured
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// docs/algorithms.md grants a user the commands of the scripts, and no others.
func TestThePageNamesTheCommandsOfTheScripts(t *testing.T) {
	page := redistest.Must(os.ReadFile("../docs/algorithms.md"))(t)
	for _, a := range algorithms {
		row := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(a.name) + "` \\| (\\+[a-z +]+) \\|$").
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
