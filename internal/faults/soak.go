package faults

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redisson-go/rratelimiter/internal/grants"
)

// Figures sum up many rounds.
type Figures struct {
	Faults   map[string]int // by name
	Acquires int            // calls of Go; permits of both follow
	Granted  int
	Worst    grants.Window
	Lost     int64 // permits that were not back after an interval
	Late     Lateness
	Wrong    []string
}

// add adds a round.
func (f *Figures) add(r *Report) {
	if f.Faults == nil {
		f.Faults = map[string]int{}
	}
	f.Faults[r.Fault]++
	f.Acquires += r.Calls
	f.Granted += r.Granted + r.JavaGranted
	if r.Worst.Permits() > f.Worst.Permits() {
		f.Worst = r.Worst
	}
	f.Lost += max(0, r.Lost)
	f.Late.Join(r.Late)
	for _, wrong := range r.Wrong {
		f.Wrong = append(f.Wrong, r.Fault+": "+wrong)
	}
}

// String returns all in one line.
func (f *Figures) String() string {
	total := 0
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(f.Faults)) {
		total += f.Faults[kind]
		kinds = append(kinds, fmt.Sprintf("%s %d", strings.TrimPrefix(kind, "cluster: "), f.Faults[kind]))
	}
	return fmt.Sprintf("%d faults (%s); %d acquires of Go, %d permits granted; "+
		"worst window %d of %d permits; %d permits lost; "+
		"callers late by %v at most, p99.9 %v",
		total, strings.Join(kinds, ", "), f.Acquires, f.Granted, f.Worst.Permits(), limit.Rate,
		f.Lost, f.Late.Quantile(1).Round(time.Millisecond/10),
		f.Late.Quantile(0.999).Round(time.Millisecond/10))
}

// Soak plays faults of a table on one testbed, in random order, each of them before one
// comes again: for span, and each once at least. It stops after the first fault that
// is wrong. each is called for every round.
func (s *Testbed) Soak(
	ctx context.Context, table []Fault, span time.Duration, each func(*Report),
) (*Figures, error) {
	f := &Figures{}
	var order []int
	for i, end := 0, time.Now().Add(span); i < len(table) || time.Now().Before(end); i++ {
		if i%len(table) == 0 {
			order = rand.Perm(len(table))
		}
		r, err := s.Play(ctx, table[order[i%len(table)]])
		f.add(r)
		each(r)
		if err != nil || len(f.Wrong) > 0 {
			return f, err
		}
	}
	return f, nil
}
