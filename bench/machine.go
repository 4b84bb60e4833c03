package main

import (
	"bufio"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// A machine is what a run was measured on. Figures of two machines cannot be
// compared; their ratios can, roughly.
type machine struct {
	Cores           int
	CPU, System, Go string
	Load            string // average of a minute before the start: what else the machine does

	// Versions of modules: rivals become faster, too.
	GoRedis, RedisRate, Rueidis string
}

// thisMachine describes this machine.
func thisMachine() machine {
	m := machine{
		Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
		CPU: fieldOf("/proc/cpuinfo", "model name"), Load: "unknown",
		GoRedis:   moduleVersion("github.com/redis/go-redis/v9"),
		RedisRate: moduleVersion("github.com/go-redis/redis_rate/v10"),
		Rueidis:   moduleVersion("github.com/redis/rueidis"),
	}
	if name := fieldOf("/etc/os-release", "PRETTY_NAME"); name != "" {
		m.System = strings.Trim(name, `"`) + ", " + m.System
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(load), " ")
	}
	return m
}

// withLoadOf returns the machine with the load of another one, which differs from run
// to run.
func (m machine) withLoadOf(other machine) machine {
	m.Load = other.Load
	return m
}

// moduleVersion returns the version of a module that this program is built
// with. A test binary does not know it.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == path {
				return dep.Version
			}
		}
	}
	return "of an unknown version"
}

// fieldOf returns the first value of a field, and "" if there is none: other
// systems than Linux do not have these files.
func fieldOf(file, field string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was only read
	// cpuinfo has "name : value", os-release has NAME=value.
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, _ := strings.Cut(strings.Replace(lines.Text(), "=", ":", 1), ":")
		if strings.TrimSpace(name) == field {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
