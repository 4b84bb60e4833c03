package main

import (
	"bytes"
	"crypto/x509"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// A version is refused that could not be released, before anything is written.
func TestWhatCannotBeReleasedIsRefused(t *testing.T) {
	const changelog = "# Changelog\n\n## [Unreleased]\n\n## [2.0.0]\n\n- Major.\n\n## [0.2.1]\n" +
		"## [0.2.0]\n\n### Added\n\n## [0.1.0]\n\n- A limiter.\n"
	const next = "git -c user.name=x -c user.email=x commit -q --no-gpg-sign --allow-empty -m x"
	for name, test := range map[string]struct {
		version, gate, before, want string
	}{
		"a version of two":      {"v0.1", "true", "", "VERSION"},
		"a major version":       {"v2.0.0", "true", "", "no module path ends in /v2"},
		"a dirty tree":          {"v0.1.0", "true", "touch new.go", "new.go"},
		"no section":            {"v0.3.0", "true", "", "no section [0.3.0]"},
		"a section of headings": {"v0.2.0", "true", "", "[0.2.0] of CHANGELOG.md is empty"},
		"a section of no line":  {"v0.2.1", "true", "", "[0.2.1] of CHANGELOG.md is empty"},
		"a version with a tag":  {"v0.1.0", "true", next + "; git tag --no-sign v0.1.0", "tagged already"},
		"a branch beside main":  {"v0.1.0", "true", "git branch -f main; " + next, "a commit of main"},
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

// A module without a license stops the release; notices go with the license.
func TestEachModuleHasALicense(t *testing.T) {
	r := &release{cache: t.TempDir()}
	part := module.Version{Path: "example.com/A", Version: "v1.0.0"}
	dir := filepath.Join(r.cache, "example.com/!a@v1.0.0")
	noError(t, os.MkdirAll(dir, 0o755))
	if text, err := r.licenseOf(part); err == nil || !strings.Contains(err.Error(), "has no license") {
		t.Errorf("%q, %v", text, err)
	}
	write(t, filepath.Join(dir, "LICENCE.txt"), "a license")
	write(t, filepath.Join(dir, "NOTICE"), "a notice")
	contains(t, must(r.licenseOf(part))(t), "a license", "a notice")
}

// From dist alone, and with an empty module cache, a user gets everything; a second run makes the same files.
func TestRehearsal(t *testing.T) {
	if testing.Short() {
		t.Skip("builds rrl, and the modules with an empty cache")
	}
	const version = "v0.99.0"
	repo := copied(t)
	first := rehearse(t, repo, version)
	first.dist = filepath.Join(t.TempDir(), "dist")
	noError(t, os.Rename(filepath.Join(repo, "dist"), first.dist))
	// The workflow makes the release again after its tags were pushed, whatever git has packed meanwhile, and
	// whatever its settings are.
	bundle := filepath.Join(first.dist, "release.bundle")
	output(t, repo, "git", "fetch", "-q", bundle, "refs/tags/*:refs/tags/*")
	output(t, repo, "git", "repack", "-q", "-a", "-d")
	hooks := t.TempDir()
	write(t, filepath.Join(hooks, "commit-msg"), "#!/bin/sh\necho >>\"$1\" 'Change-Id: 1'\n")
	noError(t, os.Chmod(filepath.Join(hooks, "commit-msg"), 0o755))
	write(t, filepath.Join(hooks, "config"), "[core]\n\thooksPath = "+hooks+"\n[commit]\n\tgpgSign = true\n")
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(hooks, "config"))
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
		contains(t, read(t, first.dist, filepath.Base(first.licenses(c))),
			"Apache License", "stdlib\n", "github.com/redis/go-redis/v9\n")
	}
	requires(t, read(t, first.dist, "mod/cmd/rrl/go.mod"), version)
	contains(t, read(t, first.dist, "proxy/"+root+"/cmd/rrl/@v/"+version+".zip"), "/LICENSE") // as by go get
	t.Run("go install", first.installs)
	t.Run("a new module", first.compiles)
	t.Run("image of rrl", func(t *testing.T) {
		contains(t, first.starts(t, programs[0], "compare"), "RRateLimiter")
	})
	t.Run("image of ratelimit", func(t *testing.T) {
		contains(t, first.starts(t, programs[1], "--help"), "-config FILE")
	})
}

// contains requires texts in another one.
func contains(t *testing.T, text string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("%.2000q lacks %q", text, want)
		}
	}
}

