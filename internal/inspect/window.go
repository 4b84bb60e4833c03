package inspect

// Grants are the permits that were taken in some time, by who wrote the records.
type Grants struct{ ByGo, ByOthers int64 }

// Window cuts the interval that ends now into parts and returns what was taken in each, the oldest
// first; nil if nothing is limited. Records dated ahead are in the last part.
func (l *Limiter) Window(p *Pair, parts int) []Grants {
	if l.Config.Interval < 1 || parts < 1 {
		return nil
	}
	window := make([]Grants, parts)
	from := float64(l.At.UnixMilli() - l.Config.Interval)
	for _, r := range p.Records {
		if r.Over {
			continue
		}
		at := (r.score - from) / float64(l.Config.Interval) * float64(parts)
		part := &window[int(max(0, min(at, float64(parts-1))))]
		if r.ByGo {
			part.ByGo += r.Permits
		} else {
			part.ByOthers += r.Permits
		}
	}
	return window
}
