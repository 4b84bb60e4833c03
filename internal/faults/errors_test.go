package faults

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// Errors of a real limiter are of the kinds that the documentation has, and other errors
// are found out.
func TestKindsOfErrors(t *testing.T) {
	s := redistest.Start(t)
	c := rratelimiter.New(s.Client(t))
	defer c.Close()
	l := c.RateLimiter("a")
	ask := func(ctx context.Context) error {
		_, err := l.TryAcquire(ctx, 1, 0)
		return err
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	kinds := map[string]error{notInitialized: ask(t.Context()), contextEnded: ask(ended)}
	redistest.NoError(t, l.SetRate(t.Context(), rratelimiter.Overall, 1, time.Second))
	s.Admin().ConfigSet(t.Context(), "maxmemory", "1")
	kinds["OOM"] = ask(t.Context())
	s.Stop()
	kinds[noAnswer] = ask(t.Context())
	kinds[unnamed] = errors.New("OOM command not allowed")
	kinds[undocumented] = errors.New(`something of "a"`)
	f := Fault{Errors: []string{"OOM"}}
	for want, err := range kinds {
		if kind := kindOf(err, "a"); kind != want {
			t.Errorf("%v is %s, want %s", err, kind, want)
		}
		if may := want == "OOM" || want == noAnswer || want == contextEnded; f.mayBe(want) != may {
			t.Errorf("%s: %v", want, !may)
		}
	}
	if kind := kindOf(fmt.Errorf(`"a": %w`, kinds[unnamed]), "a"); kind != undocumented {
		t.Errorf("an error that is no reply of Redis is %s", kind)
	}
}
