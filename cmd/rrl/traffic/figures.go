package traffic

import (
	"slices"
	"strconv"
	"time"
)

// A Report is a Comparison as JSON.
type Report struct {
	Traffic  string   `json:"traffic"`
	Requests int      `json:"requests"`
	Rate     int64    `json:"rate"`
	Interval Millis   `json:"interval_ms"`
	Limiters []*Strip `json:"limiters"`
}

// Report returns the figures.
func (c *Comparison) Report() Report {
	return Report{c.Traffic.Name, len(c.Traffic.Requests), c.Plan.Rate, Millis(c.Plan.Per), c.Strips}
}

// Figures are the results of a limiter in numbers.
type Figures struct {
	Admitted int     `json:"admitted"`        // requests, including those that waited
	Refused  int     `json:"refused"`         // requests
	Worst    int64   `json:"worst"`           // the most permits in any interval, wherever it begins
	OfRate   float64 `json:"of_rate"`         // the worst interval in parts of the rate: 2 is twice the rate
	Busiest  int64   `json:"busiest_tenth"`   // the most permits in any tenth of an interval
	Peak     float64 `json:"peak"`            // the same in parts of a tenth of the rate: 1 is an even flow
	Wait     Millis  `json:"longest_wait_ms"` // the longest of an admitted request
}

// A Millis is a Duration that JSON has in whole ms.
type Millis time.Duration

// MarshalJSON implements json.Marshaler.
func (d Millis) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, time.Duration(d).Milliseconds(), 10), nil
}

// of sets the figures of the grants, except for Wait.
func (f *Figures) of(p *Plan, t Traffic, grants []time.Duration) {
	f.Admitted = len(grants)
	f.Refused = len(t.Requests) - len(grants)
	f.Worst = worst(grants, p.Per)
	f.OfRate = float64(f.Worst) / float64(p.Rate)
	f.Busiest = worst(grants, p.Per/tenth)
	f.Peak = tenth * float64(f.Busiest) / float64(p.Rate)
}

const tenth = 10

// worst returns the most permits in any time of a length. A grant exactly length after the beginning is
// outside.
func worst(grants []time.Duration, length time.Duration) (most int64) {
	first := 0
	for i, g := range grants {
		for ; g-grants[first] >= length; first++ {
		}
		most = max(most, int64(i+1-first))
	}
	return most
}

// bars returns the number of events in each bin. Events after the end are left out.
func (c *Comparison) bars(events []time.Duration) []int64 {
	bin := c.Plan.bin(c.Traffic)
	bars := make([]int64, (c.Traffic.Length+bin-1)/bin)
	for _, at := range events {
		if i := int(at / bin); i < len(bars) {
			bars[i]++
		}
	}
	return bars
}

// highest returns the highest of all bars, joined per to one, and at least 1.
func (c *Comparison) highest(per int) int64 {
	highest := max(1, slices.Max(joined(c.bars(c.Traffic.Requests), per)))
	for _, s := range c.Strips {
		highest = max(highest, slices.Max(joined(c.bars(s.Grants), per)))
	}
	return highest
}

// over returns the grants in intervals with more than the rate.
func (c *Comparison) over(s *Strip) (over []time.Duration) {
	first, next := 0, 0 // of the interval; the grant after the last one in over
	for i, g := range s.Grants {
		for ; g-s.Grants[first] >= c.Plan.Per; first++ {
		}
		if int64(i+1-first) > c.Plan.Rate {
			over = append(over, s.Grants[max(first, next):i+1]...)
			next = i + 1
		}
	}
	return over
}
