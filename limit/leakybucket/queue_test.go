package leakybucket_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/leakybucket"
	"github.com/redisson-go/rratelimiter/limit/limittest"
)

func TestQueueForms(t *testing.T) {
	formtest.Run(t, formtest.Suite{
		New: func(rate int64, interval time.Duration) formtest.Algorithm {
			return leakybucket.Queue{Rate: rate, Interval: interval, Capacity: rate}
		},
		Kind: limittest.Paced, Worst: 2,
	})
}

// lines are the forms of a Line.
var lines = map[string]func(t *testing.T, q leakybucket.Queue) leakybucket.Line{
	"memory": func(t *testing.T, q leakybucket.Queue) leakybucket.Line {
		return redistest.Must(q.LineInMemory())(t)
	},
	"memory, a key": func(t *testing.T, q leakybucket.Queue) leakybucket.Line {
		return ofKey{redistest.Must(q.LineInMemoryKeyed())(t)}
	},
	"Redis": func(t *testing.T, q leakybucket.Queue) leakybucket.Line {
		return redistest.Must(q.LineOnRedis(redistest.MiniClient(t, redistest.Mini(t)), "name"))(t)
	},
	"Redis, a key": func(t *testing.T, q leakybucket.Queue) leakybucket.Line {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		return ofKey{redistest.Must(q.LineOnRedisKeyed(rdb, "name"))(t)}
	},
}

// An ofKey is the Line of one key.
type ofKey struct{ lines leakybucket.Lines }

func (o ofKey) Allow(ctx context.Context, n int64) (limit.Result, error) {
	return o.lines.Allow(ctx, "key", n)
}

func (o ofKey) Release(ctx context.Context, n int64) error { return o.lines.Release(ctx, "key", n) }

func (o ofKey) Wait(ctx context.Context) error { return o.lines.Wait(ctx, "key") }

// eachLine runs a test of each form in a bubble, of a Queue of ten in a second in which five may wait.
func eachLine(t *testing.T, test func(t *testing.T, l leakybucket.Line, inMemory bool)) {
	t.Helper()
	for name, form := range lines {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := form(t, leakybucket.Queue{Rate: 10, Interval: time.Second, Capacity: 5})
				test(t, l, strings.HasPrefix(name, "memory"))
			})
		})
	}
}

// A record says when callers had their turns.
type record struct {
	start time.Time
	all   sync.WaitGroup
	mu    sync.Mutex
	seen  []string
}

func newRecord() *record { return &record{start: time.Now()} }

