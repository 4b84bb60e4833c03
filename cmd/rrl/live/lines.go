package live

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/words"
)

// Lines prints each look as a line for each pair, or as a line of JSON, until each target had Count looks,
// ctx ends, or writing to out fails.
func (w *Watch) Lines(ctx context.Context, out io.Writer, asJSON bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	panels := make([]*panel, len(w.Targets))
	for i, t := range w.Targets {
		panels[i] = newPanel(t.Name)
	}
	var mu sync.Mutex // guards out
	w.looks(ctx, new(atomic.Bool), func(l look) {
		p := panels[l.target]
		p.add(l)
		s := p.summary(l.at)
		mu.Lock()
		defer mu.Unlock()
		if err := s.print(out, asJSON); err != nil {
			cancel(err)
		}
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, p := range panels {
		if p.err == nil {
			return nil
		}
	}
	return panels[0].err // all of the last looks failed
}

// A summary is one look as a line of JSON.
type summary struct {
	Name     string            `json:"name"`
	At       time.Time         `json:"at"`
	Error    string            `json:"error,omitempty"` // of reading Redis; then the other fields are empty
	There    bool              `json:"there"`           // a rate is set
	Config   *inspect.Config   `json:"config,omitempty"`
	TTL      int64             `json:"ttl_ms"`  // of the hash, as PTTL replies
	Clients  int               `json:"clients"` // of a PER_CLIENT limiter that had keys at the first look
	Pairs    []figures         `json:"pairs"`
	Findings []inspect.Finding `json:"findings"`
}

// figures are the numbers of a pair in one look.
type figures struct {
	ID          string `json:"id,omitempty"`
	Remaining   int64  `json:"remaining"`
	Debt        int64  `json:"debt"`
	PaidIn      int64  `json:"debt_paid_in_ms"` // as inspect.Pair
	Outstanding int64  `json:"outstanding"`

	// Permits per second since the look before; nil at the first. Sampled: the newest records stand for the
	// others, which were not read.
	ByGo     *float64 `json:"granted_by_go_per_s"`
	ByOthers *float64 `json:"granted_by_others_per_s"`
	Sampled  bool     `json:"sampled"`

	// Refused is an estimate of the requests of Go that were refused since the look before; nil without an
	// estimate.
	Refused *int64 `json:"refused_estimate"`

	Back []inspect.Return `json:"back"`

	granted, debt, back string // the same as a text
}

// summary returns the newest look.
func (p *panel) summary(at time.Time) *summary {
	s := &summary{Name: p.name, At: at, TTL: -2, Pairs: []figures{}, Findings: []inspect.Finding{}}
	if p.err != nil {
		s.Error = p.err.Error()
		return s
	}
	s.There, s.TTL, s.Clients, s.Findings = p.last.Set, p.last.Keys[0].TTL, p.clients, p.last.Findings
	if s.There {
		s.Config = &p.last.Config
	}
	for _, pair := range p.pairs() {
		f := figures{
			ID: pair.ID, Remaining: pair.Remaining, Debt: pair.Debt, PaidIn: pair.PaidIn,
			Outstanding: pair.Outstanding, Back: pair.Back, debt: debt(pair), back: back(pair),
		}
		if flow := p.flows[pair.ID]; flow.measured {
			f.ByGo, f.ByOthers, f.Sampled = &flow.byGo, &flow.byOthers, flow.sampled
			f.granted = granted(flow)
			if flow.guessed {
				f.Refused = &flow.refused
			}
		}
		s.Pairs = append(s.Pairs, f)
	}
	return s
}

func (s *summary) print(out io.Writer, asJSON bool) error {
	if asJSON {
		return words.JSON(out, s, "")
	}
	_, err := io.WriteString(out, s.text())
	return err
}

// text returns a line for each pair, or a line that says why there is none.
func (s *summary) text() string {
	start := s.At.Format(time.RFC3339) + " " + strconv.Quote(s.Name)
	switch {
	case s.Error != "":
		return start + " Redis fails: " + words.Harmless(s.Error) + "\n"
	case !s.There && len(s.Findings) == 0:
		return start + " does not exist\n"
	case len(s.Pairs) == 0:
		return start + s.faults() + " nothing to show\n"
	}
	var b strings.Builder
	for _, f := range s.Pairs {
		b.WriteString(start)
		if f.ID != "" {
			b.WriteString(" client " + strconv.Quote(f.ID))
		}
		fmt.Fprintf(&b, " remaining %d of %d, outstanding %d", f.Remaining, s.Config.Rate, f.Outstanding)
		if f.debt != "" {
			b.WriteString(", " + f.debt)
		}
		if f.granted != "" {
			b.WriteString(", " + f.granted)
		}
		if f.Refused != nil {
			b.WriteString(", " + refused(*f.Refused))
		}
		if f.back != "" {
			b.WriteString(", " + f.back)
		}
		b.WriteString(s.faults() + "\n")
	}
	return b.String()
}

// faults names the findings.
func (s *summary) faults() string {
	var b strings.Builder
	for _, f := range s.Findings {
		b.WriteString(", ! " + f.Label)
	}
	return b.String()
}
