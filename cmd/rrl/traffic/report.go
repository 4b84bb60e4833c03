package traffic

// A Report is a Comparison as JSON.
type Report struct {
	Traffic  string       `json:"traffic"`
	Requests int          `json:"requests"`
	Rate     int64        `json:"rate"`
	Interval int64        `json:"interval_ms"`
	Limiters []LimiterRow `json:"limiters"`
}

// A LimiterRow is a Strip as JSON.
type LimiterRow struct {
	Name     string  `json:"name"`
	Admitted int     `json:"admitted"`
	Refused  int     `json:"refused"`
	Permits  int64   `json:"permits"`
	Worst    int64   `json:"worst"`
	WorstAt  int64   `json:"worst_at_ms"`
	OfRate   float64 `json:"of_rate"`
	Busiest  int64   `json:"busiest_tenth"`
	Peak     float64 `json:"peak"`
	Wait     int64   `json:"longest_wait_ms"`
}

// Report returns the figures.
func (c *Comparison) Report() Report {
	r := Report{
		Traffic: c.Traffic.Name, Requests: len(c.Traffic.Requests),
		Rate: c.Plan.Rate, Interval: c.Plan.Per.Milliseconds(),
	}
	for _, s := range c.Strips {
		r.Limiters = append(r.Limiters, LimiterRow{
			Name: s.Name, Admitted: s.Admitted, Refused: s.Refused, Permits: s.Permits,
			Worst: s.Worst, WorstAt: s.WorstAt.Milliseconds(), OfRate: c.OfRate(s),
			Busiest: s.Busiest, Peak: c.Peak(s), Wait: s.Wait.Milliseconds(),
		})
	}
	return r
}
