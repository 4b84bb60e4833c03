package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestAcquireAndRelease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	steps(t, server, "",
		step{"set api 5 1h", 0, "set", ""},
		step{"acquire api", 0, `"api": granted, permits 1, remaining 4 of 5`, ""},
		step{"acquire api -n 3 --json", 0, `{ "name": "api", "granted": true, "permits": 3, "limit": 5, ` +
			`"remaining": 1, "retry_after_ms": 0, "reset_after_ms": 3`, ""},
		step{"acquire api --permits 2", 1, `refused, permits 2, remaining 1 of 5, retry after 59m`, ""},
		step{"acquire api -n 2 --json", 1,
			`"granted": false, "permits": 2, "limit": 5, "remaining": 1, "retry_after_ms": 3`, ""},
		step{"acquire api -n 2 --refused-code 75", 75, "refused", ""},
		step{"acquire api -n 2 --quiet", 1, "", ""},
		step{"acquire api -n 6", 2, "", "permits is 6, must be at most 5"},
		step{"acquire api -n 2 --timeout 10ms", 1, `"api": refused, permits 2, waited `, ""},
		step{"acquire api -n 2 -t 10ms --json", 1, `"granted": false, "permits": 2, "waited_ms": `, ""},
		step{"release api 2", 0,
			`"api": given back, up to 2 permits, which others may have taken; remaining 3 of 5`, ""},
		step{"acquire api -n 3 --timeout 1h", 0, `"api": granted, permits 3, waited `, ""},
		step{"release api 3 --json", 0, `{ "name": "api", "permits": 3, "limit": 5, "remaining": 3 }`, ""},
		step{"acquire api -n 3 --wait", 0, "granted", ""},
		step{"release api 100", 0, "given back", ""}, // no more than was taken
		step{"acquire api -n 5", 0, "remaining 0 of 5", ""},
	)
}

// Each run is a client of its own, unless it has an ID.
func TestAcquirePerClient(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	note := `rrl: "own" is PER_CLIENT: without --id this run has a limit of its own` + "\n"
	steps(t, server, "",
		step{"set own 2 1h --per-client", 0, "PER_CLIENT", ""},
		step{"acquire own", 0, "remaining 1 of 2", note},
		step{"acquire own", 0, "remaining 1 of 2", note},
		step{"acquire own --id me", 0, "remaining 1 of 2", ""},
		step{"acquire own --id me", 0, "remaining 0 of 2", ""},
		step{"acquire own --id me", 1, "refused", ""},
		step{"release own 1", 2, "", "--id says whose to give back"},
		step{"acquire own --id me", 1, "refused", ""},
		step{"release own 1 --id me", 0, "given back", ""},
		step{"acquire own --id me", 0, "granted", ""},
	)
}

// With a timeout or --wait it waits until the permits are back, no longer.
func TestAcquireWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rratelimiter.New(redistest.MiniClient(t, redistest.Mini(t)), rratelimiter.WithGoOnly())
		defer c.Close()
		l := c.RateLimiter(redistest.Name(t))
		redistest.NoError(t, l.SetRate(t.Context(), rratelimiter.Overall, 1, time.Minute))
		var stderr strings.Builder
		a := &app{stderr: &stderr}
		for _, c := range []struct {
			q      acquisition
			err    error
			stdout string
		}{
			{acquisition{permits: 1}, nil, "granted, permits 1, remaining 0 of 1\n"},
			{acquisition{permits: 1, refusedCode: 1}, errNo,
				"refused, permits 1, remaining 0 of 1, retry after 1m\n"},
			{acquisition{permits: 1, wait: true}, nil, "granted, permits 1, waited 1m\n"},
			{acquisition{permits: 1, timeout: time.Hour}, nil, "granted, permits 1, waited 1m\n"},
			{acquisition{permits: 1, timeout: 30 * time.Second, refusedCode: 9}, exitCode(9),
				"refused, permits 1, waited 30s\n"},
		} {
			var stdout strings.Builder
			err := a.acquire(t.Context(), l, &c.q, &stdout)
			if err != c.err || !strings.HasSuffix(stdout.String(), ": "+c.stdout) {
				t.Errorf("%+v: %v, printed %s", c.q, err, &stdout)
			}
		}
		if stderr.Len() > 0 {
			t.Error(stderr.String())
		}
	})
}

func TestMillisAreRoundedUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2} {
		if got := upMillis(d); got != want {
			t.Errorf("%v: %d", d, got)
		}
	}
}
