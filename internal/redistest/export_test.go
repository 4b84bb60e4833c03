package redistest

import "strings"

// RunWithoutLeaks is VerifyNoLeaks without the exit.
var RunWithoutLeaks = runWithoutLeaks

// PID returns the process id of the server.
func (s *Server) PID() int { return s.proc.cmd.Process.Pid }

// Dir returns the directory of the server.
func (s *Server) Dir() string { return s.dir }

// BinaryIn is Binary with another cache directory.
func (r Release) BinaryIn(t TB, dir string) string { t.Helper(); return r.binaryIn(t, dir) }

// Verify returns nil if path is the release.
func (r Release) Verify(path string) error { return r.verify(path) }

// WithHash returns the release with the hash of a package that does not exist.
func (r Release) WithHash(hash string) Release {
	name, _, _ := strings.Cut(r.requirement, " ")
	r.requirement = name + " --hash=sha256:" + hash
	return r
}

// OnlyFor returns the release as one for a single platform.
func (r Release) OnlyFor(platform string) Release { r.platform = platform; return r }
