package rls

import (
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

const short = 15 * time.Millisecond

// While Redis hangs, limits of all_or_none are refused together, as otherwise. A key may be long. Of many
// failures few are reported.
func TestTheLocalFallbackOfManyRequests(t *testing.T) {
	server := redistest.Start(t)
	start, reports := time.Now(), 0
	o := Options{Budget: short, OnFailure: func(error) { reports++ }}
	s := serve(t, server.Client(t), o, hourly(2, ", algorithm: token_bucket"))
	all := serve(t, server.Client(t), o, together)
	server.Freeze(t)
	asks(t, all, "2 one=x; two=x", "OVER: OVER 0, OK 0")
	longest := "a=" + strings.Repeat("y", maxKey-len("a="))
	asks(t, s, "a=x", "OK: OK 1", "a=x", "OK: OK 0", "a=x", "OVER: OVER 0", longest, "OK: OK 1")
	if most := 2 + 2*int(time.Since(start)/betweenFailures); reports < 1 || reports > most {
		t.Errorf("%d failures are reported, want 1 to %d", reports, most)
	}
}
