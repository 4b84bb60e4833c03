//go:build unix

package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// Watch sends only commands that Redis calls read-only, or that concern the connection.
func TestWatchWritesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	steps(t, s.Addr,
		step{"set app:api 5 1m", 0, "set", ""}, step{"acquire app:api -n 2", 0, "granted", ""},
		step{"set app:per 5 1m --per-client", 0, "set", ""},
		step{"acquire app:per -n 2 --id me", 0, "granted", ""},
	)
	sent := s.Monitor(t)
	for _, format := range []string{"--json=false", "--json"} {
		code, stdout, stderr := on(t, s.Addr, "watch --count 2 --name-prefix app: api per gone api "+format)
		if code != 0 || stderr != "" || strings.Count(stdout, "\n") != 6 {
			t.Errorf("code %d, printed\n%s\n%s", code, stdout, stderr)
		}
	}
	transactions, commands := 0, redistest.Must(s.Admin().Command(t.Context()).Result())(t)
	for _, command := range sent() {
		if command == "multi" {
			transactions++
		}
		if info := commands[command]; info == nil || slices.Contains(info.Flags, "write") {
			t.Errorf("it sent %s", command)
		}
	}
	const want = 2 * (2 + 3 + 2) // one limiter is read again after a search for its clients
	if transactions != want {
		t.Errorf("%d transactions, want %d", transactions, want)
	}
}

// In a pipe watch prints lines of JSON until Ctrl-C.
func TestWatchInPipe(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := detachedArgs(t, s, "watch", "--json", "gone")
	_, lines := p.starts()
	for range 2 {
		line, err := lines.ReadString('\n')
		var summary struct{ Name string }
		if err != nil || json.Unmarshal([]byte(line), &summary) != nil || summary.Name != "gone" {
			t.Errorf("%q, %v", line, err)
		}
	}
	p.signal(os.Interrupt)
	p.ends(exitInterrupted, "", "")
}
