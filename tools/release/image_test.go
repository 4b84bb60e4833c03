package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/x509"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goreleaser/nfpm/v2/files"
)

// An archive that holds several images, or one without a name, is refused by podman load and skopeo copy.
func TestAnImageIsOneForAllProcessors(t *testing.T) {
	r := withoutBinaries(t)
	noError(t, r.images())
	files := map[string][]byte{}
	untar(t, filepath.Join(r.dist, "ratelimit_v0.1.0_oci.tar"), func(h *tar.Header, data []byte) {
		files[h.Name] = data
	})
	type index struct {
		Manifests []struct {
			Digest, MediaType string
			Annotations       map[string]string
			Platform          struct{ Architecture string }
		}
	}
	var outer, inner index
	noError(t, json.Unmarshal(files["index.json"], &outer))
	const name, kind = "org.opencontainers.image.ref.name", "application/vnd.oci.image.index.v1+json"
	m := outer.Manifests
	if len(m) != 1 || m[0].Annotations[name] != "ratelimit:v0.1.0" || m[0].MediaType != kind {
		t.Fatalf("index.json is %s, must name one index", files["index.json"])
	}
	blob := files["blobs/"+strings.Replace(outer.Manifests[0].Digest, ":", "/", 1)]
	noError(t, json.Unmarshal(blob, &inner))
	if len(inner.Manifests) != 2 || inner.Manifests[1].Platform.Architecture != "arm64" {
		t.Errorf("the index is %s", blob)
	}
	var manifest struct{ Config struct{ MediaType string } }
	blob = files["blobs/"+strings.Replace(inner.Manifests[0].Digest, ":", "/", 1)]
	if err := json.Unmarshal(blob, &manifest); err != nil ||
		manifest.Config.MediaType != "application/vnd.oci.image.config.v1+json" {
		t.Errorf("%v, the manifest is %s", err, blob)
	}
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(authorities()) {
		t.Error("the image has no authorities")
	}
}

// The chart of a release is of its version, and runs the image of that version.
func TestTheChartIsOfTheVersion(t *testing.T) {
	r := withoutBinaries(t)
	noError(t, r.chart())
	in := must(os.Open(filepath.Join(r.dist, "ratelimit-0.1.0.tgz")))(t)
	defer in.Close()
	unzipped := must(gzip.NewReader(in))(t)
	files := map[string]string{}
	for tr := tar.NewReader(unzipped); ; {
		h, err := tr.Next()
		if err != nil {
			break
		}
		data, _ := io.ReadAll(tr)
		files[h.Name] = string(data)
	}
	if c := files["ratelimit/Chart.yaml"]; !strings.Contains(c, "\nversion: 0.1.0\nappVersion: v0.1.0\n") {
		t.Errorf("Chart.yaml is %q", c)
	}
	if files["ratelimit/LICENSE"] == "" ||
		files["ratelimit/values.yaml"] == "" || files["ratelimit/templates/deployment.yaml"] == "" {
		t.Error("the chart lacks files")
	}
}

// A package of RPM has completions where zsh of Fedora looks, and no trace of the machine that made it.
func TestAPackageOfRPM(t *testing.T) {
	r := withoutBinaries(t)
	script := filepath.Join(t.TempDir(), "zsh")
	write(t, script, "rrl")
	zsh := files.Contents{r.content(script, shells["zsh"], 0o644)}
	noError(t, r.pack(platforms[0], "rpm", zsh))
	text := read(t, r.dist, "rrl_v0.1.0_linux_amd64.rpm")
	for _, want := range []string{"/usr/share/zsh/site-functions/", "\x00rratelimiter\x00"} {
		if !strings.Contains(text, want) {
			t.Errorf("the package lacks %q", want)
		}
	}
}

// withoutBinaries returns a release of this tree whose programs are empty files.
func withoutBinaries(t *testing.T) *release {
	t.Helper()
	dir, repo := t.TempDir(), t.TempDir()
	r := &release{
		ctx: t.Context(), version: "v0.1.0", platforms: platforms, date: time.Unix(1_700_000_000, 0),
		dist: dir, source: filepath.Join(repo, "source"),
	}
	tree, err := filepath.Abs("../..")
	if err == nil {
		err = os.Symlink(tree, r.source)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range programs {
		write(t, r.licenses(c), "")
		for _, p := range platforms {
			write(t, r.binary(c, p), "")
		}
	}
	return r
}
