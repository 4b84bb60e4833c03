package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
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

// binaries builds the programs in the clone, so that they tell the version and the commit that are tagged.
func (r *release) binaries() error {
	for _, c := range programs {
		for _, p := range r.platforms {
			if p.system != "linux" && !c.all {
				continue
			}
			cmd := r.command(filepath.Join(r.source, "cmd", c.name), "go", "build", "-trimpath",
				"-buildvcs=true", "-ldflags=-s -w", "-o", r.binary(c, p), ".")
			cmd.Env = append(cmd.Env, "GOOS="+p.system, "GOARCH="+p.arch)
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("%s for %s/%s: %w", c.name, p.system, p.arch, err)
			}
		}
	}
	return nil
}

// bills writes which modules each program consists of, as CycloneDX.
func (r *release) bills() error {
	for _, c := range programs {
		if err := r.bill(c); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) bill(c program) error {
	info, err := buildinfo.ReadFile(r.binary(c, r.platforms[0]))
	if err != nil {
		return err
	}
	bom := cyclonedx.NewBOM()
	component := func(kind cyclonedx.ComponentType, path, version string) cyclonedx.Component {
		return cyclonedx.Component{
			Type: kind, Name: path, Version: version,
			BOMRef: path + "@" + version, PackageURL: "pkg:golang/" + path + "@" + version,
		}
	}
	main := component(cyclonedx.ComponentTypeApplication, info.Main.Path, r.version)
	bom.Metadata = &cyclonedx.Metadata{Component: &main}
	stdlib := strings.TrimPrefix(info.GoVersion, "go")
	parts := []cyclonedx.Component{component(cyclonedx.ComponentTypeLibrary, "stdlib", "v"+stdlib)}
	for _, m := range info.Deps {
		parts = append(parts, component(cyclonedx.ComponentTypeLibrary, m.Path, m.Version))
	}
	bom.Components = &parts
	out, err := os.Create(filepath.Join(r.dist, c.name+".cdx.json"))
	if err != nil {
		return err
	}
	defer out.Close()
	encoder := cyclonedx.NewBOMEncoder(out, cyclonedx.BOMFileFormatJSON).SetPretty(true)
	if err := encoder.Encode(bom); err != nil {
		return err
	}
	return out.Close()
}
