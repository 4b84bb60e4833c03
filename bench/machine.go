package main

import (
	"bufio"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// A machine is what the benchmark ran on.
type machine struct {
	cores               int
	cpu, system, golang string
	load                string // of the machine before the start, by what else it does
	versions            map[string]string
}

func thisMachine() machine {
	m := machine{
		cores: runtime.NumCPU(), system: runtime.GOOS + "/" + runtime.GOARCH, golang: runtime.Version(),
		cpu:  fieldOf("/proc/cpuinfo", "model name"),
		load: "unknown", versions: map[string]string{},
	}
	if name := fieldOf("/etc/os-release", "PRETTY_NAME"); name != "" {
		m.system = strings.Trim(name, `"`) + ", " + m.system
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.load, _, _ = strings.Cut(string(load), " ")
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			m.versions[dep.Path] = dep.Version
		}
	}
	return m
}

// fieldOf returns the first value of a field, empty if there is none: the file
// may not be there at all.
func fieldOf(file, field string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was only read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, _ := strings.Cut(strings.Replace(lines.Text(), "=", ":", 1), ":")
		if strings.TrimSpace(name) == field {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
