package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// docs/rrl.md names every command, and no command or flag that is not there. The help lists the flags.
func TestDocs(t *testing.T) {
	page := contents(t, "../../docs/rrl.md")
	a := &app{stdin: strings.NewReader(""), stdout: &output{w: t.Output()}, stderr: t.Output()}
	root := a.root()
	root.InitDefaultCompletionCmd()
	root.InitDefaultVersionFlag()
	root.InitDefaultHelpFlag()
	commands, flags := map[string]bool{"completion SHELL": true}, map[string]bool{}
	for _, cmd := range append(root.Commands(), root) {
		names := func(f *pflag.Flag) { flags[f.Name] = true }
		cmd.Flags().VisitAll(names)
		cmd.PersistentFlags().VisitAll(names)
		if name := cmd.Name(); name != "completion" && name != "help" && cmd != root {
			commands[cmd.Use] = true
		}
	}
	for what, of := range map[string]struct {
		pattern string
		are     map[string]bool
	}{
		"command": {"(?m)^\\| `([a-z][a-z-]*[^`]*)` \\| [a-z]", commands},
		"flag":    {`--([a-z][a-z-]*)`, flags},
	} {
		named := map[string]bool{}
		for _, name := range regexp.MustCompile(of.pattern).FindAllStringSubmatch(page, -1) {
			named[name[1]] = true
		}
		for name := range of.are {
			if what == "command" && !named[name] {
				t.Errorf("docs/rrl.md does not name the command %q", name)
			}
		}
		for name := range named {
			if !of.are[name] {
				t.Errorf("docs/rrl.md names %q, which is no %s", name, what)
			}
		}
	}
}

// The defaults of flags are those of the pages.
func TestDefaults(t *testing.T) {
	a := &app{stdin: strings.NewReader(""), stdout: &output{w: t.Output()}, stderr: t.Output()}
	root := a.root()
	for flag, want := range map[string]string{
		"inspect records": "10000", "lock grace": "10s", "serve listen": "127.0.0.1:8380",
		"watch every": "1s", "acquire permits": "1", "acquire refused-code": "1", "lock lost-code": "3",
	} {
		command, name, _ := strings.Cut(flag, " ")
		cmd, _, err := root.Find([]string{command})
		if err != nil || cmd.Flags().Lookup(name).DefValue != want {
			t.Errorf("%s: %+v, %v; want %s", flag, cmd.Flags().Lookup(name), err, want)
		}
	}
	if most := fmt.Sprintf("has at most %d, and further ones wait", mostConnections); !strings.Contains(
		contents(t, "../../docs/rrl.md"), most) {
		t.Errorf("docs/rrl.md does not say that it %s", most)
	}
}

// The page names each variable of the environment that rrl reads.
func TestDocsNameTheEnvironment(t *testing.T) {
	page := contents(t, "../../docs/rrl.md")
	source := contents(t, "place.go") + contents(t, "app.go") + contents(t, "lock.go") +
		contents(t, "reserve.go")
	for _, name := range regexp.MustCompile(`\bRRL_[A-Z_]+`).FindAllString(source, -1) {
		if !strings.Contains(page, "`"+name) {
			t.Errorf("docs/rrl.md does not name %s", name)
		}
	}
}

func contents(t *testing.T, file string) string {
	t.Helper()
	text := redistest.Must(os.ReadFile(file))(t)
	return string(text)
}

// Files are completed where an argument is a file.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--cacert\n":            ":0\n",
		"set\n":                 ":4\n", // no files
		"acquire\napi\n--\n./r": ":0\n",
		"lock\napi\n--\n./r":    ":0\n",
		"unlock\n":              ":4\n",
	} {
		line := append([]string{"__complete"}, strings.Split(args, "\n")...)
		code, stdout, _ := rrl(t.Context(), line...)
		if code != 0 || !strings.HasSuffix(stdout, want) {
			t.Errorf("%q: code %d, printed\n%s", args, code, stdout)
		}
	}
}
