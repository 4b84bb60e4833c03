package live

import (
	"context"
	"encoding/json"
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

// Lines prints what each look has found, until there were enough, ctx ends, or out takes no more: a line
// for each pair, or a line of JSON.
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
	return panels[0].err // none was read at last
}

// A summary is what one look has found, as a line of JSON.
type summary struct {
	Name     string            `json:"name"`
	At       time.Time         `json:"at"`
	Error    string            `json:"error,omitempty"` // why Redis was not read; there is nothing else then
	There    bool              `json:"there"`           // a rate is set
	Config   *inspect.Config   `json:"config,omitempty"`
	TTL      int64             `json:"ttl_ms"`  // of the hash, as PTTL says it
	Clients  int               `json:"clients"` // of a PER_CLIENT limiter, that had keys at the first look
	Pairs    []figures         `json:"pairs"`
	Findings []inspect.Finding `json:"findings"`
}

// figures is what one look has found of a pair.
type figures struct {
	ID          string `json:"id,omitempty"`
	Remaining   int64  `json:"remaining"`
	Outstanding int64  `json:"outstanding"`

	// Permits per second since the look before; nil at the first. Sampled: there were so many records
	// that the last ones stand for the others.
	ByGo     *float64 `json:"granted_by_go_per_s"`
	ByOthers *float64 `json:"granted_by_others_per_s"`
	Sampled  bool     `json:"sampled"`

	// Refused is an estimate of the requests of Go that were refused since the look before; nil where none
	// can be made.
	Refused *int64 `json:"refused_estimate"`

	Back []inspect.Return `json:"back"`

	granted, back string // the same as a text
}

// summary returns what the last look has found.
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
			ID: pair.ID, Remaining: pair.Remaining, Outstanding: pair.Outstanding, Back: pair.Back,
			back: back(pair),
		}
		if flow := p.flows[pair.ID]; flow.known {
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
		e := json.NewEncoder(out)
		e.SetEscapeHTML(false)
		return e.Encode(s)
	}
	_, err := io.WriteString(out, s.text())
	return err
}

// text returns a line for each pair, or one that says why there is none.
func (s *summary) text() string {
	start := s.At.Format(time.RFC3339) + " " + strconv.Quote(s.Name)
	switch {
	case s.Error != "":
		return start + " Redis fails: " + words.Harmless(s.Error) + "\n"
	case !s.There && len(s.Findings) == 0:
		return start + " is not there\n"
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
		if f.granted != "" {
			b.WriteString(", " + f.granted)
		}
		if f.Refused != nil {
			fmt.Fprintf(&b, ", "+refusedFormat, *f.Refused)
		}
		if f.back != "" {
			b.WriteString(", " + f.back)
		}
		b.WriteString(s.faults() + "\n")
	}
	return b.String()
}

// faults names what was found: the fault where it has a number.
func (s *summary) faults() string {
	var b strings.Builder
	for _, f := range s.Findings {
		name := f.Fault
		if name == "" {
			name = f.What
		}
		b.WriteString(", ! " + name)
	}
	return b.String()
}
