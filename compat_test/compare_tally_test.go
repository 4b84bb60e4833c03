package compat_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// A tally counts what was compared.
type tally struct {
	mu        sync.Mutex
	sequences int
	steps     int
	alike     int            // steps that made what they should on both sides
	clean     int            // sequences in which Java met no fault
	faults    map[string]int // sequences that met a fault
}

func (t *tally) add(steps, alike int, faults map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sequences++
	t.steps += steps
	t.alike += alike
	if len(faults) == 0 {
		t.clean++
	}
	if t.faults == nil {
		t.faults = map[string]int{}
	}
	for name := range faults {
		t.faults[name]++
	}
}

func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var told []string
	for _, f := range faults {
		if text := fmt.Sprintf("%s %d", f.name, t.faults[f.name]); t.faults[f.name] > 0 && !slices.Contains(told, text) {
			told = append(told, text)
		}
	}
	return fmt.Sprintf("%d sequences, %d steps, %d of them untouched by any fault of Redisson; "+
		"%d sequences without any, told apart by the others: %s",
		t.sequences, t.steps, t.alike, t.clean, strings.Join(told, ", "))
}
