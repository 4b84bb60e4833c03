package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// root is the path of the library. The other modules are below it.
const root = "github.com/redisson-go/rratelimiter"

// released are the folders of the modules that have tags, each after those that it requires. unreleased are
// the others of go.work: they are of use only in the repository.
var (
	released   = []string{".", "otellimit", "grpclimit", "cmd/rrl", "cmd/ratelimit"}
	unreleased = []string{"bench", "httplimit/examples"}
)

// modulePath returns the path of the module in a folder.
func modulePath(folder string) string { return path.Join(root, folder) }

// tagOf returns the tag of a module.
func (r *release) tagOf(folder string) string { return path.Join(folder, r.version) }

// modules writes the go.mod files as they are tagged, and all modules as a proxy serves them.
func (r *release) modules() error {
	for _, folder := range released {
		dir := filepath.Join(r.source, folder)
		if err := r.requireVersion(dir); err != nil {
			return err
		}
		if err := r.runIn(dir, "go", "mod", "tidy"); err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
		if err := r.serve(folder); err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
	}
	return nil
}

// requireVersion makes a module require the version of the others, instead of the folders beside it.
func (r *release) requireVersion(dir string) error {
	name := filepath.Join(dir, "go.mod")
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	file, err := modfile.Parse(name, data, nil)
	if err != nil {
		return err
	}
	ours := func(m string) bool { return m == root || strings.HasPrefix(m, root+"/") }
	for _, replaced := range slices.Clone(file.Replace) {
		if !ours(replaced.Old.Path) {
			return fmt.Errorf("%s replaces %s: users would not get that", name, replaced.Old.Path)
		}
		if err := file.DropReplace(replaced.Old.Path, replaced.Old.Version); err != nil {
			return err
		}
	}
	for _, required := range file.Require {
		if ours(required.Mod.Path) {
			if err := file.AddRequire(required.Mod.Path, r.version); err != nil {
				return err
			}
		}
	}
	file.Cleanup()
	if data, err = file.Format(); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o644)
}

// serve writes a module to the proxy in dist, and its go.mod and go.sum beside it for people.
func (r *release) serve(folder string) error {
	dir, v := filepath.Join(r.source, folder), module.Version{Path: modulePath(folder), Version: r.version}
	escaped, err := module.EscapePath(v.Path)
	if err != nil {
		return err
	}
	proxy := filepath.Join(r.dist, "proxy", filepath.FromSlash(escaped), "@v")
	files := filepath.Join(r.dist, "mod", folder)
	for _, d := range []string{proxy, files} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{v.Version, r.date})
	if err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	sum, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		filepath.Join(proxy, "list"): []byte(v.Version + "\n"), filepath.Join(proxy, v.Version+".info"): info,
		filepath.Join(proxy, v.Version+".mod"): mod, filepath.Join(files, "go.mod"): mod,
		filepath.Join(files, "go.sum"): sum,
	} {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			return err
		}
	}
	out, err := os.Create(filepath.Join(proxy, v.Version+".zip"))
	if err != nil {
		return err
	}
	defer out.Close()
	return errors.Join(r.zip(out, v, dir), out.Close())
}

// zip writes a module as go get makes it of a tag: a module without a LICENSE gets that of the repository.
func (r *release) zip(out io.Writer, v module.Version, dir string) error {
	license := filepath.Join(dir, "LICENSE")
	if _, err := os.Stat(license); errors.Is(err, fs.ErrNotExist) {
		text, err := os.ReadFile(filepath.Join(r.source, "LICENSE"))
		if err != nil {
			return err
		}
		if err := os.WriteFile(license, text, 0o644); err != nil {
			return err
		}
		defer os.Remove(license) // it is not in the commit
	}
	return zip.CreateFromDir(out, v, dir)
}

// tag commits the go.mod files in the clone and tags the commit there, and writes both as a bundle of git.
// The commit has no date or author but those of the commit before, so that it is the same each time.
func (r *release) tag() error {
	bundle := []string{"bundle", "create", "-q", filepath.Join(r.dist, "release.bundle")}
	commit := []string{"commit", "-q", "--no-gpg-sign", "-a", "-m", "go.mod: " + r.version}
	if err := r.runIn(r.source, "git", commit...); err != nil {
		return err
	}
	made := r.commitOf(r.source, "HEAD")
	for _, folder := range released {
		tag := r.tagOf(folder)
		if before := r.commitOf(r.repo, "refs/tags/"+tag); before != "" && before != made {
			return fmt.Errorf("%s is tagged already, on %s instead of %s", tag, before, made)
		}
		if err := r.runIn(r.source, "git", "tag", "--no-sign", tag); err != nil {
			return err
		}
		bundle = append(bundle, tag)
	}
	if err := r.runIn(r.source, "git", append(bundle, "^"+r.head)...); err != nil {
		return err
	}
	text := "# The tags of " + r.version + "\n\nThe commit that they tag is in release.bundle: it follows " +
		r.head + ",\nand changes the go.mod and go.sum files only, as they are in mod/. Push the tags " +
		"one by one: GitHub starts no\nworkflow for a push of more than three.\n\n" +
		"    git fetch dist/release.bundle 'refs/tags/*:refs/tags/*'\n    git push origin main\n"
	for _, folder := range released {
		text += "    git push origin " + r.tagOf(folder) + "\n"
	}
	return os.WriteFile(filepath.Join(r.dist, "TAGS.md"), []byte(text), 0o644)
}
