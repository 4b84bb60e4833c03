package redistest

import (
	"os"
	"testing"
)

// The server of another test may take a port before ours can bind it.
func TestAnswersAnotherServer(t *testing.T) {
	s := Start(t)
	if err := answers(s.Addr, s.proc.cmd.Process.Pid); err != nil {
		t.Errorf("the server itself: %v", err)
	}
	if err := answers(s.Addr, os.Getpid()); err == nil {
		t.Error("a process that doesn't answer was found to")
	}
}

// Two servers cannot have one port. The second must be seen to have exited, and not
// be taken for the first.
func TestLaunchTakenPort(t *testing.T) {
	s := Start(t)
	other := newServer(t)
	other.port = s.port
	t.Cleanup(other.Stop)
	if err := other.launch(); err == nil {
		t.Error("both run on one port")
	}
}
