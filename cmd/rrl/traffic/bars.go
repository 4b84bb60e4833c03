package traffic

import "slices"

// bars returns the permits of each bin: of requests at their arrival, of grants at their time. Events after
// the end are left out.
func (c *Comparison) bars(events []Grant) []int64 {
	bin := c.Plan.bin(c.Traffic)
	bars := make([]int64, (c.Traffic.Length+bin-1)/bin)
	for _, e := range events {
		if i := int(e.At / bin); i < len(bars) {
			bars[i] += e.Permits
		}
	}
	return bars
}

// arrivals returns the requests as if all of them were granted.
func (c *Comparison) arrivals() []Grant {
	arrivals := make([]Grant, len(c.Traffic.Requests))
	for i, r := range c.Traffic.Requests {
		arrivals[i] = Grant(r)
	}
	return arrivals
}

// highest returns the highest of all bars, joined per to one, and at least 1.
func (c *Comparison) highest(per int) int64 {
	highest := max(1, slices.Max(joined(c.bars(c.arrivals()), per)))
	for _, s := range c.Strips {
		highest = max(highest, slices.Max(joined(c.bars(s.Grants), per)))
	}
	return highest
}

// over returns the grants in intervals with more than the rate.
func (c *Comparison) over(s *Strip) []Grant {
	var sum int64
	var over []Grant
	first, next := 0, 0 // of the interval; the grant after the last one in over
	for i, g := range s.Grants {
		sum += g.Permits
		for ; g.At-s.Grants[first].At >= c.Plan.Per; first++ {
			sum -= s.Grants[first].Permits
		}
		if sum > c.Plan.Rate {
			over = append(over, s.Grants[max(first, next):i+1]...)
			next = i + 1
		}
	}
	return over
}
