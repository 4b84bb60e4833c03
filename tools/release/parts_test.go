package main

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/goreleaser/nfpm/v2/files"
)

// An archive that holds several images, or one without a name, is refused by podman load and skopeo copy.
func TestAnImageIsOneForAllProcessors(t *testing.T) {
	r := withoutBinaries(t)
	noError(t, r.images())
	named, processors := indexOf(t, filepath.Join(r.dist, "ratelimit_v0.1.0_oci.tar"))
	if named.Annotations["org.opencontainers.image.ref.name"] != "ratelimit:v0.1.0" ||
		named.MediaType != types.OCIImageIndex {
		t.Fatalf("index.json has %+v", named)
	}
	all := must(processors.IndexManifest())(t).Manifests
	if len(all) != 2 || all[1].Platform.Architecture != "arm64" {
		t.Errorf("the index is %+v", all)
	}
	image := must(processors.Image(all[0].Digest))(t)
	if kind := must(image.Manifest())(t).Config.MediaType; kind != types.OCIConfigJSON {
		t.Errorf("the configuration is a %s", kind)
	}
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(authorities()) {
		t.Error("the image has no authorities")
	}
}

// The chart of a release is of its version, and runs the image of that version.
func TestTheChartIsOfTheVersion(t *testing.T) {
	r, dir := withoutBinaries(t), t.TempDir()
	noError(t, r.chart())
	output(t, dir, "tar", "-xzf", filepath.Join(r.dist, "ratelimit-0.1.0.tgz"))
	contains(t, read(t, dir, "ratelimit/Chart.yaml"), "\nversion: 0.1.0\nappVersion: v0.1.0\n")
	for _, file := range []string{"LICENSE", "values.yaml", "templates/deployment.yaml"} {
		read(t, dir, "ratelimit/"+file)
	}
}

// A package of RPM has completions where zsh of Fedora looks, and no trace of the machine that made it.
func TestAPackageOfRPM(t *testing.T) {
	r := withoutBinaries(t)
	script := filepath.Join(t.TempDir(), "zsh")
	write(t, script, "rrl")
	noError(t, r.pack(platforms[0], "rpm", files.Contents{r.content(script, shells["zsh"], 0o644)}))
	contains(t, read(t, r.dist, "rrl_v0.1.0_linux_amd64.rpm"), "/usr/share/zsh/site-functions/",
		"\x00rratelimiter\x00")
}

// withoutBinaries returns a release of this tree whose programs are empty files.
func withoutBinaries(t *testing.T) *release {
	t.Helper()
	dir, repo := t.TempDir(), t.TempDir()
	r := &release{
		ctx: t.Context(), version: "v0.1.0", platforms: platforms, date: time.Unix(1_700_000_000, 0),
		dist: dir, source: filepath.Join(repo, "source"),
	}
	noError(t, os.Symlink(must(filepath.Abs("../.."))(t), r.source))
	for _, c := range programs {
		write(t, r.licenses(c), "")
		for _, p := range platforms {
			write(t, r.binary(c, p), "")
		}
	}
	return r
}

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
