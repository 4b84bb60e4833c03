package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// unprivileged is the user and group of the images. They own no file there.
const unprivileged = "65532:65532"

// trusted is where Go looks for the certificates of authorities.
const trusted = "etc/ssl/certs/ca-certificates.crt"

// licensed is where an image has its licenses.
const licensed = "LICENSES.txt"

// images writes an image of each program.
func (r *release) images() error {
	for _, c := range programs {
		if err := r.image(c); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// image writes an OCI layout as a tar: the program for each processor of Linux. Podman and skopeo refuse a
// layout of several images, so index.json has one entry, the index of the processors.
func (r *release) image(c program) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range r.platforms {
		if p.system != "linux" {
			continue
		}
		img, err := r.imageOf(c, p)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: p.system, Architecture: p.arch},
		}})
	}
	named := mutate.IndexAddendum{Add: index, Descriptor: v1.Descriptor{Annotations: map[string]string{
		"org.opencontainers.image.ref.name": c.name + ":" + r.version,
	}}}
	outer := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), named)
	dir := filepath.Join(filepath.Dir(r.source), "image", c.name)
	if _, err := layout.Write(dir, outer); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(r.dist, c.name+"_"+r.version+"_oci.tar"))
	if err != nil {
		return err
	}
	defer out.Close()
	return errors.Join(r.archive(out, dir), out.Close())
}

// archive writes the files of a folder as a tar.
func (r *release) archive(out io.Writer, dir string) error {
	w := tar.NewWriter(out)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		return r.add(w, filepath.ToSlash(relative), data, 0o644)
	})
	return errors.Join(err, w.Close())
}

// authorities returns the certificates of the public authorities that Mozilla trusts, without those that it
// trusts on conditions, because a file cannot state them. A managed Redis has a certificate of such an
// authority.
func authorities() []byte {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return all.Bytes()
}

// imageOf returns the image for a platform.
func (r *release) imageOf(program program, p platform) (v1.Image, error) {
	data, err := os.ReadFile(r.binary(program, p))
	if err != nil {
		return nil, err
	}
	license, err := os.ReadFile(r.licenses(program))
	if err != nil {
		return nil, err
	}
	license = append(license, "\n"+strings.Repeat("=", 80)+"\n"+trusted+
		" is the list of Mozilla, under MPL-2.0: https://www.mozilla.org/MPL/2.0/\n"...)
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := errors.Join(
		r.add(w, program.path, data, 0o755), r.add(w, trusted, authorities(), 0o644),
		r.add(w, licensed, license, 0o644), w.Close(),
	); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil }
	added, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img, err := mutate.AppendLayers(mutate.ConfigMediaType(base, types.OCIConfigJSON), added)
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(img, withConfig(img, func(c *v1.ConfigFile) {
		c.OS, c.Architecture, c.Created = p.system, p.arch, v1.Time{Time: r.date}
		c.Config = v1.Config{
			Entrypoint: []string{"/" + program.path}, User: unprivileged,
			Labels: map[string]string{
				"org.opencontainers.image.version":  r.version,
				"org.opencontainers.image.licenses": "Apache-2.0",
				"org.opencontainers.image.source":   "https://" + root,
			},
		}
	}))
}

// withConfig returns the changed configuration of an image.
func withConfig(img v1.Image, change func(c *v1.ConfigFile)) *v1.ConfigFile {
	c, err := img.ConfigFile()
	if err != nil { // of an image in memory
		panic(err)
	}
	c = c.DeepCopy()
	change(c)
	return c
}

// add writes a file to a tar.
func (r *release) add(w *tar.Writer, name string, data []byte, mode int64) error {
	header := tar.Header{
		Name: name, Mode: mode, Size: int64(len(data)), ModTime: r.date, Format: tar.FormatPAX,
	}
	if err := w.WriteHeader(&header); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}
