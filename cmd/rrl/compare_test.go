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

// Nobody else is at work meanwhile: the bytes of a key are those by which the heap grows.
func TestCompare(t *testing.T) {
	code, stdout, stderr := rrl(t.Context(), "compare", "--traffic", "edge")
	if code != 0 || stderr != "" {
		t.Fatalf("code %d, printed %s", code, stderr)
	}
	for _, line := range []string{
		`edge: 80 requests, 20 permits per 1s\n`,
		`requests +▁ +████`,
		`fixed window +80 +0 +39 +195% +5\.0 +\d+ *\n`,
		`RRateLimiter +42 +38 +20 +100% +5\.0 *\n`,
	} {
		if !regexp.MustCompile(line).MatchString(stdout) {
			t.Errorf("no line as %q:\n%s", line, stdout)
		}
	}
}

// The rate and the interval are those of the flags, the requests those of a file.
func TestCompareFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, picture := filepath.Join(dir, "requests.txt"), filepath.Join(dir, "picture.svg")
	redistest.NoError(t, os.WriteFile(file, []byte("0 2\n0.1\n150ms 2\n"), 0o600))
	code, stdout, stderr := rrl(t.Context(), "compare", "--json", "--rate", "3", "--per", "100ms",
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
			Peak: 2 / 0.3, Bytes: row.Bytes,
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

func TestCompareErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.txt")
	redistest.NoError(t, os.WriteFile(bad, []byte("0\n\nsoon\n"), 0o600))
	for args, want := range map[string]string{
		"--traffic flood":             `--traffic is "flood", must be burst, steady, edge, random or a file`,
		"--traffic " + bad:            bad + `, line 3: the time is "soon", must be 0 to 24h0m0s`,
		"--traffic " + dir:            "is a directory",
		"--rate 0":                    "--rate is 0, must be 1 to 1000000",
		"--rate 2501":                 "the traffic has 10004 requests, must have at most 4000",
		"--per 1h1us":                 "--per is 1h0m0.000001s, must be 10ms to 24h0m0s, a whole number",
		"--per 1":                     `invalid argument "1" for "--per"`,
		"--capacity -1":               "--capacity is -1, must be 1 to 1000000",
		"--hold 2s":                   "--hold is 2s, must be 1ms to --per",
		"--traffic edge --svg " + dir: "--svg: open " + dir,
		"now":                         `unknown command "now" for "rrl compare"`,
		"--seed -1":                   `invalid argument "-1" for "--seed"`,
	} {
		code, stdout, stderr := rrl(t.Context(), append([]string{"compare"}, strings.Fields(args)...)...)
		if code != exitError || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, want %q, printed\n%s\n%s", args, code, want, stdout, stderr)
		}
	}
}

// On a terminal the picture has its width and colours, unless these are not wanted.
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
