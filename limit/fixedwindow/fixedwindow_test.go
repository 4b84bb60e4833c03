package fixedwindow_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit/fixedwindow"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

func TestBounds(t *testing.T) {
	formtest.Refuses(t, map[string]fixedwindow.Window{
		"Rate is 0":              {Interval: time.Second},
		"Rate is -1":             {Rate: -1, Interval: time.Second},
		"Rate is 1099511627777":  {Rate: 1<<40 + 1, Interval: time.Second},
		"Interval is 0s":         {Rate: 1},
		"Interval is 999.999µs":  {Rate: 1, Interval: time.Millisecond - 1},
		"Interval is 87840h0m1s": {Rate: 1, Interval: 3660*24*time.Hour + time.Second},
	})
}

func of(rate int64, interval time.Duration) formtest.Algorithm {
	return formtest.Of(fixedwindow.Window{Rate: rate, Interval: interval})
}

// Windows end after their length, also if their key was made to last. Versions of a program with other
// numbers share a window, as during a deploy, which lasts for the longest interval.
func TestWindows(t *testing.T) {
	formtest.Tell(t, of(10, time.Hour), map[string]string{
		"a grant is not returned to the window that follows an emptied one": "" +
			"take 4 as a; release 4; sleep 1ms; take 10; back 4 a; refuse 1",
		"a window ends though its key is there for ever": "" +
			"take 1 reset 1h; redis PERSIST KEY; take 9 reset 1h; redis PTTL KEY = 3600000; " +
			"redis PERSIST KEY; refuse 1 reset 1h; redis PTTL KEY = 3600000; redis PERSIST KEY; refuse 1; " +
			"sleep 1h; drain 10",
		"a window ends though its key lasts for longer": "" +
			"take 1 reset 1h; redis PEXPIRE KEY 10800000; take 9 reset 1h; redis PTTL KEY = 3600000; " +
			"redis PEXPIRE KEY 10800000; refuse 1 reset 1h; redis PTTL KEY = 3600000; " +
			"redis PEXPIRE KEY 10800000; refuse 1; sleep 1h; drain 10",
	})
	deploy := map[string]formtest.Algorithm{
		"hour": of(100, time.Hour), "second": of(100, time.Second), "few": of(10, time.Hour),
	}
	formtest.Play{Algorithms: deploy}.Tell(t, map[string]string{
		"the longer interval holds, whose window it is": "" +
			"hour: drain 100; second: drain 0; sleep 1050ms; second: drain 0; hour: drain 0; " +
			"second: refuse 1 retry 59m58.95s; sleep retry; second: drain 100; sleep 1s; second: drain 100",
		"the longer interval holds, whoever began": "" +
			"second: take 1; sleep 500ms; hour: drain 99; second: drain 0; sleep 1050ms; hour: drain 0; " +
			"second: refuse 1 retry 59m58.45s; sleep retry; second: drain 100; sleep 1s; second: drain 100",
		"a limiter of a smaller rate releases n permits": "" +
			"hour: drain 100; few: release 1; hour: drain 1; few: release 1; hour: drain 1",
		"a grant is returned to its own window, however long that lasts by now": "" +
			"second: take 4 as a; hour: take 1 reset 1h; sleep 1m; second: back 4 a; hour: drain 99",
	})
}

// A text that no limiter has written, however long, counts as none: a window begins.
func TestForeignTextsCountAsNone(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	const began = " 1700000000000000 "
	written := regexp.MustCompile(`^           10 \d{16} 3600000$`)
	l := redistest.Must(fixedwindow.Window{Rate: 10, Interval: time.Hour}.OnRedis(rdb, "name"))(t)
	for _, text := range []string{
		strings.Repeat("1", 3<<20), "5 3600000", "            5 3600000", "5" + began + "3600000",
		"            5" + began + "0", "            5" + began + "3600000" + strings.Repeat(" ", 6),
		"            5" + began + "316224000001", "          4 5" + began + "3600000",
		"9999999999999" + began + "3600000", "           -5" + began + "3600000",
		"          nan" + began + "3600000", "            5" + began + "nan",
		"            5                0 3600000", "            5              nan 3600000",
		"            5            1e300 3600000", "            5" + began + strings.Repeat("0", 100),
	} {
		redistest.NoError(t, rdb.Set(t.Context(), "{name}:fixedwindow", text, time.Minute).Err())
		for left := int64(9); left >= 0; left-- {
			r, err := l.Allow(t.Context(), 1)
			if err != nil || !r.Allowed || r.Remaining != left {
				t.Fatalf("%.30q: %+v, %v; want %d left", text, r, err, left)
			}
		}
		if got := rdb.Get(t.Context(), "{name}:fixedwindow").Val(); !written.MatchString(got) {
			t.Errorf("%.50q becomes %.50q", text, got)
		}
	}
}
