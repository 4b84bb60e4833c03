package redistest

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// LuaCover is the environment variable that names a directory: each miniredis of the process then notes
// there which lines of its scripts have run. TestLinesOfLuaThatNothingRuns reads it (make luacover).
const LuaCover = "LUACOVER"

// covered are the scripts of this process, by the SHA-1 of their text.
var covered = struct {
	sync.Mutex
	as  map[string]string         // the SHA-1 that a server knows the script by
	ran map[string]map[string]int // lines
}{as: map[string]string{}, ran: map[string]map[string]int{}}

// coverLua makes a server count the lines that its scripts run, from the first EVAL of each on.
func coverLua(t TB, m *miniredis.Miniredis) {
	dir := os.Getenv(LuaCover)
	if dir == "" {
		return
	}
	_ = m.Server().Register("COVER", func(c *server.Peer, _ string, args []string) {
		covered.Lock()
		covered.ran[args[0]][args[1]]++
		covered.Unlock()
		c.WriteInt(0)
	}, server.ReadOnlyOption())
	m.Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
		switch {
		case cmd == "EVAL" && !strings.Contains(args[0], "'COVER'"):
			args = append([]string{cmd, counting(t, args[0])}, args[1:]...)
		case cmd == "EVALSHA":
			covered.Lock()
			sha := covered.as[args[0]]
			covered.Unlock()
			if sha == "" {
				return false
			}
			args = append([]string{cmd, sha}, args[1:]...)
		default:
			return false
		}
		m.Server().Dispatch(c, args)
		return true
	})
	t.Cleanup(func() {
		covered.Lock()
		defer covered.Unlock()
		for sha, lines := range covered.ran {
			var text strings.Builder
			for line, times := range lines {
				fmt.Fprintln(&text, line, times)
			}
			name := filepath.Join(dir, fmt.Sprintf("%s.%d", sha, os.Getpid()))
			if err := os.WriteFile(name, []byte(text.String()), 0o600); err != nil {
				t.Fatalf("redistest: %v", err)
			}
		}
	})
}

// counting returns a script that counts its lines.
func counting(t TB, script string) string {
	sum := sha1.Sum([]byte(script))
	sha := hex.EncodeToString(sum[:])
	lines := strings.Split(script, "\n")
	for _, line := range LuaStatements(t, script) {
		lines[line-1] = fmt.Sprintf("redis.call('COVER','%s',%d) %s", sha, line, lines[line-1])
	}
	text := strings.Join(lines, "\n")
	sum = sha1.Sum([]byte(text))
	covered.Lock()
	defer covered.Unlock()
	covered.as[sha] = hex.EncodeToString(sum[:])
	if covered.ran[sha] == nil {
		covered.ran[sha] = map[string]int{}
	}
	return text
}

// LuaStatements returns the lines of a script on which a statement begins.
func LuaStatements(t TB, script string) (numbers []int) {
	chunk, err := parse.Parse(strings.NewReader(script), "script")
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	begins := map[int]bool{}
	statements(reflect.ValueOf(chunk), begins)
	for i, line := range strings.Split(script, "\n") {
		first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if begins[i+1] && first != "elseif" && first != "else" && first != "end" && first != "until" {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

// statements notes the lines of the statements in a tree.
func statements(v reflect.Value, begins map[int]bool) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			statements(v.Index(i), begins)
		}
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return
		}
		if s, ok := v.Interface().(ast.Stmt); ok {
			begins[s.Line()] = true
		}
		statements(v.Elem(), begins)
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanInterface() {
				statements(field, begins)
			}
		}
	}
}

// LuaRan returns how often each line of a script ran, by what LuaCover has noted in a directory.
func LuaRan(t TB, dir, sha string) map[int]int {
	names, err := filepath.Glob(filepath.Join(dir, sha+".*"))
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	ran := map[int]int{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatalf("redistest: %v", err)
		}
		words := strings.Fields(string(text))
		for i := 0; i+1 < len(words); i += 2 {
			line, _ := strconv.Atoi(words[i])
			times, _ := strconv.Atoi(words[i+1])
			ran[line] += times
		}
	}
	return ran
}
