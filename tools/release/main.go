// Command release writes all that a release of a version consists of to dist/, from the last commit. It
// neither pushes nor tags: dist/TAGS.md says how.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

func main() {
	version := flag.String("version", "", "the version, such as v0.1.0")
	repo := flag.String("repo", "../..", "the repository")
	gate := flag.String("gate", "make lint test ALL=1", "the command that must succeed first")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	r := &release{ctx: ctx, version: *version, platforms: platforms}
	err := r.run(*repo, *gate)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// A release is what is being made.
type release struct {
	ctx       context.Context
	version   string
	platforms []platform // of rrl; the first one is of Linux

	repo    string    // the repository
	dist    string    // where the results go
	source  string    // a clone, with the go.mod files as they are tagged
	cache   string    // the module cache of the builds
	proxies string    // GOPROXY of the builds
	date    time.Time // of the commit: nothing else is in the results, so that they can be made again
	head    string    // the commit
	notes   string    // the section of the CHANGELOG
}

// run checks that the version can be released, and makes it.
func (r *release) run(repo, gate string) (err error) {
	if r.repo, err = filepath.Abs(repo); err != nil {
		return err
	}
	r.dist = filepath.Join(r.repo, "dist")
	if err := r.check(gate); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	r.source, r.cache = filepath.Join(scratch, "source"), filepath.Join(scratch, "modules")
	defer func() { _ = os.RemoveAll(scratch) }()
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"clone", r.clone}, {"modules", r.modules}, {"commit and tags", r.tag}, {"binaries", r.binaries},
		{"licenses", r.writeLicenses},
		{"images", r.images}, {"notes and sums", r.notesAndSums},
	} {
		fmt.Fprintln(os.Stderr, "release:", step.name)
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// check refuses a version that cannot be released, and runs the gate last.
func (r *release) check(gate string) error {
	if semver.Canonical(r.version) != r.version || r.version == "" {
		return fmt.Errorf("VERSION is %q, must be like v0.1.0 or v0.1.0-rc.1", r.version)
	}
	if major := semver.Major(r.version); major != "v0" && major != "v1" {
		return fmt.Errorf("VERSION is %q, must be v0 or v1: no module path ends in /%s", r.version, major)
	}
	if err := r.committed(); err != nil {
		return err
	}
	var err error
	if r.notes, err = section(filepath.Join(r.repo, "CHANGELOG.md"), r.version); err != nil {
		return err
	}
	if r.head, err = r.output(r.repo, "git", "rev-parse", "HEAD"); err != nil {
		return err
	}
	if err := r.untagged(); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "release: the gate:", gate)
	if err := r.runIn(r.repo, "sh", "-c", gate); err != nil {
		return fmt.Errorf("the gate is red: %s: %w", gate, err)
	}
	// The gate takes long enough for the next commit, which it has not seen.
	if head, err := r.output(r.repo, "git", "rev-parse", "HEAD"); err != nil || head != r.head {
		return errors.Join(err, fmt.Errorf("HEAD was %s when the gate began, and is %s", r.head, head))
	}
	return errors.Join(r.committed(), os.RemoveAll(r.dist))
}

// committed refuses a tree with changes.
func (r *release) committed() error {
	dirty, err := r.output(r.repo, "git", "status", "--porcelain")
	if err == nil && dirty != "" {
		return fmt.Errorf("the tree has changes that are not committed:\n%s", dirty)
	}
	return err
}

// untagged refuses a version that has a tag, unless HEAD is the commit before it: the workflow makes the
// release of a tag that was pushed. Where the repository has a main, HEAD must be a commit of it.
func (r *release) untagged() error {
	tag := "refs/tags/" + r.version
	if before := r.commitOf(r.repo, tag+"^"); before != r.head && r.commitOf(r.repo, tag) != "" {
		return fmt.Errorf("%s is tagged already, on the commit after %s, and HEAD is %s",
			r.version, before, r.head)
	}
	found := false
	for _, main := range []string{"refs/heads/main", "refs/remotes/origin/main"} {
		if r.commitOf(r.repo, main) == "" {
			continue
		}
		found = true
		if r.command(r.repo, "git", "merge-base", "--is-ancestor", r.head, main).Run() == nil {
			return nil
		}
	}
	if found {
		return fmt.Errorf("HEAD is %s, must be a commit of main", r.head)
	}
	return nil
}

// commitOf returns the commit that a name stands for in a repository, or "".
func (r *release) commitOf(repo, name string) string {
	commit, _ := r.output(repo, "git", "rev-parse", "-q", "--verify", name+"^{commit}")
	return commit
}

