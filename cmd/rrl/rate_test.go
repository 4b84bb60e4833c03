package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestSet(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	steps(t, server, "",
		step{"set api 5 1m", 0, `"api": set: 5 permits per 1m, OVERALL`, ""},
		step{"set api 100 1.5s --json", 0, `{ "name": "api", "set": true, "config": ` +
			`{ "type": "OVERALL", "rate": 100, "interval_ms": 1500, "keep_alive_ms": 0 } }`, ""},
		step{"set api 3 1h --per-client --keep-alive 24h", 0,
			"3 permits per 1h, PER_CLIENT, keep alive 24h", ""},
		step{"set --name-prefix app: api 7 1h", 0, `"api": set: 7`, ""},
	)
	fields, err := server.Admin().HGetAll(t.Context(), "api").Result()
	if err != nil || fields["rate"] != "3" || fields["type"] != "1" || fields["keepAliveTime"] != "86400000" {
		t.Errorf("%v, %v", fields, err)
	}
	if rate := server.Admin().HGet(t.Context(), "app:api", "rate").Val(); rate != "7" {
		t.Errorf("the prefix: rate %q", rate)
	}
}

// A new rate asks before it forgets permits that are taken, and keeps them if it is told to.
func TestSetAsks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	question := `"api": 5 permits per 1h, OVERALL, 2 outstanding. With the new rate these are forgotten`
	refusal := "rrl: nothing was done: it needs a yes, or --yes"
	steps(t, server, "",
		step{"set api 5 1h", 0, "set", ""},
		step{"acquire api -n 2", 0, "granted", ""},
		step{"set api 9 1h", 2, "", question},
		step{"set api 9 1h", 2, "", refusal},
		step{"update api 9 1h", 2, "", question},
		step{"set api 9 1h --keep-state --per-client", 2, "", question}, // another type keeps nothing
	)
	steps(t, server, "y\n", step{"set api 9 1h", 2, "", refusal})
	has(t, server, "api", "3")
	steps(t, server, "", step{"set api 9 1h --keep-state", 0, "set", ""})
	has(t, server, "api", "7")
	steps(t, server, "yes\n", step{"set api 10 1h", 0, "set", "2 outstanding"})
	steps(t, server, "",
		step{"acquire api -n 2", 0, "remaining 8 of 10", ""},
		step{"set api 11 1h --yes", 0, "set", ""},
		step{"acquire api", 0, "remaining 10 of 11", ""},
	)
}

// Ctrl-C ends a question.
func TestInterruptedQuestion(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	steps(t, server, "", step{"set api 5 1h", 0, "set", ""})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stdin, never := io.Pipe()
	defer never.Close()
	asked, stderr := io.Pipe()
	code := make(chan int, 1)
	go func() {
		defer stderr.Close()
		code <- run(ctx, []string{"--redis", server.Addr, "delete", "api"}, stdin, io.Discard, stderr)
	}()
	var text strings.Builder
	for part := make([]byte, 1024); !strings.Contains(text.String(), "Type yes"); {
		n, err := asked.Read(part)
		if text.Write(part[:n]); err != nil {
			t.Fatalf("%v: %s", err, &text)
		}
	}
	cancel()
	_, _ = io.Copy(&text, asked)
	if got := <-code; got != exitInterrupted || !strings.Contains(text.String(), "\nrrl: interrupted\n") {
		t.Errorf("code %d, printed\n%s", got, &text)
	}
	steps(t, server, "", step{"acquire api", 0, "granted", ""})
}

func TestTrySet(t *testing.T) {
	t.Parallel()
	steps(t, redistest.Start(t), "",
		step{"try-set api 5 1s --keep-alive 1h", 0, "set: 5 permits per 1s, OVERALL, keep alive 1h", ""},
		step{"try-set api 6 2s", 1,
			"not set, for there is one: 5 permits per 1s, OVERALL, keep alive 1h", ""},
		step{"try-set api 6 2s --json", 1, `"set": false, "config": { "type": "OVERALL", "rate": 5,`, ""},
		step{"try-set api 6 2s --keep-state", 2, "", "unknown flag: --keep-state"},
	)
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	steps(t, server, "",
		step{"update api 5 1s", 1, `"api": no rate is set`, ""},
		step{"update api 5 1s --json", 1, `{ "name": "api", "set": false }`, ""},
		step{"set api 5 1h", 0, "set", ""},
		step{"acquire api -n 2", 0, "granted", ""},
		step{"update api 6 1h --keep-state --json", 0,
			`"set": true, "config": { "type": "OVERALL", "rate": 6,`, ""},
	)
	has(t, server, "api", "4")
}

// What is wrong with a command line is said with the argument, its value and its bound.
func TestBadInput(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	steps(t, server, "",
		step{"set api 5", 2, "", `2 arguments, must be as in "rrl set NAME RATE INTERVAL"; run 'rrl help'`},
		step{"set api x 1s", 2, "", `RATE is "x", must be an integer`},
		step{"set api 0 1s", 2, "", "rate is 0, must be between 1 and 9007199254740992"},
		step{"set api 5 1d", 2, "", `INTERVAL is "1d", must be a duration with a unit, ` +
			"such as 500ms, 1s, 1m30s or 24h; there is no unit for days"},
		step{"set api 5 10", 2, "", `INTERVAL is "10", must be a duration with a unit`},
		step{"set api 5 1us", 2, "", "interval is 1µs, must"},
		step{"set api 5 1s --keep-alive 1d", 2, "", `"1d" for "--keep-alive" flag`},
		step{"set api 5 1s --keep-alive 1ms", 2, "", "keepAlive is 1ms, must"},
		step{"acquire api", 2, "",
			`no rate is set for "api" (see TrySetRate); set a rate first: rrl set NAME RATE INTERVAL`},
		step{"acquire", 2, "", `0 arguments, must be as in "rrl acquire NAME`},
		step{"acquire api sh", 2, "", `unexpected argument "sh": a command needs -- before it`},
		step{"acquire api --", 2, "", "COMMAND is empty, must be given after --"},
		step{"acquire -- sh", 2, "", "0 arguments before --, must be NAME"},
		step{"acquire api --timeout -1s", 2, "", "--timeout is -1s, must not be negative"},
		step{"acquire api --refused-code 256", 2, "", "--refused-code is 256, must be between 1 and 255"},
		step{"acquire api --refused-code 0", 2, "", "--refused-code is 0, must be between 1 and 255"},
		step{"acquire api --wait --timeout 1s", 2, "", "[timeout wait]"},
		step{"acquire api -n 0", 2, "", "permits is 0, must be between 1 and 1099511627776"},
		step{"release api x", 2, "", `PERMITS is "x", must be an integer`},
		step{"release api", 2, "", "1 arguments, must be as in"},
		step{"rename a a", 2, "", `NEW is "a", must not be NAME`},
	)
	for _, args := range [][]string{{"set", "", "5", "1s"}, {"acquire", ""}, {"delete", "api", ""},
		{"rename", "api", ""}, {"repair", ""}, {"release", "", "1"}} {
		code, _, stderr := rrl(t.Context(), append([]string{"--redis", server.Addr}, args...)...)
		if code != exitError || !strings.Contains(stderr, `NAME is ""`) {
			t.Errorf("%q: code %d, printed %s", args, code, stderr)
		}
	}
	if n := server.Admin().DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys were written", n)
	}
}
