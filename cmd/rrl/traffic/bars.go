package traffic

// bars returns the permits of each bin: of requests when they came, of grants when they
// went out. What is after the end is left out.
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

// arrivals returns the requests as if all were granted.
func (c *Comparison) arrivals() []Grant {
	arrivals := make([]Grant, len(c.Traffic.Requests))
	for i, r := range c.Traffic.Requests {
		arrivals[i] = Grant(r)
	}
	return arrivals
}

// highest returns the highest of all bars, at least 1.
func (c *Comparison) highest() int64 {
	highest := int64(1)
	for _, n := range c.bars(c.arrivals()) {
		highest = max(highest, n)
	}
	for _, s := range c.Strips {
		for _, n := range c.bars(s.Grants) {
			highest = max(highest, n)
		}
	}
	return highest
}

// over returns the grants that are in an interval with more than the rate.
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
