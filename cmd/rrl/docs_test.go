package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// docs/rrl.md names every command and every flag, and no others.
func TestDocs(t *testing.T) {
	page := contents(t, "../../docs/rrl.md")
	a := &app{stdin: strings.NewReader(""), stdout: &output{w: t.Output()}, stderr: t.Output()}
	root := a.root()
	root.InitDefaultCompletionCmd()
	root.InitDefaultVersionFlag()
	root.InitDefaultHelpFlag()
	commands, flags := map[string]bool{}, map[string]bool{}
	walk(root, func(cmd *cobra.Command) {
		names := func(f *pflag.Flag) { flags[f.Name] = true }
		cmd.Flags().VisitAll(names)
		cmd.PersistentFlags().VisitAll(names)
	})
	for _, cmd := range root.Commands() {
		commands[cmd.Name()] = true
		ofCobra := cmd.Name() == "completion" || cmd.Name() == "help"
		if !ofCobra && !strings.Contains(page, "\n| `"+cmd.Use+"` |") {
			t.Errorf("docs/rrl.md has no row for %q", cmd.Use)
		}
	}
	for name := range flags {
		if !regexp.MustCompile("`--" + name + "\\b").MatchString(page) {
			t.Errorf("docs/rrl.md does not name --%s", name)
		}
	}
	rows := regexp.MustCompile("(?m)^\\| `([a-z][a-z-]*)[^`]*` \\|")
	for _, row := range rows.FindAllStringSubmatch(page, -1) {
		if !commands[row[1]] {
			t.Errorf("docs/rrl.md names %q, which is no command", row[1])
		}
	}
	for _, name := range regexp.MustCompile(`--([a-z][a-z-]*)`).FindAllStringSubmatch(page, -1) {
		if !flags[name[1]] {
			t.Errorf("docs/rrl.md names --%s, which is no flag", name[1])
		}
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

// contents returns the text of a file.
func contents(t *testing.T, file string) string {
	t.Helper()
	text := redistest.Must(os.ReadFile(file))(t)
	return string(text)
}

// walk visits a command and its subcommands, except those of cobra.
func walk(cmd *cobra.Command, visit func(cmd *cobra.Command)) {
	if cmd.Name() == "completion" {
		return // cobra's, which documents itself
	}
	visit(cmd)
	for _, sub := range cmd.Commands() {
		walk(sub, visit)
	}
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