// section returns the text below the heading of a version in a changelog.
func section(file, version string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	heading := regexp.MustCompile(`(?m)^## \[` + regexp.QuoteMeta(version[1:]) + `\].*\n`)
	at := heading.FindIndex(text)
	if at == nil {
		return "", fmt.Errorf("CHANGELOG.md has no section [%s]", version[1:])
	}
	below := string(text[at[1]:])
	if end := regexp.MustCompile(`(?m)^## |^\[[^\]]*\]: `).FindStringIndex(below); end != nil {
		below = below[:end[0]] // before the next version, or the links at the end
	}
	if strings.TrimSpace(regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(below, "")) == "" {
		return "", fmt.Errorf("the section [%s] of CHANGELOG.md is empty", version[1:])
	}
	return strings.TrimSpace(below) + "\n", nil
}

// clone makes the source from the last commit. It has nothing else, because git would make another bundle of
// objects that it has packed before, and no hooks, which may change the commit.
func (r *release) clone() error {
	if err := r.runIn(r.repo, "git", "clone", "-q", "--no-local", "--no-tags", "--single-branch",
		"-c", "advice.detachedHead=false", "-c", "pack.threads=1", "-c", "core.hooksPath=/dev/null",
		".", r.source); err != nil {
		return err
	}
	seconds, err := r.output(r.source, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	var unix int64
	if _, err := fmt.Sscan(seconds, &unix); err != nil {
		return err
	}
	r.date = time.Unix(unix, 0).UTC()
	downloads, err := r.output(r.repo, "go", "env", "GOMODCACHE")
	if err != nil {
		return err
	}
	proxy, err := r.output(r.repo, "go", "env", "GOPROXY")
	if err != nil {
		return err
	}
	// The modules of this repository come from dist, and from nowhere else. The rest has been downloaded for
	// the gate.
	r.proxies = strings.Join([]string{
		fileURL(filepath.Join(r.dist, "proxy")),
		fileURL(filepath.Join(downloads, "cache", "download")), proxy,
	}, ",")
	return os.MkdirAll(r.dist, 0o755)
}

// notesAndSums writes the section of the CHANGELOG as the notes of the release, and the checksums of all
// files, as sha256sum -c reads them.
func (r *release) notesAndSums() error {
	text := "# " + r.version + "\n\n" + r.notes
	if err := os.WriteFile(filepath.Join(r.dist, "NOTES.md"), []byte(text), 0o644); err != nil {
		return err
	}
	sums, err := r.output(r.dist, "sh", "-c", "find * -type f | LC_ALL=C sort | xargs -d '\n' sha256sum")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dist, "SHA256SUMS"), []byte(sums+"\n"), 0o644)
}

func fileURL(path string) string { return "file://" + filepath.ToSlash(path) }

// runIn runs a command in a directory, with the environment of the builds.
func (r *release) runIn(dir, name string, args ...string) error {
	cmd := r.command(dir, name, args...)
	cmd.Stdout = os.Stderr
	return cmd.Run()
}

// output is runIn, and returns the output without the space around it.
func (r *release) output(dir, name string, args ...string) (string, error) {
	out, err := r.command(dir, name, args...).Output()
	return strings.TrimSpace(string(out)), err
}

func (r *release) command(dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(r.ctx, name, args...)
	cmd.Dir, cmd.Stderr, cmd.Env = dir, os.Stderr, os.Environ()
	if r.proxies != "" {
		cmd.Env = append(cmd.Env, r.environment()...)
	}
	return cmd
}

// environment returns what makes builds the same on each machine.
func (r *release) environment() []string {
	who, when := "rratelimiter", r.date.Format(time.RFC3339)
	return []string{
		"GOWORK=off", "GOFLAGS=-mod=mod -modcacherw", "CGO_ENABLED=0",
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off", // whatever this machine prefers
		"GOMODCACHE=" + r.cache, "GOPROXY=" + r.proxies,
		"GONOSUMDB=" + root + "," + root + "/*", "GONOPROXY=none", "GOPRIVATE=", "GOTOOLCHAIN=local",
		"GIT_AUTHOR_NAME=" + who, "GIT_AUTHOR_EMAIL=", "GIT_AUTHOR_DATE=" + when,
		"GIT_COMMITTER_NAME=" + who, "GIT_COMMITTER_EMAIL=", "GIT_COMMITTER_DATE=" + when,
	}
}
