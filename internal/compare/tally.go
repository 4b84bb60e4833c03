package compare

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// A Tally counts what was compared. The zero value is ready to use, by several
// goroutines at once.
type Tally struct {
	mu        sync.Mutex // guards the rest
	sequences int
	steps     int
	alike     int            // steps that no fault changed
	clean     int            // sequences in which Java met no fault
	met       map[string]int // sequences that met a fault
}

// counts are those of one sequence.
type counts struct {
	alike int
	met   []string // the faults, each once
}

// meet enters faults that were at work.
func (c *counts) meet(names []string) {
	for _, name := range names {
		if !slices.Contains(c.met, name) {
			c.met = append(c.met, name)
		}
	}
}

func (t *Tally) add(steps int, c counts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sequences++
	t.steps += steps
	t.alike += c.alike
	if len(c.met) == 0 {
		t.clean++
	}
	if t.met == nil {
		t.met = map[string]int{}
	}
	for _, name := range c.met {
		t.met[name]++
	}
}

// String returns the counts, with the faults in the order of the README.
func (t *Tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var met []string
	for _, f := range faults {
		text := fmt.Sprintf("%s %d", f.name, t.met[f.name])
		if t.met[f.name] > 0 && !slices.Contains(met, text) {
			met = append(met, text)
		}
	}
	return fmt.Sprintf("%d sequences, %d steps, %d of them untouched by any fault of Redisson; "+
		"%d sequences without a fault, the others by fault: %s",
		t.sequences, t.steps, t.alike, t.clean, strings.Join(met, ", "))
}
