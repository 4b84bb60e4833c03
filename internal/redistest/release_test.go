package redistest_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// quick returns the release with the smallest download; most platforms have it.
func quick(t *testing.T) redistest.Release {
	t.Helper()
	i := slices.IndexFunc(redistest.Releases, func(r redistest.Release) bool { return r.Kind == "valkey" })
	return redistest.Releases[i]
}

func TestReleaseBinary(t *testing.T) {
	r, dir := quick(t), filepath.Join(t.TempDir(), "cache")
	path := r.BinaryIn(t, dir)
	t.Run("is that release", func(t *testing.T) {
		t.Setenv("REDIS_SERVER", path)
		info := redistest.Start(t).Admin().Info(t.Context(), "server").Val()
		if !strings.Contains(info, r.Info()+"\r\n") {
			t.Errorf("no %s in\n%s", r.Info(), info)
		}
	})
	t.Run("is fetched once, and alone in its directory", func(t *testing.T) {
		before := redistest.Must(os.Stat(path))(t)
		t.Setenv("PATH", "")
		after, err := os.Stat(r.BinaryIn(t, dir))
		if err != nil || !os.SameFile(before, after) {
			t.Errorf("fetched again: %v", err)
		}
		if files, err := os.ReadDir(dir); len(files) != 1 || err != nil {
			t.Errorf("%v, %v", files, err)
		}
	})
	t.Run("is fetched again when it is another", func(t *testing.T) {
		script := []byte("#!/bin/sh\necho Valkey server v=9.1.20 sha\n")
		redistest.NoError(t, os.WriteFile(path, script, 0o755))
		if r.BinaryIn(t, dir) != path || r.Verify(path) != nil {
			t.Error(r.Verify(path))
		}
	})
}

func TestReleaseThatCannotBeHad(t *testing.T) {
	quick(t).BinaryIn(t, t.TempDir()) // the network works
	other := quick(t)
	other.Version = "9.1.3" // the package has another version
	// python stands for a machine with Python, with or without pip.
	python := func(t *testing.T, says string) string {
		t.Helper()
		dir := t.TempDir()
		script := []byte("#!/bin/sh\necho " + says + "\nexit 1\n")
		redistest.NoError(t, os.WriteFile(filepath.Join(dir, "python3"), script, 0o755))
		return dir
	}
	for name, c := range map[string]struct {
		release redistest.Release
		path    string
		says    string
	}{
		"without Python": {quick(t), t.TempDir(), "python3"},
		"without pip":    {quick(t), python(t, "No module named pip"), "No module named pip"},
		"of other bytes": {quick(t).WithHash(strings.Repeat("0", 64)), os.Getenv("PATH"), "DO NOT MATCH"},
		"another one":    {other, os.Getenv("PATH"), "is another server: Valkey server v=9.1.2"},
	} {
		for ci, want := range map[string]string{"": "skipped", "true": "failed"} {
			t.Run(name+", "+want, func(t *testing.T) {
				t.Setenv("CI", ci)
				t.Setenv("PATH", c.path)
				dir := t.TempDir()
				f := new(fakeTB).run(func(t redistest.TB) { c.release.BinaryIn(t, dir) })
				if f.outcome != want || !strings.Contains(f.said, c.says) {
					t.Errorf("%s, saying %q; want %s, with %q", f.outcome, f.said, want, c.says)
				}
				if files, err := os.ReadDir(dir); len(files) != 0 || err != nil {
					t.Errorf("left behind: %v, %v", files, err)
				}
			})
		}
	}
}

func TestReleaseOfAnotherPlatform(t *testing.T) {
	t.Setenv("CI", "true")
	f := new(fakeTB).run(func(t redistest.TB) {
		redistest.Release{Kind: "redis", Version: "1"}.OnlyFor("plan9/mips").BinaryIn(t, "")
	})
	if f.outcome != "skipped" || !strings.Contains(f.said, "plan9/mips") {
		t.Errorf("%s, saying %q", f.outcome, f.said)
	}
}