// waits starts a caller, and returns when it stands in line or is done.
func (w *record) waits(ctx context.Context, l leakybucket.Line, name string) {
	w.all.Go(func() {
		err := l.Wait(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		after := time.Since(w.start).Round(time.Millisecond).Milliseconds()
		switch {
		case err == nil:
			w.seen = append(w.seen, fmt.Sprint(name, " ", after))
		case errors.Is(err, leakybucket.ErrFull):
			w.seen = append(w.seen, fmt.Sprint(name, " full ", after))
		default:
			w.seen = append(w.seen, fmt.Sprint(name, " left ", after))
			if !errors.Is(err, ctx.Err()) {
				w.seen = append(w.seen, err.Error())
			}
		}
	})
	synctest.Wait()
}

// want waits for all callers, and expects what they did.
func (w *record) want(t *testing.T, want ...string) {
	t.Helper()
	w.all.Wait()
	if !slices.Equal(w.seen, want) {
		t.Errorf("%q, want %q", w.seen, want)
	}
}

// Callers have their turns one by one, in the order in which they came. While five wait, the line is full.
func TestTurnsHaveAConstantPace(t *testing.T) {
	eachLine(t, func(t *testing.T, l leakybucket.Line, _ bool) {
		w := newRecord()
		for i := range 8 {
			w.waits(t.Context(), l, fmt.Sprint(i))
		}
		w.want(t, "0 0", "6 full 0", "7 full 0", "1 100", "2 200", "3 300", "4 400", "5 500")
		time.Sleep(50 * time.Millisecond)
		w.waits(t.Context(), l, "8")
		w.all.Wait()
		time.Sleep(time.Second)
		w.waits(t.Context(), l, "9") // nothing is owed
		w.want(t, "0 0", "6 full 0", "7 full 0", "1 100", "2 200", "3 300", "4 400", "5 500", "8 600",
			"9 1600")
	})
}

// Callers wait for all the turns that were taken at once before them.
func TestWaitLastsForSeveralTurns(t *testing.T) {
	eachLine(t, func(t *testing.T, l leakybucket.Line, _ bool) {
		formtest.Allow(t, l, 4, true)
		w := newRecord()
		for i := range 3 {
			w.waits(t.Context(), l, fmt.Sprint(i))
		}
		r := formtest.Allow(t, l, 1, false)
		if r.Remaining != 0 || r.RetryAfter != 600*time.Millisecond {
			t.Errorf("Allow in a line: %+v", r)
		}
		w.want(t, "2 full 0", "0 400", "1 500")
	})
}

// A caller that leaves the end of the line gives its turn back.
func TestTheLastCallerGivesItsTurnBack(t *testing.T) {
	eachLine(t, func(t *testing.T, l leakybucket.Line, _ bool) {
		w := newRecord()
		two, leave2 := context.WithCancel(t.Context())
		three, leave3 := context.WithCancel(t.Context())
		w.waits(t.Context(), l, "0")
		w.waits(t.Context(), l, "1")
		w.waits(two, l, "2")
		w.waits(three, l, "3")
		time.Sleep(50 * time.Millisecond)
		leave3()
		synctest.Wait()
		leave2()
		synctest.Wait()
		if r := formtest.Allow(t, l, 1, false); r.RetryAfter != 150*time.Millisecond {
			t.Errorf("a caller waits for 50 ms, and Allow returns %+v", r)
		}
		w.waits(t.Context(), l, "4")
		w.want(t, "0 0", "3 left 50", "2 left 50", "1 100", "4 200")
	})
}

// A caller that leaves the middle of the line gives its turn to the next one, in memory. On Redis the turn
// passes, and the callers behind keep theirs.
func TestACallerLeavesTheMiddleOfTheLine(t *testing.T) {
	eachLine(t, func(t *testing.T, l leakybucket.Line, inMemory bool) {
		w := newRecord()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w.waits(t.Context(), l, "0")
		w.waits(ctx, l, "1")
		w.waits(t.Context(), l, "2")
		w.waits(t.Context(), l, "3")
		time.Sleep(50 * time.Millisecond)
		cancel()
		synctest.Wait()
		w.waits(t.Context(), l, "4")
		if inMemory {
			w.want(t, "0 0", "1 left 50", "2 100", "3 200", "4 300")
		} else {
			w.want(t, "0 0", "1 left 50", "2 200", "3 300", "4 400")
		}
	})
}

// Permits released while callers wait do not bring two turns together.
func TestReleaseKeepsThePaceOfALine(t *testing.T) {
	eachLine(t, func(t *testing.T, l leakybucket.Line, _ bool) {
		w := newRecord()
		for i := range 3 {
			w.waits(t.Context(), l, fmt.Sprint(i))
		}
		redistest.NoError(t, l.Release(t.Context(), 3))
		w.waits(t.Context(), l, "3")
		w.want(t, "0 0", "1 100", "2 200", "3 300")
	})
}

// A call with an ended context takes no turn; other errors are those of Allow.
func TestErrorsOfWait(t *testing.T) {
	eachLine(t, func(t *testing.T, l leakybucket.Line, _ bool) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		formtest.Fails(t, context.Canceled, l.Wait(ctx))
		formtest.Allow(t, l, 10, true)
	})
	q := leakybucket.Queue{Rate: 1, Interval: time.Second, Capacity: 1}
	k := redistest.Must(q.LineInMemoryKeyed())(t)
	formtest.Fails(t, limit.ErrInvalidArgument, k.Wait(t.Context(), ""))
}

func TestQueueBounds(t *testing.T) {
	formtest.Refuses(t, map[string]leakybucket.Queue{
		"Rate is 0":          {Capacity: 1, Interval: time.Second},
		"Interval is 0s":     {Capacity: 1, Rate: 1},
		"Capacity is 0":      {Rate: 1, Interval: time.Second},
		"fills in 3.6e+12 s": {Rate: 1, Interval: time.Hour, Capacity: 1e9},
		"Capacity is -1":     {Rate: 1, Interval: time.Hour, Capacity: -1},
		"Rate is 1099511627": {Rate: 1<<40 + 1, Interval: time.Hour, Capacity: 1},
	})
}
