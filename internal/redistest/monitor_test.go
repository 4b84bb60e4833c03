package redistest_test

import (
	"slices"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// What a client sends is seen by its server and by a hook: each command, and each round trip.
func TestMonitorAndRoundTrips(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	var trips redistest.RoundTrips
	rdb.AddHook(&trips)
	sent := s.Monitor(t)
	rdb.Set(t.Context(), `a "] "key`, 1, 0)
	pipe := rdb.TxPipeline()
	pipe.Get(t.Context(), "a")
	pipe.Del(t.Context(), "a")
	_, _ = pipe.Exec(t.Context())
	rdb.Eval(t.Context(), "return redis.call('INCR', KEYS[1])", []string{"b"})
	want := []string{"set", "multi", "get", "del", "exec", "eval", "incr"}
	got := slices.DeleteFunc(sent(), func(name string) bool { return name == "hello" || name == "client" })
	if !slices.Equal(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	if n := trips.Load(); n != 3 {
		t.Errorf("%d round trips, want 3", n)
	}
}
