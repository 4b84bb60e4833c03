package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/modfile"
)

// A version is refused that could not be released, before anything is written.
func TestWhatCannotBeReleasedIsRefused(t *testing.T) {
	const changelog = "# Changelog\n\n## [Unreleased]\n\n## [2.0.0]\n\n- Major.\n\n## [0.2.1]\n" +
		"## [0.2.0]\n\n### Added\n\n## [0.1.0]\n\n- A limiter.\n"
	const next = "git -c user.name=x -c user.email=x commit -q --no-gpg-sign --allow-empty -m x"
	for name, test := range map[string]struct {
		version, gate, before, want string
	}{
		"no version":            {"", "true", "", "VERSION"},
		"a version of two":      {"v0.1", "true", "", "VERSION"},
		"a major version":       {"v2.0.0", "true", "", "no module path ends in /v2"},
		"a dirty tree":          {"v0.1.0", "true", "touch new.go", "new.go"},
		"no section":            {"v0.3.0", "true", "", "no section [0.3.0]"},
		"a section of headings": {"v0.2.0", "true", "", "[0.2.0] of CHANGELOG.md is empty"},
		"a section of no line":  {"v0.2.1", "true", "", "[0.2.1] of CHANGELOG.md is empty"},
		"a version with a tag":  {"v0.1.0", "true", next + "; git tag --no-sign v0.1.0", "tagged already"},
		"a branch beside main":  {"v0.1.0", "true", "git branch -f main; " + next, "a commit of main"},
		"a red gate":            {"v0.1.0", "false", "", "the gate is red"},
		"a gate that is absent": {"v0.1.0", "no-such-gate", "", "the gate is red"},
		"a commit meanwhile":    {"v0.1.0", next, "", "when the gate began"},
		"a change meanwhile":    {"v0.1.0", "touch new.go", "", "new.go"},
	} {
		t.Run(name, func(t *testing.T) {
			repo := t.TempDir()
			write(t, filepath.Join(repo, "CHANGELOG.md"), changelog)
			commit(t, repo)
			output(t, repo, "git", "checkout", "-q", "-b", "work")
			if test.before != "" {
				output(t, repo, "sh", "-c", test.before)
			}
			r := &release{ctx: t.Context(), version: test.version, platforms: platforms}
			if err := r.run(repo, test.gate); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if _, err := os.Stat(filepath.Join(repo, "dist")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("dist: %v", err)
			}
		})
	}
	text, err := section("testdata/CHANGELOG.md", "v0.1.0")
	if err != nil || text != "- A limiter.\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// Each module of the repository has a tag, or is named as one that has none.
func TestEachModuleIsReleasedOrNot(t *testing.T) {
	data := must(os.ReadFile("../../go.work"))(t)
	work := must(modfile.ParseWork("go.work", data, nil))(t)
	for _, use := range work.Use {
		folder := strings.TrimPrefix(use.Path, "./")
		if slices.Contains(released, folder) == slices.Contains(unreleased, folder) {
			t.Errorf("%s is in neither or both of released and unreleased", folder)
		}
	}
	readme := read(t, "../..", "README.md")
	for _, folder := range released {
		line := "-replace " + modulePath(folder) + "=" + path.Join("../rratelimiter", folder)
		if !strings.Contains(readme, line+" ") && !strings.Contains(readme, line+"\n") {
			t.Errorf("the README lacks %s", line)
		}
	}
}

// From dist alone, and with an empty module cache, a user gets everything; a second run makes the same files.
func TestRehearsal(t *testing.T) {
	if testing.Short() {
		t.Skip("builds rrl, and the modules with an empty cache")
	}
	version := newestVersion(t)
	repo := copied(t)
	first := rehearse(t, repo, version)
	first.dist = filepath.Join(t.TempDir(), "dist")
	noError(t, os.Rename(filepath.Join(repo, "dist"), first.dist))
	// The workflow makes the release again after its tags were pushed.
	bundle := filepath.Join(first.dist, "release.bundle")
	output(t, repo, "git", "fetch", "-q", bundle, "refs/tags/*:refs/tags/*")
	second := rehearse(t, repo, version)
	if a, b := read(t, first.dist, "SHA256SUMS"), read(t, second.dist, "SHA256SUMS"); a != b {
		t.Errorf("the files of two runs differ:\n%s\n%s", a, b)
	}
	for _, file := range []string{"NOTES.md", "TAGS.md", "release.bundle"} {
		if read(t, first.dist, file) == "" {
			t.Errorf("%s is empty", file)
		}
	}
	for _, c := range programs {
		bill := read(t, first.dist, filepath.Base(first.binary(c, platforms[0]))+".cdx.json")
		for _, want := range []string{
			`"pkg:golang/stdlib@v`, `"expression": "BSD-3-Clause"`, root + "/cmd/" + c.name,
		} {
			if !strings.Contains(bill, want) {
				t.Errorf("the bill of %s lacks %s", c.name, want)
			}
		}
		licenses := read(t, first.dist, filepath.Base(first.licenses(c)))
		for _, want := range []string{"Apache License", "stdlib\n", "github.com/redis/go-redis/v9\n"} {
			if !strings.Contains(licenses, want) {
				t.Errorf("the licenses of %s lack %s", c.name, want)
			}
		}
	}
	if mod := read(t, first.dist, "mod/cmd/rrl/go.mod"); strings.Contains(mod, "replace") ||
		!strings.Contains(mod, root+" "+version) {
		t.Errorf("go.mod of rrl:\n%s", mod)
	}
	zip := read(t, first.dist, "proxy/"+root+"/cmd/rrl/@v/"+version+".zip")
	if !strings.Contains(zip, "/LICENSE") {
		t.Error("a module has no LICENSE, which go get gives it")
	}
	t.Run("go install", first.installs)
	t.Run("a new module", first.compiles)
	t.Run("deb", first.unpacks)
	t.Run("image of rrl", func(t *testing.T) {
		if out := first.starts(t, programs[0], "demo"); !strings.Contains(out, "permits") {
			t.Errorf("rrl demo prints %q", out)
		}
	})
	t.Run("image of ratelimit", func(t *testing.T) {
		if out := first.starts(t, programs[1], "--help"); !strings.Contains(out, "-config FILE") {
			t.Errorf("ratelimit --help prints %q", out)
		}
	})
}

// newestVersion returns the newest version that the changelog has a section for.
func newestVersion(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^## \[(\d[^\]]*)\]`).FindStringSubmatch(read(t, "../..", "CHANGELOG.md"))
	if found == nil {
		t.Fatal("CHANGELOG.md has no section for a version")
	}
	return "v" + found[1]
}

// copied returns a repository with the files of the working tree in one commit.
func copied(t *testing.T) string {
	t.Helper()
	repo := t.TempDir()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-zco", "--exclude-standard")
	list.Dir = "../.."
	files, err := list.Output()
	pack := []string{"--null", "-T", "-", "--ignore-failed-read"}
	if err != nil { // a copy without history
		pack = []string{"--exclude=./.git", "--exclude=./dist", "."}
	}
	cmd := exec.CommandContext(t.Context(), "tar", append([]string{"-cf", "-"}, pack...)...)
	cmd.Dir, cmd.Stdin = "../..", bytes.NewReader(files)
	archive := must(cmd.Output())(t)
	unpack := exec.CommandContext(t.Context(), "tar", "-xf", "-", "-C", repo)
	unpack.Stdin = bytes.NewReader(archive)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	commit(t, repo)
	return repo
}

// rehearse makes a release for one platform.
func rehearse(t *testing.T, repo, version string) *release {
	t.Helper()
	r := &release{ctx: t.Context(), version: version, platforms: platforms[:1]}
	noError(t, r.run(repo, "true"))
	return r
}

// commit makes a repository of a folder, with one commit of a fixed time.
func commit(t *testing.T, dir string) {
	t.Helper()
	r := &release{ctx: t.Context(), date: time.Unix(1_700_000_000, 0).UTC(), proxies: "off"}
	for _, args := range [][]string{
		{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "--no-gpg-sign", "-m", "all"},
	} {
		noError(t, r.runIn(dir, "git", args...))
	}
}

// fromDist runs a command with the proxy of dist and an empty module cache, and returns its output. Without
// paths, what the release has compiled is in the cache of builds.
func (r *release) fromDist(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	user := *r
	user.cache = filepath.Join(t.TempDir(), "modules")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), user.environment()...)
	cmd.Env = append(cmd.Env, "GOFLAGS=-mod=mod -modcacherw -trimpath", "GOBIN="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// installs gets rrl by go install.
func (r *release) installs(t *testing.T) {
	dir := t.TempDir()
	r.fromDist(t, dir, "go", "install", root+"/cmd/rrl@"+r.version)
	if got := output(t, dir, "./rrl", "--version"); !strings.HasPrefix(got, "rrl "+r.version+" ") {
		t.Errorf("rrl --version prints %q, want %s", got, r.version)
	}
}

// compiles compiles the program of the README in a new module, which also imports the other modules.
func (r *release) compiles(t *testing.T) {
	dir := t.TempDir()
	program := regexp.MustCompile("(?s)```go\n(package main\n.*?)```")
	programs := program.FindAllStringSubmatch(read(t, "../..", "README.md"), -1)
	if len(programs) == 0 {
		t.Fatal("README.md has no program")
	}
	write(t, filepath.Join(dir, "go.mod"), "module example.com/user\n\ngo 1.26.0\n")
	for i, program := range programs {
		write(t, filepath.Join(dir, "program"+string(rune('a'+i)), "main.go"), program[1])
	}
	imports := "import (\n\t_ \"" + root + "/grpclimit\"\n\t_ \"" + root + "/otellimit\"\n)\n"
	write(t, filepath.Join(dir, "others.go"), "package user\n\n"+imports)
	build := "go get " + root + "@" + r.version + " " + root + "/grpclimit@" + r.version + " " +
		root + "/otellimit@" + r.version + " && go mod tidy && go build ./..."
	r.fromDist(t, dir, "sh", "-c", build)
	mod := read(t, dir, "go.mod")
	if strings.Contains(mod, "replace") || !strings.Contains(mod, root+" "+r.version) {
		t.Errorf("go.mod:\n%s", mod)
	}
}

// unpacks installs the package of Debian in a root of its own, and removes it.
func (r *release) unpacks(t *testing.T) {
	if _, err := exec.LookPath("dpkg"); err != nil && os.Getenv("CI") == "" {
		t.Skip("there is no dpkg")
	}
	debs, err := filepath.Glob(filepath.Join(r.dist, "rrl_*.deb"))
	if err != nil || len(debs) != 1 {
		t.Fatalf("the packages are %v, %v", debs, err)
	}
	dir := t.TempDir()
	const state = "var/lib/dpkg"
	for file, text := range map[string]string{"status": "", "available": "", "info/format": "1\n"} {
		write(t, filepath.Join(dir, state, file), text)
	}
	for _, folder := range []string{"updates", "triggers"} {
		noError(t, os.MkdirAll(filepath.Join(dir, state, folder), 0o755))
	}
	dpkg := func(args ...string) string {
		flags := []string{"--root=" + dir, "--force-not-root", "--force-script-chrootless", "--log="}
		return output(t, dir, "dpkg", append(flags, args...)...)
	}
	dpkg("--force-architecture", "-i", debs[0])
	if got := output(t, dir, "usr/bin/rrl", "--version"); !strings.HasPrefix(got, "rrl "+r.version+" ") {
		t.Errorf("rrl --version prints %q", got)
	}
	for _, file := range []string{"usr/share/man/man1/rrl.1", "usr/share/man/man1/rrl-inspect.1"} {
		if page := read(t, dir, file); !strings.HasPrefix(page, ".nh\n.TH \"RRL") {
			t.Errorf("%s begins with %.20q", file, page)
		}
	}
	if text := read(t, dir, "usr/share/doc/rrl/copyright"); !strings.Contains(text, "Apache License") ||
		!strings.Contains(text, "Redistribution and use") {
		t.Errorf("the copyright is %.20q", text)
	}
	for _, target := range shells {
		if !strings.Contains(read(t, dir, target), "rrl") {
			t.Errorf("%s completes nothing", target)
		}
	}
	dpkg("-P", "rrl")
	if _, err := os.Stat(filepath.Join(dir, "usr/bin/rrl")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the removal: %v", err)
	}
}

// starts unpacks the image of a program, runs it there, and returns what it prints.
func (r *release) starts(t *testing.T, c program, args ...string) string {
	t.Helper()
	files := map[string][]byte{}
	archive := filepath.Join(r.dist, c.name+"_"+r.version+"_oci.tar")
	untar(t, archive, func(h *tar.Header, data []byte) { files[h.Name] = data })
	type descriptor struct {
		Digest   string
		Platform struct{ Architecture, OS string }
	}
	blob := func(d descriptor) []byte { return files["blobs/"+strings.Replace(d.Digest, ":", "/", 1)] }
	var index struct{ Manifests []descriptor }
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	var config struct {
		Config struct {
			User       string
			Entrypoint []string
		}
	}
	for _, part := range []struct {
		data func() []byte
		into any
	}{
		{func() []byte { return files["index.json"] }, &index},
		{func() []byte { return blob(index.Manifests[0]) }, &index},
		{func() []byte { return blob(index.Manifests[0]) }, &manifest},
		{func() []byte { return blob(manifest.Config) }, &config},
	} {
		noError(t, json.Unmarshal(part.data(), part.into))
	}
	p := index.Manifests[0].Platform
	if p.OS != "linux" || p.Architecture != "amd64" || len(manifest.Layers) != 1 ||
		config.Config.User != unprivileged ||
		!slices.Equal(config.Config.Entrypoint, []string{"/" + c.path}) {
		t.Fatalf("%+v, %+v, %+v", index, manifest, config)
	}
	dir := t.TempDir()
	layer := filepath.Join(t.TempDir(), "layer")
	write(t, layer, string(blob(manifest.Layers[0])))
	unpack := output(t, dir, "tar", "-xvf", layer, "-C", dir)
	if strings.TrimSpace(unpack) != c.path+"\n"+trusted+"\n"+licensed {
		t.Errorf("the image has %q, want %s, %s and %s", unpack, c.path, trusted, licensed)
	}
	name := "./" + c.path
	if os.Geteuid() == 0 {
		name, args = "chroot", append([]string{"--userspec=" + unprivileged, dir, "/" + c.path}, args...)
	}
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s %v: %v", name, args, err)
	}
	return string(out)
}

// untar calls f with each file of a tar.
func untar(t *testing.T, name string, f func(h *tar.Header, data []byte)) {
	t.Helper()
	file := must(os.Open(name))(t)
	defer file.Close()
	for r := tar.NewReader(file); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		var data []byte
		if err == nil {
			data, err = io.ReadAll(r)
		}
		if err != nil {
			t.Fatal(err)
		}
		f(h, data)
	}
}

// output runs a command, and returns what it prints.
func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v", name, args, err)
	}
	return string(out)
}

func read(t *testing.T, dir, file string) string {
	t.Helper()
	data := must(os.ReadFile(filepath.Join(dir, file)))(t)
	return string(data)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	noError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	noError(t, os.WriteFile(file, []byte(text), 0o644))
}

// must returns the value of a call, and fails the test on its error.
func must[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		noError(t, err)
		return value
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
