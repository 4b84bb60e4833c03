// Command release writes all that a release of a version consists of to dist/, from the last commit. It
// neither pushes nor tags: dist/TAGS.md says how.
package main

import (
	"context"
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
	gate := flag.String("gate", "make lint test-all", "the command that must succeed first")
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
	defer func() {
		_ = r.runIn(scratch, "go", "clean", "-modcache") // the cache is read-only
		_ = os.RemoveAll(scratch)
	}()
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"clone", r.clone}, {"modules", r.modules}, {"commit and tags", r.tag}, {"binaries", r.binaries},
		{"packages", r.packages}, {"images", r.images}, {"bills of materials", r.bills},
		{"notes", r.writeNotes},
		{"sums", r.sums},
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
	dirty, err := r.output(r.repo, "git", "status", "--porcelain")
	switch {
	case err != nil:
		return err
	case dirty != "":
		return fmt.Errorf("the tree has changes that are not committed:\n%s", dirty)
	}
	if r.notes, err = section(filepath.Join(r.repo, "CHANGELOG.md"), r.version); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "release: the gate:", gate)
	if err := r.runIn(r.repo, "sh", "-c", gate); err != nil {
		return fmt.Errorf("the gate is red: %s: %w", gate, err)
	}
	return os.RemoveAll(r.dist)
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
	if end := strings.Index(below, "\n## "); end >= 0 {
		below = below[:end]
	}
	if strings.TrimSpace(below) == "" {
		return "", fmt.Errorf("the section [%s] of CHANGELOG.md is empty", version[1:])
	}
	return strings.TrimSpace(below) + "\n", nil
}

// clone makes the source from the last commit.
func (r *release) clone() error {
	if err := r.runIn(r.repo, "git", "clone", "-q", "--no-local", ".", r.source); err != nil {
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

func fileURL(path string) string { return "file://" + filepath.ToSlash(path) }

// runIn runs a command in a directory, with the environment of the builds. more are further variables.
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
		"GOWORK=off", "GOFLAGS=-mod=mod", "CGO_ENABLED=0", "GOMODCACHE=" + r.cache, "GOPROXY=" + r.proxies,
		"GONOSUMDB=" + root + "," + root + "/*", "GONOPROXY=none", "GOPRIVATE=", "GOTOOLCHAIN=local",
		fmt.Sprint("SOURCE_DATE_EPOCH=", r.date.Unix()), // of the manual pages
		"GIT_AUTHOR_NAME=" + who, "GIT_AUTHOR_EMAIL=", "GIT_AUTHOR_DATE=" + when,
		"GIT_COMMITTER_NAME=" + who, "GIT_COMMITTER_EMAIL=", "GIT_COMMITTER_DATE=" + when,
	}
}
