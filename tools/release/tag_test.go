package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// The commit and its bundle follow from the commit before, whatever the settings of git are, and whatever it
// has packed.
func TestTheBundleFollowsFromTheCommit(t *testing.T) {
	repo, hooks := t.TempDir(), t.TempDir()
	write(t, filepath.Join(repo, "go.mod"), strings.Repeat("module example.com/a\n", 100))
	commit(t, repo)
	bundle := func() string {
		t.Helper()
		r := &release{ctx: t.Context(), version: "v0.1.0", repo: repo}
		r.source, r.dist = filepath.Join(t.TempDir(), "source"), filepath.Join(t.TempDir(), "dist")
		r.head = r.commitOf(repo, "HEAD")
		noError(t, r.clone())
		write(t, filepath.Join(r.source, "go.mod"), strings.Repeat("module example.com/a\n", 101))
		noError(t, r.tag())
		made := filepath.Join(r.dist, "release.bundle")
		output(t, repo, "git", "fetch", "-q", made, "refs/tags/*:refs/tags/*")
		return read(t, r.dist, "release.bundle")
	}
	first := bundle()
	write(t, filepath.Join(hooks, "commit-msg"), "#!/bin/sh\necho >>\"$1\" 'Change-Id: 1'\n")
	output(t, hooks, "chmod", "+x", "commit-msg")
	config := filepath.Join(hooks, "config")
	write(t, config, "[core]\n\thooksPath = "+hooks+"\n[commit]\n\tgpgSign = true\n")
	t.Setenv("GIT_CONFIG_GLOBAL", config)
	output(t, repo, "git", "repack", "-q", "-a", "-d")
	if second := bundle(); second != first {
		t.Errorf("the bundles differ:\n%q\n%q", first, second)
	}
}