// copied returns a repository with the files of the working tree in one commit, whose changelog has the
// version of a rehearsal.
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
	must(unpack.Output())(t)
	write(t, filepath.Join(repo, "CHANGELOG.md"), "## [0.99.0]\n\n- A rehearsal.\n")
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

// fromDist runs a command with the proxy of dist and an empty module cache. Without
// paths, what the release has compiled is in the cache of builds.
func (r *release) fromDist(t *testing.T, dir, name string, args ...string) {
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
}

// installs gets rrl by go install.
func (r *release) installs(t *testing.T) {
	dir := t.TempDir()
	r.fromDist(t, dir, "go", "install", root+"/cmd/rrl@"+r.version)
	contains(t, output(t, dir, "./rrl", "--version"), "rrl "+r.version+" ")
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
	requires(t, read(t, dir, "go.mod"), r.version)
}

// requires expects a go.mod to have the library at a version, and no replacement.
func requires(t *testing.T, mod, version string) {
	t.Helper()
	contains(t, mod, root+" "+version)
	if strings.Contains(mod, "replace") {
		t.Errorf("go.mod:\n%s", mod)
	}
}

// starts unpacks the image of a program, runs it there, and returns what it prints.
func (r *release) starts(t *testing.T, c program, args ...string) string {
	t.Helper()
	named, processors := indexOf(t, filepath.Join(r.dist, c.name+"_"+r.version+"_oci.tar"))
	if named.Annotations["org.opencontainers.image.ref.name"] != c.name+":"+r.version ||
		named.MediaType != types.OCIImageIndex {
		t.Errorf("index.json has %+v", named)
	}
	first := must(processors.IndexManifest())(t).Manifests[0]
	image := must(processors.Image(first.Digest))(t)
	config := must(image.ConfigFile())(t).Config
	if first.Platform.OS != "linux" || first.Platform.Architecture != "amd64" ||
		config.User != unprivileged || !slices.Equal(config.Entrypoint, []string{"/" + c.path}) {
		t.Fatalf("%+v, %+v", first, config)
	}
	dir := t.TempDir()
	unpack := exec.CommandContext(t.Context(), "tar", "-xv", "-C", dir)
	files := mutate.Extract(image)
	defer files.Close()
	unpack.Stdin = files
	list := string(must(unpack.Output())(t))
	if strings.TrimSpace(list) != c.path+"\n"+trusted+"\n"+licensed {
		t.Errorf("the image has %q, want %s, %s and %s", list, c.path, trusted, licensed)
	}
	if !x509.NewCertPool().AppendCertsFromPEM([]byte(read(t, dir, trusted))) {
		t.Error("the image has no authorities")
	}
	if os.Geteuid() == 0 {
		args = append([]string{"--userspec=" + unprivileged, dir, "/" + c.path}, args...)
		return output(t, dir, "chroot", args...)
	}
	return output(t, dir, "./"+c.path, args...)
}

// indexOf returns the index of processors in the archive of an image, and what names it there. podman load
// and skopeo copy refuse an archive that holds several images, or one without a name.
func indexOf(t *testing.T, archive string) (named v1.Descriptor, processors v1.ImageIndex) {
	t.Helper()
	dir := t.TempDir()
	output(t, dir, "tar", "-xf", archive)
	outer := must(layout.ImageIndexFromPath(dir))(t)
	all := must(outer.IndexManifest())(t).Manifests
	if len(all) != 1 {
		t.Fatalf("index.json has %+v, must name one index", all)
	}
	return all[0], must(outer.ImageIndex(all[0].Digest))(t)
}

// output runs a command, and returns what it prints.
func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
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

// Workflows run actions of one commit, whatever their tags are moved to.
func TestActionsArePinned(t *testing.T) {
	files := must(filepath.Glob("../../.github/workflows/*.yml"))(t)
	pinned := regexp.MustCompile(`uses: \S+@[0-9a-f]{40} # v\d`)
	for _, file := range files {
		for line := range strings.Lines(read(t, ".", file)) {
			loose := strings.Contains(line, "uses:") && !pinned.MatchString(line)
			if loose || strings.Contains(line, "@latest") {
				t.Errorf("%s: %s", file, strings.TrimSpace(line))
			}
		}
	}
	if len(files) == 0 {
		t.Error("there are no workflows")
	}
}
