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

// startProcess runs binary in dir, and keeps its output in a file there. A file
// needs no goroutine that copies, and can be read after the process has ended.
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

// run starts the process and waits for its end, on one locked thread. The kernel
// sends the parent-death signal when the thread that forked ends, not when the
// process does. If the fork were done on the caller's thread, any goroutine that
// ends while it is locked to that thread would kill the server in the middle of a
// test. Here the thread cannot end before the child has ended.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	_ = p.cmd.Wait() // it was killed, so an error is expected
	close(p.done)
}

// kill ends the process and returns when it is gone. It may be called again. It
// sends SIGKILL: a test server holds nothing worth saving, and a server that is
// blocked in a script reacts to nothing less.
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
