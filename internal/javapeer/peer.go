package javapeer

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"
)

// Peer is a running Java peer: one process, any number of Redisson instances.
// It is safe for concurrent use, and calls do not wait for one another.
type Peer struct {
	version string
	events  chan Event

	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr tail
	done   chan struct{} // closed when the process is gone; err is set then
	err    error         // with what it ended

	writing sync.Mutex // one line at a time on stdin

	mu      sync.Mutex
	last    int64                   // guarded by mu: the id of the last request
	pending map[int64]chan<- answer // guarded by mu: who waits for which answer
}

// Start starts the peer with a version of Redisson, empty for that of the pom
// (4.7.0), after building it if its jar is missing or older than its sources.
// Processes that start one at the same time build it once. ctx is for the
// start alone: the peer runs until Close, or until this process ends. options
// are those of the JVM, as in "-Xmx64m".
//
// Where java or mvn is missing it answers an ErrNoJava.
func Start(ctx context.Context, version string, options ...string) (*Peer, error) {
	java, err := find("java")
	if err != nil {
		return nil, err
	}
	b, err := newBuild(version)
	if err != nil {
		return nil, err
	}
	if err := b.ensure(ctx); err != nil {
		return nil, err
	}
	p, err := launch(java, append(options, "-jar", b.jar()))
	if err != nil {
		return nil, fmt.Errorf("javapeer: starting the peer: %w", err)
	}
	if p.version, err = call[string](ctx, p, "version", args{}); err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

// launch starts the process. It ends with ours, however that ends: the kernel
// closes our end of its stdin, and the end of stdin is the end of the peer.
func launch(java string, args []string) (*Peer, error) {
	p := &Peer{
		cmd:     exec.Command(java, args...),
		events:  make(chan Event, maxEvents),
		done:    make(chan struct{}),
		pending: map[int64]chan<- answer{},
	}
	p.cmd.Stderr = &p.stderr
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

// Close ends the peer: it shuts its Redisson instances down and leaves those
// calls unanswered that wait for more than a second. It answers an error if the
// peer did not end well, now or before. Closing twice is allowed.
func (p *Peer) Close() error {
	_ = p.stdin.Close() // its end may be closed already
	patience := time.NewTimer(10 * time.Second)
	defer patience.Stop()
	select {
	case <-p.done:
	case <-patience.C:
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	if !p.cmd.ProcessState.Success() {
		return p.err
	}
	return nil
}
