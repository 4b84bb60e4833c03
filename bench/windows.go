package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// The traffic of the picture: four processes that want twice the limit.
const (
	windowRate     = 1000
	windowInterval = 2 * time.Second
	windowStep     = 50 * time.Millisecond // between two points of the picture
	windowSteps    = 160
)

// windowsOf returns, for the end of each step, how many permits four Clients used in the interval before it.
// A call counts if it began and ended there, because it was granted at some time in between.
func (s *scope) windowsOf(ctx context.Context, server *redistest.Server, opts ...rratelimiter.Option) []num {
	const processes = 4
	name, steps := redistest.Name(s), amount(s, windowSteps, 2)
	var mu sync.Mutex
	var used [][2]time.Duration // when each call began and ended, since the start; guarded by mu
	var all sync.WaitGroup
	start := time.Now()
	for range processes {
		c := s.client(server.Client(s, patient), opts...)
		l := c.RateLimiter(name).WithRate(windowRate, windowInterval)
		all.Go(func() {
			tick := time.NewTicker(processes * windowInterval / (2 * windowRate))
			defer tick.Stop()
			for time.Since(start) < time.Duration(steps)*windowStep {
				<-tick.C
				from := time.Since(start)
				if ok, err := l.TryAcquire(ctx, 1, 0); err == nil && ok {
					mu.Lock()
					used = append(used, [2]time.Duration{from, time.Since(start)})
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	counts := make([]num, steps)
	for i := range counts {
		end := time.Duration(i+1) * windowStep
		for _, call := range used {
			if call[1] <= end && call[0] > end-windowInterval {
				counts[i]++
			}
		}
	}
	return counts
}

// drawLeases draws the windows with leases and without, beside the limit.
func (r *report) drawLeases(docs string) error {
	raw, ok := r.Parts["leases"]
	if !ok {
		return nil
	}
	var d leasesData
	if err := json.Unmarshal(raw, &d); err != nil {
		return err
	}
	x := func(step int) num { return num(80 + 470*step/max(1, len(d.With))) }
	y := func(permits num) num { return 380 - 340*permits/(1.2*windowRate) }
	line := func(stroke curve, label string, row num, counts []num) curve {
		stroke.Label, stroke.Row, stroke.Mark = label, row, ""
		for i, n := range counts {
			stroke.Points = append(stroke.Points, fmt.Sprintf("%v,%v", x(i), y(n)))
		}
		return stroke
	}
	limit := make([]num, len(d.With))
	for i := range limit {
		limit[i] = windowRate
	}
	chart := chart{picture: picture{
		file: "leases", Title: "Permits used in the last 2 s, by four processes",
		Axis: "permits", Across: "seconds",
	}}
	for at := 0; at < len(d.With); at += int(time.Second / windowStep) {
		second := time.Duration(at) * windowStep
		chart.Columns = append(chart.Columns, tick{x(at), fmt.Sprint(second.Seconds())})
	}
	for permits := num(250); permits <= windowRate; permits += 250 {
		chart.Lines = append(chart.Lines, tick{y(permits), thousands(float64(permits))})
	}
	chart.Curves = []curve{
		line(strokes[floor], "limit", 60, limit),
		line(strokes[redisson], "without leases", 84, d.Without),
		line(strokes[ours], "with leases", 108, d.With),
	}
	return chart.save(docs)
}
