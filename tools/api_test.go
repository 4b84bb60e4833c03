package tools_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// api.sh passes additions, refuses a removal, and passes it when the CHANGELOG names it. Without a tag it has
// nothing to compare.
func TestIncompatibleChangesAreRefused(t *testing.T) {
	const without = "- Without T and Get.\n"
	for name, c := range map[string]struct{ api, unreleased, refused string }{
		"an addition":                {before + "\nfunc New() {}\n", "", ""},
		"a removed function":         {"package p\n\ntype T struct{}\n\nfunc (T) Get() {}\n", "", "Old"},
		"a method with another type": {strings.Replace(before, "Get()", "Get(int)", 1), "", "Get"},
		"mentioned":                  {"package p\n\nfunc Old() {}\n", without, ""},
		"mentioned in part":          {"package p\n", without, "Old"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := repository(t)
			write(t, dir, "p.go", c.api)
			write(t, dir, "CHANGELOG.md",
				"## [Unreleased]\n\n"+c.unreleased+"\n## [0.1.0]\n\n- Old, T, Get\n")
			git(t, dir, "commit", "-qam", "next")
			if out, err := script(t, dir, "api.sh"); err != nil {
				t.Fatalf("without a tag: %v\n%s", err, out)
			}
			git(t, dir, "tag", "v0.1.0", "HEAD^")
			out, err := script(t, dir, "api.sh")
			if (err != nil) != (c.refused != "") ||
				err != nil && !strings.Contains(out, "v0.1.0, and "+c.refused+" is not") {
				t.Errorf("%v, want an error that names %q:\n%s", err, c.refused, out)
			}
		})
	}
}

const before = "package p\n\ntype T struct{}\n\nfunc (T) Get() {}\n\nfunc Old() {}\n"

// A release tags a commit beside the branch, whose go.mod files have no replace. It is the last tag from
// the next commit on, and not before: the release itself is compared with the one before it.
func TestTheLastTagMayBeBesideTheBranch(t *testing.T) {
	dir := repository(t)
	is := func(want string) {
		t.Helper()
		if out, err := script(t, dir, "last_tag.sh"); out != want || (err == nil) != (want != "") {
			t.Errorf("the last tag is %q, %v, want %q", out, err, want)
		}
	}
	commit := func(text string) { git(t, dir, "commit", "-qm", text, "--allow-empty") }
	for _, tag := range []struct{ name, before string }{{"v0.1.0-rc.1", ""}, {"v0.1.0", "v0.1.0-rc.1"}} {
		is(tag.before)
		git(t, dir, "checkout", "-q", "--detach")
		commit(tag.name)
		git(t, dir, "tag", tag.name)
		is(tag.before)
		git(t, dir, "checkout", "-q", "-")
		is(tag.before)
		commit("next")
		is(tag.name)
	}
	git(t, dir, "tag", "grpclimit/v0.9.0", "HEAD^") // of another module
	is("v0.1.0")
}

func repository(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	git(t, dir, "init", "-q")
	write(t, dir, "go.mod", "module example.com/p\n\ngo 1.26.0\n")
	write(t, dir, "p.go", before)
	write(t, dir, "CHANGELOG.md", "")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-qm", "first")
	return dir
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	who := []string{"-c", "user.name=a", "-c", "user.email=a@example.com"}
	if out, err := run(dir, "git", append(who, args...)...); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// script runs a script of this folder in another one.
func script(t *testing.T, dir, name string) (output string, err error) {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return run(dir, path)
}

func run(dir, name string, args ...string) (output string, err error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}
