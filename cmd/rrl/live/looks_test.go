package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/cmd/rrl/internal/golden"
	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A limiter costs one round trip a second and a bounded number of records, also if Redis is slow or it has
// many clients. One search for the clients comes on top.
func TestWatchCostsOneRoundTripASecond(t *testing.T) {
	const ms = time.Millisecond
	for _, delay := range []time.Duration{0, 900 * ms, 1700 * ms, 2500 * ms} {
		t.Run(delay.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScenario(t, "api", "clients", "one", "gone")
				s.set("api", rratelimiter.Overall, 5, time.Second)
				s.set("clients", rratelimiter.PerClient, 5, time.Second)
				s.set("one", rratelimiter.PerClient, 5, time.Second)
				s.w.Targets[2].ID = "me"
				for i := range 30 {
					s.m.Set(fmt.Sprint("{clients}:value:", i), "5")
				}
				looks := s.watched(delay)
				searches := 1
				if delay >= patience {
					searches = 0 // no reply tells that there are clients
				}
				want := map[string]int{
					"api": 21, "clients": 21 + searches, "one": 21, "gone": 21, "scan": searches,
				}
				for hash, at := range looks {
					if len(at) != want[hash] {
						t.Errorf("%s: %d round trips, want %d", hash, len(at), want[hash])
					}
					for i := 1; i < len(at); i++ {
						if gap := at[i].Sub(at[i-1]); gap < time.Second {
							t.Errorf("%s: two round trips within %v", hash, gap)
						}
					}
				}
			})
		})
	}
}

// watched looks for 20 s, and returns the times of the transactions by the hash that they read, and of SCANs.
func (s *scenario) watched(delay time.Duration) map[string][]time.Time {
	var mu sync.Mutex
	looks := map[string][]time.Time{}
	s.rdb.AddHook(redistest.Hook(func(_ context.Context, cmds ...redis.Cmder) error {
		read, records := cmds[0].Name(), int64(0)
		for _, cmd := range cmds {
			switch args := cmd.Args(); cmd.Name() {
			case "hmget":
				read = args[1].(string)
			case "zrange":
				records += args[3].(int64) - args[2].(int64) + 1
			}
		}
		if records > inspect.Few {
			s.t.Errorf("%s: %d records in one transaction", read, records)
		}
		mu.Lock()
		looks[read] = append(looks[read], time.Now())
		mu.Unlock()
		if len(cmds) > 1 {
			time.Sleep(delay)
		}
		return nil
	}))
	s.run(20, nil)
	return looks
}

func TestPausedWatchLeavesRedisAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScenario(t, "api")
		ctx, cancel := context.WithTimeout(t.Context(), 20500*time.Millisecond)
		defer cancel()
		var paused atomic.Bool
		time.AfterFunc(5500*time.Millisecond, func() { paused.Store(true) })
		time.AfterFunc(15500*time.Millisecond, func() { paused.Store(false) })
		n := 0
		s.w.looks(ctx, &paused, func(look) { n++ })
		if n != 11 {
			t.Errorf("%d looks, want 11", n)
		}
	})
}

// Grants per second are right whether the interval is longer or shorter than a second.
func TestGrantsPerSecond(t *testing.T) {
	for _, interval := range []time.Duration{100 * time.Millisecond, time.Second, time.Minute} {
		t.Run(interval.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScenario(t, "api")
				perInterval := max(1, int64(interval/(100*time.Millisecond)))
				s.set("api", rratelimiter.Overall, 3*perInterval, interval)
				// Ten times a second one call after another takes 2 permits or is refused 5 times, and
				// Java takes 1: 20 and 10 a second, and 50 are refused.
				s.run(8, func(int) {
					s.goTakes("api", 2)
					s.javaTakes("api", 1)
					l := s.gos["api"].RateLimiter("api")
					for range 5 {
						if ok, err := l.TryAcquire(t.Context(), 3*perInterval, 0); ok || err != nil {
							t.Error(ok, err)
						}
					}
				})
				f := s.panels[0].flows[""]
				if f.byGo != 20 || f.byOthers != 10 {
					t.Errorf("%v by Go, %v by other clients", f.byGo, f.byOthers)
				}
				if !f.guessed || f.refused < 40 || f.refused > 60 {
					t.Errorf("%d refused, %v", f.refused, f.guessed)
				}
			})
		})
	}
}

