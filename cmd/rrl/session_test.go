package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/cmd/rrl/internal/golden"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// Each file of testdata/sessions is a session with rrl on a Redis of its own: "$ rrl ..." is a command line,
// with an answer on stdin after <<<, "> ..." a command of Redis, "#" a comment. The other lines are the
// output: "! " begins a line on stderr, [1] is an exit code. DIR is a directory, NOW the time of the test in
// ms, NODE the first server of a cluster, RESERVATION the ID of the last reservation. go test -update writes
// the output.
//
// In fake time, in which each command takes a second, the output is the same each time but for random names.
// On a real server only the times differ from it. Two sessions are played on real servers only: cluster.txt
// on a cluster, and commands.txt, because processes have no fake time.
func TestSessions(t *testing.T) {
	files := redistest.Must(filepath.Glob("testdata/sessions/*.txt"))(t)
	for _, file := range files {
		name := filepath.Base(file)
		t.Run("Redis/"+name, func(t *testing.T) {
			t.Parallel()
			s := &session{T: t}
			if name == "cluster.txt" {
				cluster := redistest.StartCluster(t)
				s.rdb, s.addrs = cluster.Client(t), cluster.Addrs
			} else {
				server := redistest.Start(t)
				s.rdb, s.addrs = server.Admin(), []string{server.Addr}
			}
			golden.CheckTimeless(t, file, s.play(file))
		})
		if name == "cluster.txt" || name == "commands.txt" {
			continue
		}
		t.Run("miniredis/"+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rdb := redistest.MiniClient(t, redistest.Mini(t))
				s := &session{T: t, rdb: rdb, addrs: []string{rdb.Options().Addr}, pause: time.Second}
				s.at.dialer = rdb.Options().Dialer
				golden.Check(t, file, s.play(file))
			})
		})
	}
	if len(files) < 14 {
		t.Errorf("only %d sessions", len(files))
	}
}

type session struct {
	*testing.T
	rdb   redis.UniversalClient
	addrs []string // of the servers: one, or those of a cluster
	at    place
	pause time.Duration // after each command
	dir   string
	id    string          // of the last reservation
	out   strings.Builder // the session as it is now
}

// play carries out the commands of a session, with pauses, and returns the session as it is now.
func (s *session) play(file string) string {
	s.dir = s.TempDir()
	for name, mode := range map[string]os.FileMode{"bad.txt": 0o600, "broken": 0o700} {
		text := []byte("\x7fELF: not really\n")
		redistest.NoError(s, os.WriteFile(filepath.Join(s.dir, name), text, mode))
	}
	for line := range strings.Lines(contents(s.T, file)) {
		s.line(line)
		if line[0] == '$' {
			time.Sleep(s.pause)
		}
	}
	return s.out.String()
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
		cmd := redis.NewCmd(s.Context(), args...)
		_ = s.rdb.Process(s.Context(), cmd)
		redistest.NoError(s, cmd.Err())
	case strings.HasPrefix(text, "$ rrl"):
		s.out.WriteString(line)
		command, answer, _ := strings.Cut(strings.TrimPrefix(text, "$ rrl"), "<<<")
		address := s.addrs[0]
		if len(s.addrs) > 1 {
			address = "redis+cluster://" + strings.Join(s.addrs, ",")
		}
		args := append([]string{"--redis", address}, s.words(command)...)
		code, stdout, stderr := typedAt(s.Context(), s.at, strings.TrimSpace(answer)+"\n", args...)
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
		word = strings.NewReplacer("DIR", s.dir, "RESERVATION", s.id, "NODE", s.addrs[0]).Replace(word)
		if offset, ok := strings.CutPrefix(word, "NOW"); ok {
			ms, _ := strconv.ParseInt(offset, 10, 64)
			word = fmt.Sprint(time.Now().UnixMilli() + ms)
		}
		words = append(words, word)
	}
	return words
}

// random are the names in an output that are not the same each time, and names as long that stand for them.
var random = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`session:[A-Z2-7]{16}`), "session:QX3NDKZ7A4MHC2TB"},
	{reservation, "RESERVATION"}, // never in a table
	{
		regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d{19}`),
		"7c9e6679-7425-40de-944b-e07fc1f90ae7:6148914691236517205",
	},
	{regexp.MustCompile(`svc:\d{19}`), "svc:6148914691236517205"},
	{regexp.MustCompile(`\S*/rrl-used-\d+`), "USED"},
}

// reservation is the ID of a reservation, base64 of JSON.
var reservation = regexp.MustCompile(`eyJ[\w-]{40,}`)

// withoutRandom returns a text with the same names each time.
func withoutRandom(text string) string {
	for _, name := range random {
		text = name.is.ReplaceAllString(text, name.as)
	}
	return text
}

// output adds what rrl printed, without random names.
func (s *session) output(mark, text string) {
	if id := reservation.FindString(text); id != "" {
		s.id = id
	}
	text = strings.ReplaceAll(withoutRandom(text), s.dir, "DIR")
	for _, address := range s.addrs {
		text = strings.ReplaceAll(text, address, "ADDRESS")
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	for line := range strings.Lines(text) {
		s.out.WriteString(mark + strings.TrimRight(line, " \n") + "\n")
	}
}
