package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// process is a child process that dies with this one.
type process struct {
	cmd  *exec.Cmd
	log  string        // path of what it printed
	done chan struct{} // closed when it has ended and was waited for
}

// startProcess runs binary in dir, where its output is kept as well: a file
// needs no goroutine that copies, and is still there to be read when the
// process has ended unexpectedly.
func startProcess(binary, dir string, args ...string) (*process, error) {
	p := &process{
		cmd:  exec.Command(binary, args...),
		log:  filepath.Join(dir, "log"),
		done: make(chan struct{}),
	}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the child has its own descriptor
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, out, out
	p.cmd.SysProcAttr = dieWithParent()
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run starts the process and waits for its end on one thread that is locked in
// between. The kernel sends the parent-death signal when the thread that forked
// ends, not the process: were the fork done on whatever thread the caller runs
// on, a goroutine that ends while locked to that thread (anybody's) would take
// the server down in the middle of a test. Here the thread cannot end before
// the child has. Waiting would block a thread anyhow, so this costs none, and
// the goroutine ends with the child, so there is none to except from leak
// checks.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	_ = p.cmd.Wait() // killed: an error is what is expected
	close(p.done)
}

// kill ends the process and returns when it is gone. It may be called again.
// SIGKILL, because nothing a test server holds is worth saving, and a server
// that is blocked in a script would not answer anything less.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// ended reports whether the process is gone.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// tail returns the end of what the process printed, for error messages.
func (p *process) tail() string {
	const most = 2000
	out, err := os.ReadFile(p.log)
	if err != nil {
		return fmt.Sprintf("(no output: %v)", err)
	}
	return string(out[max(0, len(out)-most):])
}
