package main

import (
	"debug/buildinfo"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/module"
)

// licenses returns the file with the licenses of all that a program consists of. It is a file of the release,
// and in images.
func (r *release) licenses(c program) string {
	return filepath.Join(r.dist, c.name+"_"+r.version+"_LICENSES.txt")
}

// writeLicenses writes the licenses of the programs.
func (r *release) writeLicenses() error {
	license, err := os.ReadFile(filepath.Join(r.source, "LICENSE"))
	if err != nil {
		return err
	}
	all := map[program]map[string]string{} // the texts by the path of a module
	for c, p := range r.builds {
		info, err := buildinfo.ReadFile(r.binary(c, p))
		if err != nil {
			return err
		}
		if all[c] == nil {
			all[c] = map[string]string{}
		}
		for _, part := range parts(info) {
			if all[c][part.Path], err = r.licenseOf(part); err != nil {
				return err
			}
		}
	}
	for c, texts := range all {
		file := string(license)
		for _, path := range slices.Sorted(maps.Keys(texts)) {
			file += fmt.Sprintf("\n%s\n%s\n\n%s", strings.Repeat("=", 80), path, texts[path])
		}
		if err := os.WriteFile(r.licenses(c), []byte(file), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// stdlib is the name of the library of Go.
const stdlib = "stdlib"

// parts returns what a program consists of, besides its own module.
func parts(info *buildinfo.BuildInfo) []module.Version {
	all := []module.Version{{Path: stdlib, Version: "v" + strings.TrimPrefix(info.GoVersion, "go")}}
	for _, m := range info.Deps {
		all = append(all, module.Version{Path: m.Path, Version: m.Version})
	}
	return all
}

// licenseOf returns the license of a part of a program, and the notices that go with it.
func (r *release) licenseOf(part module.Version) (string, error) {
	dir, err := r.folderOf(part)
	if err != nil {
		return "", err
	}
	all := ""
	for _, pattern := range []string{"LICEN[CS]E*", "COPYING*", "NOTICE*"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return "", err
		}
		for _, name := range found {
			text, err := os.ReadFile(name)
			if err != nil {
				return "", err
			}
			all += string(text) + "\n"
		}
	}
	if all == "" {
		return "", fmt.Errorf("%s has no license, in %s", part, dir)
	}
	return all, nil
}

// folderOf returns where the source of a part is.
func (r *release) folderOf(part module.Version) (string, error) {
	if part.Path == stdlib {
		return r.output(r.source, "go", "env", "GOROOT")
	}
	path, err := module.EscapePath(part.Path)
	if err != nil {
		return "", err
	}
	version, err := module.EscapeVersion(part.Version)
	return filepath.Join(r.cache, path+"@"+version), err
}
