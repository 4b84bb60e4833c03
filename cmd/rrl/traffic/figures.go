package traffic

import "time"

// Figures are the results of a limiter in numbers.
type Figures struct {
	Admitted int           // requests, including those that waited
	Refused  int           // requests
	Permits  int64         // granted
	Worst    int64         // the most permits in any interval, wherever it begins
	WorstAt  time.Duration // when the first of these intervals begins
	Busiest  int64         // the most permits in any tenth of an interval
	Wait     time.Duration // the longest of an admitted request
}

// of sets the figures of the grants, except for Wait.
func (f *Figures) of(p *Plan, t Traffic, grants []Grant) {
	f.Admitted = len(grants)
	f.Refused = len(t.Requests) - len(grants)
	for _, g := range grants {
		f.Permits += g.Permits
	}
	f.Worst, f.WorstAt = worst(grants, p.Per)
	f.Busiest, _ = worst(grants, p.Per/tenth)
}

const tenth = 10

// worst returns the most permits in any time of a length, and the beginning of the first such time. A grant
// exactly length after the beginning is outside.
func worst(grants []Grant, length time.Duration) (most int64, at time.Duration) {
	var sum int64
	first := 0
	for _, g := range grants {
		sum += g.Permits
		for ; g.At-grants[first].At >= length; first++ {
			sum -= grants[first].Permits
		}
		if sum > most {
			most, at = sum, grants[first].At
		}
	}
	return most, at
}

// OfRate returns the worst interval in parts of the rate: 2 is twice the rate.
func (c *Comparison) OfRate(s *Strip) float64 { return float64(s.Worst) / float64(c.Plan.Rate) }

// Peak returns the busiest tenth of an interval in parts of a tenth of the rate: 1 is an even flow, 10 is the
// whole rate at once.
func (c *Comparison) Peak(s *Strip) float64 { return tenth * float64(s.Busiest) / float64(c.Plan.Rate) }
