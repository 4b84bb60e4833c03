package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/redisson-go/rratelimiter/cmd/rrl/traffic"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestCompare(t *testing.T) {
	code, stdout, stderr := rrl(t.Context(), "compare", "--traffic", "edge")
	if code != 0 || stderr != "" {
		t.Fatalf("code %d, printed %s", code, stderr)
	}
	for _, line := range []string{
		`edge: 80 requests, 20 permits per 1s\n`,
		`requests +▁ +████`,
		`fixed window +80 +0 +39 +195% +5\.0 *\n`,
		`RRateLimiter +42 +38 +20 +100% +5\.0 *\n`,
	} {
		if !regexp.MustCompile(line).MatchString(stdout) {
			t.Errorf("no line as %q:\n%s", line, stdout)
		}
	}
}

// The rate and the interval come from the flags, the requests from a file.
func TestCompareFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, picture := filepath.Join(dir, "requests.txt"), filepath.Join(dir, "picture.svg")
	redistest.NoError(t, os.WriteFile(file, []byte("0 2\n0.1\n150ms 2\n"), 0o600))
	code, stdout, stderr := rrl(t.Context(), "compare", "--json", "--rate", "3/100ms",
		"--traffic", file, "--svg", picture)
	var got traffic.Report
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 0 || stderr != "" {
		t.Fatalf("code %d, %v, printed %s", code, err, stderr)
	}
	rows := got.Limiters
	got.Limiters = nil
	want := traffic.Report{Traffic: file, Requests: 3, Rate: 3, Interval: 100}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, row := range rows {
		want := traffic.LimiterRow{
			Name: row.Name, Admitted: 3, Permits: 5, Worst: 3, WorstAt: 100, OfRate: 1, Busiest: 2,
			Peak: 2 / 0.3,
		}
		if (row.Name == "fixed window" || row.Name == "RRateLimiter") && row != want {
			t.Errorf("%+v, want %+v", row, want)
		}
	}
	svg, err := os.ReadFile(picture)
	text := string(svg)
	if err != nil || !strings.HasPrefix(text, "<svg ") || !strings.Contains(text, "requests.txt: 3") {
		t.Errorf("%v, %.200s", err, text)
	}
}

// On a terminal the picture has colours, unless the environment forbids them; so has the demo.
func TestCompareOnATerminal(t *testing.T) {
	t.Parallel()
	for env, red := range map[string]bool{"A=": true, "NO_COLOR=1": false, "TERM=dumb": false} {
		s := onTerminal(t, []string{env}, "compare", "--traffic", "edge")
		code, all := s.ends()
		if code != 0 {
			t.Fatalf("%s: code %d, printed\n%s", env, code, all)
		}
		if got := strings.Contains(all, "\x1b[31m"); got != red {
			t.Errorf("%s: red is %v, want %v", env, got, red)
		}
	}
}
