package main

import (
	"fmt"
	"path/filepath"
)

// A program is a command that users get without Go.
type program struct {
	name string
	path string // in its image: that of ratelimit is where Envoy Gateway expects it
	all  bool   // it is for all platforms; otherwise for Linux
}

var programs = []program{{"rrl", "rrl", true}, {"ratelimit", "bin/ratelimit", false}}

// A platform is a system and a processor that programs are built for.
type platform struct{ system, arch string }

var platforms = []platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"},
}

// binary returns the file of a program for a platform.
func (r *release) binary(c program, p platform) string {
	name := fmt.Sprintf("%s_%s_%s_%s", c.name, r.version, p.system, p.arch)
	if p.system == "windows" {
		name += ".exe"
	}
	return filepath.Join(r.dist, name)
}

// builds yields the programs, each with the platforms that it is for.
func (r *release) builds(yield func(program, platform) bool) {
	for _, c := range programs {
		for _, p := range r.platforms {
			if (p.system == "linux" || c.all) && !yield(c, p) {
				return
			}
		}
	}
}

// binaries builds the programs in the clone, so that they tell the version and the commit that are tagged.
func (r *release) binaries() error {
	for c, p := range r.builds {
		cmd := r.command(filepath.Join(r.source, "cmd", c.name), "go", "build", "-trimpath",
			"-buildvcs=true", "-ldflags=-s -w", "-o", r.binary(c, p), ".")
		cmd.Env = append(cmd.Env, "GOOS="+p.system, "GOARCH="+p.arch)
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s for %s/%s: %w", c.name, p.system, p.arch, err)
		}
	}
	return nil
}
