package main

import (
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"regexp"
)

// chart writes the chart of Helm for the rate limit service, whose image has the tag of the version.
func (r *release) chart() error {
	dir := filepath.Join(filepath.Dir(r.source), "chart")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(r.source, "cmd", "ratelimit", "chart"))); err != nil {
		return err
	}
	license, err := os.ReadFile(filepath.Join(r.source, "LICENSE"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "LICENSE"), license, 0o644); err != nil {
		return err
	}
	name := filepath.Join(dir, "Chart.yaml")
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	text = regexp.MustCompile(`(?m)^version: .*`).ReplaceAll(text, []byte("version: "+r.version[1:]))
	text = regexp.MustCompile(`(?m)^appVersion: .*`).ReplaceAll(text, []byte("appVersion: "+r.version))
	if err := os.WriteFile(name, text, 0o644); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(r.dist, "ratelimit-"+r.version[1:]+".tgz"))
	if err != nil {
		return err
	}
	defer out.Close()
	w := gzip.NewWriter(out)
	return errors.Join(r.archive(w, dir, "ratelimit"), w.Close(), out.Close())
}
