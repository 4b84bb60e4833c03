package javapeer

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// Peer is a running Java peer: one process, any number of Redisson instances.
// It is safe for concurrent use, and calls do not wait for one another.
type Peer struct {
	version string

	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr tail
	done   chan struct{} // closed when the process is gone; err is set then
	err    error         // why it ended

	writing sync.Mutex // one line at a time on stdin

	mu      sync.Mutex
	last    int64                   // guarded by mu: the id of the last request
	pending map[int64]chan<- answer // guarded by mu: the calls that wait, by id
}

// SmallJVM are options of Start for a JVM that starts fast and needs little memory and few processors, but is
// slower in the long run.
var SmallJVM = []string{"-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}

// Start builds and starts the peer with a version of Redisson; empty is that of the pom
// (4.7.0). ctx is only for the start: the peer runs until Close, or until this process
// ends. options are options of the JVM, as in "-Xmx64m".
func Start(ctx context.Context, version string, options ...string) (*Peer, error) {
	java, err := find("java")
	if err != nil {
		return nil, err
	}
	jar, err := Build(ctx, version)
	if err != nil {
		return nil, err
	}
	p, err := launch(java, append(slices.Clone(options), "-jar", jar))
	if err != nil {
		return nil, fmt.Errorf("javapeer: starting the peer: %w", err)
	}
	if p.version, err = call[string](ctx, p, "version", args{}); err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

// launch starts the process. The peer ends at the end of its stdin, which the
// kernel closes when this process ends, however it ends.
func launch(java string, args []string) (*Peer, error) {
	p := &Peer{
		cmd:     exec.Command(java, args...),
		done:    make(chan struct{}),
		pending: map[int64]chan<- answer{},
	}
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = time.Second // a child that outlives the process may hold stderr open
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.stdin = stdin
	go p.serve(stdout)
	return p, nil
}

// Version returns the version of Redisson that runs.
func (p *Peer) Version() string { return p.version }

// Close ends the peer. The peer shuts its Redisson instances down; calls that wait
// for more than a second are not answered. Close returns an error if the peer has
// failed. It may be called twice.
func (p *Peer) Close() error {
	_ = p.stdin.Close()                         // it may be closed already
	patience := time.NewTimer(10 * time.Second) // many times what a shutdown takes
	defer patience.Stop()
	select {
	case <-p.done:
	case <-patience.C:
		_ = p.cmd.Process.Kill() // it may have ended already
		<-p.done
	}
	if !p.cmd.ProcessState.Success() {
		return p.err
	}
	return nil
}
