package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

// shells are where the completions of each shell belong. Debian has a folder of its own for zsh.
var shells = map[string]string{
	"bash": "/usr/share/bash-completion/completions/rrl",
	"zsh":  "/usr/share/zsh/vendor-completions/_rrl",
	"fish": "/usr/share/fish/vendor_completions.d/rrl.fish",
}

var foldersOfRPM = strings.NewReplacer("/vendor-completions/", "/site-functions/")

// packages writes rrl with completions and manual pages as packages of Debian and of RPM.
func (r *release) packages() error {
	extras, err := r.extras()
	if err != nil {
		return err
	}
	for _, p := range r.platforms {
		if p.system != "linux" {
			continue
		}
		for _, format := range []string{"deb", "rpm"} {
			if err := r.pack(p, format, extras); err != nil {
				return err
			}
		}
	}
	return nil
}

// extras returns the completions and manual pages, which rrl writes itself.
func (r *release) extras() (files.Contents, error) {
	dir := filepath.Join(filepath.Dir(r.source), "extras")
	pages := filepath.Join(dir, "man")
	if err := os.MkdirAll(pages, 0o755); err != nil {
		return nil, err
	}
	rrl := filepath.Join(dir, "rrl")
	from := filepath.Join(r.source, "cmd/rrl")
	if err := r.runIn(from, "go", "build", "-trimpath", "-o", rrl, "."); err != nil { // compiled already
		return nil, err
	}
	var extras files.Contents
	for shell, target := range shells {
		text, err := r.output(dir, rrl, "completion", shell)
		if err != nil {
			return nil, err
		}
		source := filepath.Join(dir, shell)
		if err := os.WriteFile(source, []byte(text+"\n"), 0o644); err != nil {
			return nil, err
		}
		extras = append(extras, r.content(source, target, 0o644))
	}
	if err := r.runIn(dir, rrl, "man", pages); err != nil {
		return nil, err
	}
	extras = append(extras, r.content(r.licenses(programs[0]), "/usr/share/doc/rrl/copyright", 0o644))
	all, err := os.ReadDir(pages)
	for _, page := range all {
		source, target := filepath.Join(pages, page.Name()), "/usr/share/man/man1/"+page.Name()
		extras = append(extras, r.content(source, target, 0o644))
	}
	return extras, err
}

// content returns a file of a package.
func (r *release) content(source, target string, mode os.FileMode) *files.Content {
	return &files.Content{
		Source: source, Destination: target, FileInfo: &files.ContentFileInfo{Mode: mode, MTime: r.date},
	}
}

// pack writes a package.
func (r *release) pack(p platform, format string, extras files.Contents) error {
	contents := files.Contents{}
	for _, c := range extras {
		if format == "rpm" {
			c = r.content(c.Source, foldersOfRPM.Replace(c.Destination), 0o644)
		}
		contents = append(contents, c)
	}
	rrl := r.content(r.binary(programs[0], p), "/usr/bin/rrl", 0o755)
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "rrl", Arch: p.arch, Platform: p.system, Version: r.version, MTime: r.date,
		Maintainer: "The authors of rratelimiter <" + root + ">", Homepage: "https://" + root,
		License: "Apache-2.0", Section: "utils",
		Description: "Inspects and tests rate limiters and locks that Go and Java share",
		Overridables: nfpm.Overridables{
			Contents: append(contents, rrl),
			RPM:      nfpm.RPM{BuildHost: "rratelimiter"}, // by default it is the name of this machine
		},
	})
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	// The name that a package has by convention may have a tilde, which GitHub replaces.
	var out bytes.Buffer
	return errors.Join(packager.Package(info, &out),
		os.WriteFile(r.binary(programs[0], p)+"."+format, out.Bytes(), 0o644))
}
