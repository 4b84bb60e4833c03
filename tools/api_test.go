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
	for name, c := range map[string]struct{ api, unreleased, refused string }{
		"the same":    {api: before},
		"an addition": {api: before + "\nfunc New() {}\n"},
		"a removed function": {
			api: "package p\n\ntype T struct{}\n\nfunc (T) Get() {}\n", refused: "Old",
		},
		"a removed method": {
			api: "package p\n\ntype T struct{}\n\nfunc Old() {}\n", refused: "Get",
		},
		"a method with another type": {
			api: strings.Replace(before, "Get()", "Get(int)", 1), refused: "Get",
		},
		"one that the CHANGELOG mentions": {
			api: "package p\n\nfunc Old() {}\n", unreleased: "- Without T and Get.\n",
		},
		"one that the CHANGELOG mentions in part": {
			api: "package p\n", unreleased: "- Without T and Get.\n", refused: "Old",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := repository(t)
			write(t, dir, "p.go", c.api)
			write(t, dir, "CHANGELOG.md",
				"## [Unreleased]\n\n"+c.unreleased+"\n## [0.1.0]\n\n- Old, T, Get\n")
			git(t, dir, "commit", "-qam", "next")
			if out, err := api(t, dir); err != nil {
				t.Fatalf("without a tag: %v\n%s", err, out)
			}
			git(t, dir, "tag", "v0.1.0", "HEAD^")
			out, err := api(t, dir)
			if c.refused == "" && err != nil {
				t.Errorf("refused: %v\n%s", err, out)
			}
			if c.refused != "" && (err == nil || !strings.Contains(out, "v0.1.0, and "+c.refused+" is not")) {
				t.Errorf("%v, want an error that names %s:\n%s", err, c.refused, out)
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
		cmd := exec.Command(filepath.Join(here(t), "last_tag.sh"))
		cmd.Dir = dir
		if out, err := cmd.Output(); strings.TrimSpace(string(out)) != want || (err == nil) != (want != "") {
			t.Errorf("the last tag is %q, %v, want %q", out, err, want)
		}
	}
	branch := func(tag string) {
		t.Helper()
		git(t, dir, "checkout", "-q", "--detach")
		git(t, dir, "commit", "-qm", tag, "--allow-empty")
		git(t, dir, "tag", tag)
	}
	next := func() {
		t.Helper()
		git(t, dir, "checkout", "-q", "-")
		git(t, dir, "commit", "-qm", "next", "--allow-empty")
	}
	is("")
	branch("v0.1.0-rc.1")
	is("")
	git(t, dir, "checkout", "-q", "-")
	is("")
	git(t, dir, "checkout", "-q", "-")
	next()
	is("v0.1.0-rc.1")
	branch("v0.1.0")
	is("v0.1.0-rc.1")
	next()
	is("v0.1.0")
	git(t, dir, "tag", "v0.2.0")
	is("v0.1.0")
	git(t, dir, "tag", "grpclimit/v0.9.0", "HEAD^")
	is("v0.1.0")
}

// repository returns a repository with one commit.
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
	cmd := exec.Command("git", append(who, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func api(t *testing.T, dir string) (output string, err error) {
	t.Helper()
	cmd := exec.Command(filepath.Join(here(t), "api.sh"))
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// here returns the folder of the scripts.
func here(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