func TestHistory(t *testing.T) {
	start := time.Now()
	h := &history{}
	if len(h.lows(10)) != 0 || h.span() != 0 {
		t.Error("there is something without a look")
	}
	for i := range 10 * remembered {
		at := start.Add(time.Duration(i) * time.Second)
		h.add(sample{at: at, remaining: int64(i % 7), rate: 6, gap: i%5 == 4})
		for _, width := range []int{0, 1, 9, 60, 1000} {
			if n := len(h.lows(width)); n > width || n == 0 && width > 0 {
				t.Fatalf("%d columns of %d", n, width)
			}
		}
	}
	if h.span() != (remembered-1)*time.Second || len(h.samples) != remembered {
		t.Errorf("%d looks, %v", len(h.samples), h.span())
	}
	for _, low := range h.lows(20) {
		if low != 0 { // the lowest of 15 or so
			t.Errorf("a low of %v", low)
		}
	}
}

// Lines of text and of JSON; sorted, because targets are read side by side.
func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScenario(t, "api", "gone", "per", "half", "word", "debt")
		s.set("api", rratelimiter.Overall, 10, time.Minute)
		s.set("per", rratelimiter.PerClient, 10, time.Minute)
		s.m.HSet("half", "rate", "1")
		s.m.HSet("word", "rate", "x", "interval", "1", "type", "0")
		s.goTakes("api", 3)
		s.goTakes("per", 1)
		s.set("debt", rratelimiter.Overall, 10, time.Minute)
		redistest.Must(s.gos["debt"].RateLimiter("debt").Charge(t.Context(), 34))(t)
		s.w.Count = 2
		var got strings.Builder
		look := func(asJSON bool) error {
			var lines strings.Builder
			err := s.w.Lines(t.Context(), &lines, asJSON)
			date := regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)`) // in the local zone
			all := date.ReplaceAllString(lines.String(), "DATE")
			got.WriteString(strings.Join(slices.Sorted(strings.Lines(all)), ""))
			return err
		}
		redistest.NoError(t, errors.Join(look(false), look(true)))
		s.m.SetError("ERR \x1b[2J")
		if err := look(false); err == nil || !strings.Contains(err.Error(), "ERR") {
			t.Errorf("no look has succeeded: %v", err)
		}
		golden.Check(t, "testdata/lines.golden", got.String())
	})
}

func TestLinesEndIfTheOutputFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScenario(t, "api")
		r, w := io.Pipe()
		_ = r.Close()
		if err := s.w.Lines(t.Context(), w, false); !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
	})
}

// Run ends for each reason, and leaves no goroutine.
func TestRunEnds(t *testing.T) {
	for name, c := range map[string]struct {
		keys  string
		count int
		err   error
	}{
		"q":      {keys: "q"},
		"Ctrl-C": {keys: "\x03", err: ErrInterrupted},
		"scroll": {keys: "jkgGp pq"},
		"count":  {count: 3},
		"ctx":    {err: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 5500*time.Millisecond)
				defer cancel()
				s := newScenario(t, "api")
				s.set("api", rratelimiter.Overall, 5, time.Second)
				s.w.Count = c.count
				in, keyboard := io.Pipe()
				time.AfterFunc(1500*time.Millisecond, func() { _, _ = keyboard.Write([]byte(c.keys)) })
				var out strings.Builder
				start := time.Now()
				err := s.w.Run(ctx, in, &out)
				_ = keyboard.Close()
				if !errors.Is(err, c.err) {
					t.Error(err)
				}
				if took := time.Since(start); (c.keys != "") != (took < 2*time.Second) {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
