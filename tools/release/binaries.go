package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"

	"github.com/CycloneDX/cyclonedx-go"
)

// A platform is a system and a processor that rrl is built for.
type platform struct{ system, arch string }

var platforms = []platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"},
}

// binary returns the file of rrl for a platform.
func (r *release) binary(p platform) string {
	name := fmt.Sprintf("rrl_%s_%s_%s", r.version, p.system, p.arch)
	if p.system == "windows" {
		name += ".exe"
	}
	return filepath.Join(r.dist, name)
}

// binaries builds rrl in the clone, so that it tells the version and the commit that are tagged.
func (r *release) binaries() error {
	for _, p := range r.platforms {
		cmd := r.command(filepath.Join(r.source, "cmd/rrl"), "go", "build", "-trimpath", "-buildvcs=true",
			"-ldflags=-s -w", "-o", r.binary(p), ".")
		cmd.Env = append(cmd.Env, "GOOS="+p.system, "GOARCH="+p.arch)
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s/%s: %w", p.system, p.arch, err)
		}
	}
	return nil
}

// bill writes which modules rrl consists of, as CycloneDX.
func (r *release) bill() error {
	info, err := buildinfo.ReadFile(r.binary(r.platforms[0]))
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
	var parts []cyclonedx.Component
	for _, m := range info.Deps {
		parts = append(parts, component(cyclonedx.ComponentTypeLibrary, m.Path, m.Version))
	}
	bom.Components = &parts
	out, err := os.Create(filepath.Join(r.dist, "sbom.cdx.json"))
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
