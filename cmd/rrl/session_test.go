package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/cmd/rrl/internal/golden"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// Each file of testdata/sessions is a session with rrl on a Redis of its own: "$ rrl ..." is a command line,
// with an answer on stdin after <<<, "> ..." a command of Redis, "#" a comment. The other lines are the
// output: "! " begins a line on stderr, [1] is an exit code. DIR is a directory, NOW the time of the test in
// ms, RESERVATION the ID of the last reservation. go test -update writes the output.
func TestSessions(t *testing.T) {
	files := redistest.Must(filepath.Glob("testdata/sessions/*.txt"))(t)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			s := &session{T: t, server: redistest.Start(t), dir: t.TempDir()}
			redistest.NoError(t, os.WriteFile(filepath.Join(s.dir, "bad.txt"), []byte("0\n\nsoon\n"), 0o600))
			for line := range strings.Lines(contents(t, file)) {
				s.line(line)
			}
			golden.Check(t, file, s.out.String())
		})
	}
	if len(files) < 8 {
		t.Errorf("only %d sessions", len(files))
	}
}

type session struct {
	*testing.T
	server *redistest.Server
	dir    string
	id     string          // of the last reservation
	out    strings.Builder // the session as it is now
}

// line carries out a line of a session.
func (s *session) line(line string) {
	switch text := strings.TrimSpace(line); {
	case text == "": // a blank line may be output; those before comments are written anew
	case text[0] == '#':
		if s.out.Len() > 0 {
			s.out.WriteByte('\n')
		}
		s.out.WriteString(line)
	case text[0] == '>':
		s.out.WriteString(line)
		var args []any
		for _, arg := range s.words(text[1:]) {
			args = append(args, arg)
		}
		redistest.NoError(s, s.server.Admin().Do(s.Context(), args...).Err())
	case strings.HasPrefix(text, "$ rrl"):
		s.out.WriteString(line)
		command, answer, _ := strings.Cut(strings.TrimPrefix(text, "$ rrl"), "<<<")
		args := append([]string{"--redis", s.server.Addr}, s.words(command)...)
		code, stdout, stderr := typed(s.Context(), strings.TrimSpace(answer)+"\n", args...)
		s.output("", stdout)
		s.output("! ", stderr)
		if code != 0 {
			fmt.Fprintf(&s.out, "[%d]\n", code)
		}
	}
}

// words splits a command line at blanks, but not in quotes.
func (s *session) words(line string) (words []string) {
	for _, word := range regexp.MustCompile(`"(\\.|[^"])*"|\S+`).FindAllString(line, -1) {
		if word[0] == '"' {
			word = redistest.Must(strconv.Unquote(word))(s)
		}
		word = strings.NewReplacer("DIR", s.dir, "RESERVATION", s.id).Replace(word)
		if offset, ok := strings.CutPrefix(word, "NOW"); ok {
			ms, _ := strconv.ParseInt(offset, 10, 64)
			word = fmt.Sprint(time.Now().UnixMilli() + ms)
		}
		words = append(words, word)
	}
	return words
}

// varying are the parts of an output that are not the same each time, and what stands for them.
var varying = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ][0-9:.]+( UTC|Z|[+-]\d\d:\d\d)`), "DATE"},
	{regexp.MustCompile(`\d\d:\d\d:\d\d\.\d{3}`), "CLOCK"},
	{regexp.MustCompile(`session:\w{16}`), "session:ID"},
	{reservation, "RESERVATION"},
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`("(waited|retry_after|reset_after|in|debt_paid_in|ttl)_ms": )[1-9]\d+`), "${1}N"},
	{regexp.MustCompile(`("waited_ms": )\d+`), "${1}N"},
	{regexp.MustCompile(`waited [0-9.ms]+`), "waited TIME"},
	{regexp.MustCompile(`\b(\d+h)?\d+m\d+(\.\d+)?s|\d+\.\d+m?s|\b\d+ms`), "TIME"},
	{regexp.MustCompile(`\d{12,}`), "N"},
	{regexp.MustCompile(`svc:\d{6,}`), "svc:N"},
	{regexp.MustCompile(` +\n`), "\n"},
	{regexp.MustCompile(`(\S)  +`), "$1  "}, // columns are as wide as what varies
	{regexp.MustCompile(`(CLOCK|session:ID  \d+)  \d\S*`), "$1  TIME"},
	{regexp.MustCompile(`(CLOCK  TIME  \d+ |permits? in) 1h\b`), "$1 TIME"}, // inspected within the same ms
}

// reservation is the ID of a reservation, base64 of JSON.
var reservation = regexp.MustCompile(`eyJ[\w-]{40,}`)

// wrapped is where a finding goes on in the next line; where that is depends on what varies.
var wrapped = regexp.MustCompile(`\n    ([A-Za-z])`)

// output adds what rrl printed, without the parts that vary.
func (s *session) output(mark, text string) {
	if id := reservation.FindString(text); id != "" {
		s.id = id
	}
	text = strings.NewReplacer(s.dir, "DIR", s.server.Addr, "ADDRESS").Replace(text)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	text = wrapped.ReplaceAllString(text, " $1")
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "rrl: ") { // errors are the same each time
			for _, v := range varying {
				line = v.is.ReplaceAllString(line, v.as)
			}
		}
		s.out.WriteString(mark + line)
	}
}
