package live

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter"
)

// Run ends for each reason, and leaves no goroutine.
func TestRunEnds(t *testing.T) {
	for name, c := range map[string]struct {
		keys  string
		count int
		err   error
	}{
		"q":      {keys: "q"},
		"Ctrl-C": {keys: "\x03", err: ErrInterrupted},
		"scroll": {keys: "jkgGp pq"},
		"count":  {count: 3},
		"ctx":    {err: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 5500*time.Millisecond)
				defer cancel()
				s := newScenario(t, "api")
				s.set("api", rratelimiter.Overall, 5, time.Second)
				s.w.Count = c.count
				in, keyboard := io.Pipe()
				time.AfterFunc(1500*time.Millisecond, func() { _, _ = keyboard.Write([]byte(c.keys)) })
				var out strings.Builder
				start := time.Now()
				err := s.w.Run(ctx, in, &out)
				_ = keyboard.Close()
				if !errors.Is(err, c.err) {
					t.Error(err)
				}
				if took := time.Since(start); (c.keys != "") != (took < 2*time.Second) {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
