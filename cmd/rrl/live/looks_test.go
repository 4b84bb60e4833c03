package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A meter counts the commands that are sent to Redis.
type meter struct {
	delay time.Duration // before each transaction

	mu      sync.Mutex
	looks   map[string][]time.Time // transactions by the hash that they read
	records map[string]int64       // the most records of one transaction
	others  []string               // commands without a transaction
}

func (*meter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *meter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		m.mu.Lock()
		m.others = append(m.others, cmd.Name())
		m.mu.Unlock()
		return next(ctx, cmd)
	}
}

func (m *meter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		hash, records := "", int64(0)
		for _, cmd := range cmds {
			switch args := cmd.Args(); cmd.Name() {
			case "hmget":
				hash = args[1].(string)
			case "zrange":
				from, to := args[2].(int64), args[3].(int64)
				records += to - from + 1
			}
		}
		m.mu.Lock()
		m.looks[hash] = append(m.looks[hash], time.Now())
		m.records[hash] = max(m.records[hash], records)
		m.mu.Unlock()
		time.Sleep(m.delay)
		return next(ctx, cmds)
	}
}

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
				m := &meter{delay: delay, looks: map[string][]time.Time{}, records: map[string]int64{}}
				s.rdb.AddHook(m)
				s.run(20, nil)
				for i, target := range s.w.Targets {
					m.check(t, target.Hash, i == 1)
				}
				scans := 0
				for _, name := range m.others {
					if name == "scan" {
						scans++
					} else if name != "hello" { // of go-redis, for each connection
						t.Errorf("it sent %s", name)
					}
				}
				if scans != 1 && delay < patience || scans > 1 {
					t.Errorf("%d SCANs", scans)
				}
			})
		})
	}
}

// check checks the transactions of a limiter; searched says that there was a search for its clients.
func (m *meter) check(t *testing.T, hash string, searched bool) {
	t.Helper()
	looks := m.looks[hash]
	want := 21
	if searched && m.delay < patience {
		want++
	}
	if len(looks) != want {
		t.Errorf("%s: %d transactions, want %d", hash, len(looks), want)
	}
	for i := 1; i < len(looks); i++ {
		if gap := looks[i].Sub(looks[i-1]); gap < time.Second {
			t.Errorf("%s: two transactions within %v", hash, gap)
		}
	}
	if m.records[hash] > inspect.Few {
		t.Errorf("%s: %d records in one transaction", hash, m.records[hash])
	}
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
		var text, lines strings.Builder
		s.w.Count = 2
		redistest.NoError(t, s.w.Lines(t.Context(), &text, false))
		inUTC := strings.ReplaceAll(text.String(), time.Now().Format("Z07:00")+` "`, `Z "`)
		for _, want := range []string{
			`Z "api" remaining 7 of 10, outstanding 3, back: 1 now, all in 1m`,
			`Z "api" remaining 7 of 10, outstanding 3, granted 0/s by Go, 0/s by others, refused about 0 req`,
			`Z "debt" remaining 0 of 10, outstanding 34, 24 in debt, paid in 1m, back: 1 in 1m, all in 1m`,
			`Z "gone" does not exist`, `Z "per" client "service-1" remaining 9 of 10`,
			`Z "half", ! half of a rate nothing to show`, `! no integer`,
		} {
			if !strings.Contains(inUTC, want) {
				t.Errorf("no %s in\n%s", want, text.String())
			}
		}
		redistest.NoError(t, s.w.Lines(t.Context(), &lines, true))
		checkJSON(t, lines.String())
		s.m.SetError("ERR \x1b[2J")
		text.Reset()
		if err := s.w.Lines(t.Context(), &text, false); err == nil || !strings.Contains(err.Error(), "ERR") {
			t.Errorf("no look has succeeded: %v", err)
		}
		if !strings.Contains(text.String(), "\"api\" Redis fails: ERR \ufffd[2J\n") {
			t.Error(text.String())
		}
	})
}

// checkJSON checks that each line is a summary, and some of their fields.
func checkJSON(t *testing.T, lines string) {
	t.Helper()
	seen := map[string]int{}
	for line := range strings.Lines(lines) {
		var s summary
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		seen[s.Name]++
		if !s.right(seen[s.Name]) {
			t.Error(line)
		}
	}
	if seen["api"] != 2 || seen["gone"] != 2 || seen["per"] != 2 {
		t.Error(seen)
	}
}

// right reports whether a summary belongs to the n-th look in TestLines.
func (s *summary) right(n int) bool {
	switch s.Name {
	case "api":
		return s.There && s.Pairs[0].Remaining == 7 && s.Config.Rate == 10 && s.TTL == -1 &&
			(n == 2) == (s.Pairs[0].ByGo != nil)
	case "gone":
		return !s.There && s.TTL == -2 && len(s.Pairs) == 0 && s.Config == nil
	case "per":
		return s.Pairs[0].ID == "service-1"
	case "debt":
		return s.Pairs[0].Debt == 24 && s.Pairs[0].PaidIn > 50_000 && len(s.Findings) == 0
	}
	return true
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

func TestLongTimesHaveNoMillis(t *testing.T) {
	if got := about(61_234) + about(9_234); got != "1m1s9.234s" {
		t.Error(got)
	}
}
