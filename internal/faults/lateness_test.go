package faults

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// What the machine is late by counts once, however many timers it held up, and only
// between the moments that are asked for.
func TestTheControlOfLateness(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	c := &control{late: []span{{at(0), at(10)}, {at(2), at(8)}, {at(20), at(50)}, {at(45), at(60)}}}
	for _, want := range []struct{ from, to, late int }{
		{0, 100, 50}, {0, 10, 10}, {5, 10, 5}, {10, 20, 0}, {11, 19, 0}, {30, 40, 10}, {61, 90, 0},
	} {
		late := c.sum(at(want.from), at(want.to))
		if late != time.Duration(want.late)*time.Millisecond {
			t.Errorf("%d to %d: %v, want %d ms", want.from, want.to, late, want.late)
		}
	}
}

// The kernel's numbers count between the samples around two moments.
func TestThreadsThatWait(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	c := &control{queued: []queued{{at(0), at(0), 0}, {at(20), at(20), 5}, {at(40), at(40), 12},
		{at(60), at(65), 13}}}
	for _, want := range []struct{ from, to, waits int }{
		{0, 20, 5}, {21, 39, 7}, {21, 41, 8}, {19, 41, 13}, {-50, 10, 5},
		{61, 90, 1}, {50, 90, 1}, {66, 90, 0},
	} {
		if waits := c.waits(at(want.from), at(want.to)); waits != time.Duration(want.waits) {
			t.Errorf("%d to %d: %d, want %d", want.from, want.to, waits, want.waits)
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"1": "100 20 3\n", "2": "9 4 1\n", "3": ""} {
		redistest.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	c.threads = filepath.Join(dir, "*")
	if waited := c.waited(); waited != 24 {
		t.Errorf("waited %d, want 24", waited)
	}
}
