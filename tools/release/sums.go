package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// writeNotes writes the section of the CHANGELOG as the notes of the release.
func (r *release) writeNotes() error {
	text := "# " + r.version + "\n\n" + r.notes
	return os.WriteFile(filepath.Join(r.dist, "NOTES.md"), []byte(text), 0o644)
}

// sums writes the checksums of all files, as sha256sum -c reads them.
func (r *release) sums() error {
	text := ""
	err := filepath.WalkDir(r.dist, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(r.dist, name)
		text += fmt.Sprintf("%x  %s\n", sha256.Sum256(data), filepath.ToSlash(relative))
		return err
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dist, "SHA256SUMS"), []byte(text), 0o644)
}
