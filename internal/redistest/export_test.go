package redistest

import "errors"

// Until makes until usable by tests outside the package.
func Until(t TB, what string, ok func() bool) {
	t.Helper()
	until(t, what, func() error {
		if !ok() {
			return errors.New("not yet")
		}
		return nil
	})
}

// RunWithoutLeaks is VerifyNoLeaks without the exit.
var RunWithoutLeaks = runWithoutLeaks

// PID returns the process id of the server.
func (s *Server) PID() int { return s.proc.cmd.Process.Pid }

// Dir returns the directory of the server.
func (s *Server) Dir() string { return s.dir }
