package inspect

// Window cuts the interval that ends now into parts and returns the permits that were taken in each, the
// oldest first; nil if nothing is limited. Records dated ahead are in the last part.
func Window(l *Limiter, p *Pair, parts int) []int64 {
	if l.Config.Interval < 1 || parts < 1 {
		return nil
	}
	window := make([]int64, parts)
	from := float64(l.At.UnixMilli() - l.Config.Interval)
	for _, r := range p.Records {
		if !r.Over {
			at := (r.score - from) / float64(l.Config.Interval) * float64(parts)
			window[int(max(0, min(at, float64(parts-1))))] += r.Permits
		}
	}
	return window
}
