package live

import (
	"time"

	"github.com/redisson-go/rratelimiter/internal/inspect"
)

// A panel is the newest look at one limiter, and its history.
type panel struct {
	name string

	last    *inspect.Limiter // nil before the first reply of Redis
	at      time.Time        // of last
	clients int
	err     error     // of the newest look
	since   time.Time // when Redis first failed

	flows   map[string]flow     // between the last two looks, by client
	history map[string]*history // by client
}

// newPanel returns a panel without a look.
func newPanel(name string) *panel {
	return &panel{name: name, history: map[string]*history{}}
}

// add takes a look.
func (p *panel) add(l look) {
	if l.err != nil {
		if p.err == nil {
			p.since = l.at
		}
		p.err = l.err
		p.gap(l.at)
		return
	}
	before := p.last
	p.last, p.at, p.clients, p.err = l.limiter, l.at, l.clients, nil
	p.flows = map[string]flow{}
	if !p.last.Set {
		p.gap(l.at)
		return
	}
	histories := map[string]*history{}
	for _, pair := range p.last.InUse() {
		h := p.history[pair.ID]
		if h == nil {
			h = &history{}
		}
		f := flowOf(p.last, before, pair.ID)
		h.add(sample{at: l.at, remaining: pair.Remaining, rate: p.last.Config.Rate, flow: f})
		p.flows[pair.ID], histories[pair.ID] = f, h
	}
	p.history = histories
}

// gap notes a moment without figures.
func (p *panel) gap(at time.Time) {
	for _, h := range p.history {
		h.add(sample{at: at, gap: true})
	}
}

// A flow is the traffic of a pair between two looks.
type flow struct {
	byGo, byOthers float64 // permits per second
	measured       bool    // false before the second look
	sampled        bool    // not all records were read: the newest stand for the rest

	// refused is an estimate of the refused requests of Go, if guessed is true.
	refused int64
	guessed bool
}

// flowOf compares a look with the one before. If the interval is shorter than the time between the looks,
// only the end of that time is visible. It does not estimate refusals if that end is too short, or if records
// were not read.
func flowOf(now, before *inspect.Limiter, id string) flow {
	const least = 20 // at least a 20th of the time must be visible
	if before == nil || !before.Set || before.PairOf(id) == nil {
		return flow{}
	}
	c := now.Since(before, id)
	if c.Seen <= 0 {
		return flow{}
	}
	enough := !c.AtLeast && c.Seen >= now.At.Sub(before.At)/least
	return flow{
		byGo: float64(c.ByGo) / c.Seen.Seconds(), byOthers: float64(c.ByOthers) / c.Seen.Seconds(),
		measured: true, sampled: c.AtLeast,
		refused: c.Refused, guessed: enough,
	}
}

// remembered is the number of looks in a history: five minutes of one look a second.
const remembered = 300

// A history is the last looks at a pair.
type history struct {
	samples []sample // at most remembered, oldest first
	dropped int      // earlier samples, which were dropped
}

// A sample is one look at a pair.
type sample struct {
	at              time.Time
	remaining, rate int64
	flow            flow
	gap             bool // without figures
}

func (h *history) add(s sample) {
	if len(h.samples) == remembered {
		h.samples = append(h.samples[:0], h.samples[1:]...)
		h.dropped++
	}
	h.samples = append(h.samples, s)
}

// span returns the time from the first look to the last.
func (h *history) span() time.Duration {
	if len(h.samples) == 0 {
		return 0
	}
	return h.samples[len(h.samples)-1].at.Sub(h.samples[0].at)
}

// refusals returns the refused requests of Go in the time of the history, in words; empty without an
// estimate.
func (h *history) refusals() string {
	n, guessed := int64(0), false
	if h == nil {
		return ""
	}
	for _, s := range h.samples {
		if s.flow.guessed {
			n, guessed = n+s.flow.refused, true
		}
	}
	if !guessed {
		return ""
	}
	return refused(n)
}

// lows returns the lowest filling of the pair, from 0 to 1, in each of at most width stretches of time, or
// unknown for a stretch without figures. The stretches keep their places as time goes on.
func (h *history) lows(width int) []float64 {
	if len(h.samples) == 0 || width < 1 {
		return nil
	}
	size := 1 // looks in a stretch
	for h.stretch(len(h.samples)-1, size)+1 > width {
		size++
	}
	lows := make([]float64, h.stretch(len(h.samples)-1, size)+1)
	for i := range lows {
		lows[i] = unknown
	}
	for i, s := range h.samples {
		if s.gap {
			continue
		}
		full := 0.0
		if s.rate > 0 {
			full = float64(s.remaining) / float64(s.rate)
		}
		if low := &lows[h.stretch(i, size)]; *low == unknown || full < *low {
			*low = full
		}
	}
	return lows
}

const unknown = -1.0

// stretch returns the index of the stretch of a sample.
func (h *history) stretch(i, size int) int { return (h.dropped+i)/size - h.dropped/size }
