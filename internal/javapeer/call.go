package javapeer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Error is an exception of the Java side. Find it with errors.As: the methods
// wrap it with the name of the operation.
type Error struct {
	Type    string // the class, as in java.lang.IllegalArgumentException
	Message string
}

func (e *Error) Error() string { return e.Type + ": " + e.Message }

// errEnded: the peer has ended, by Close or for another reason. An error that wraps
// it has the end of what the peer printed.
var errEnded = errors.New("javapeer: the peer has ended")

// args are the arguments of a request, by the names that the operations of the peer read.
type args map[string]any

// call makes the peer do op, and returns the result. When ctx ends, the call ends,
// but the peer continues with op.
func call[T any](ctx context.Context, p *Peer, op string, a args) (result T, err error) {
	if err := ctx.Err(); err != nil {
		return result, fmt.Errorf("javapeer: %s: %w", op, err)
	}
	s := start[T](p, op, a)
	defer p.forget(s.id)
	return s.Wait(ctx)
}

// A Started is a call that was sent to the peer. Wait returns its outcome.
type Started[T any] struct {
	peer     *Peer
	op       string
	id       int64
	answered chan answer
	err      error // why nothing was sent
}

// start sends a request.
func start[T any](p *Peer, op string, a args) *Started[T] {
	s := &Started[T]{peer: p, op: op}
	s.id, s.answered = p.expect()
	a["id"], a["op"] = s.id, op
	line, err := json.Marshal(a)
	if err != nil {
		p.forget(s.id)
		s.err = err
		return s
	}
	p.write(append(line, '\n'))
	return s
}

// Wait returns the outcome of the call. When ctx ends first, the peer continues with
// the call. Wait may be called again.
func (s *Started[T]) Wait(ctx context.Context) (result T, err error) {
	raw, err := s.wait(ctx)
	if err == nil {
		err = json.Unmarshal(raw, &result)
	}
	if err != nil {
		return result, fmt.Errorf("javapeer: %s: %w", s.op, err)
	}
	return result, nil
}

func (s *Started[T]) wait(ctx context.Context) (json.RawMessage, error) {
	if s.err != nil {
		return nil, s.err
	}
	select {
	case got := <-s.answered:
		return s.keep(got)
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.peer.done:
	}
	select {
	case got := <-s.answered: // the last line of the peer was this answer
		return s.keep(got)
	default:
		return nil, s.peer.err
	}
}

// keep puts the answer back for the next Wait.
func (s *Started[T]) keep(got answer) (json.RawMessage, error) {
	s.answered <- got
	return got.unpack()
}

// expect registers a request under a new id.
func (p *Peer) expect() (id int64, answered chan answer) {
	c := make(chan answer, 1) // so that serve never waits for a caller that has left
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	p.pending[p.last] = c
	return p.last, c
}

func (p *Peer) forget(id int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pending, id)
}

// write sends a line. It fails only when the peer has ended or is about to end, and
// then done is closed, and err has the reason.
func (p *Peer) write(line []byte) {
	p.writing.Lock()
	defer p.writing.Unlock()
	_, _ = p.stdin.Write(line)
}

// An answer is a line of the peer: a result, or an error with its type.
type answer struct {
	ID     int64           `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *string         `json:"error"`
	Type   string          `json:"type"`
}

func (a answer) unpack() (json.RawMessage, error) {
	if a.Error != nil {
		return nil, &Error{Type: a.Type, Message: *a.Error}
	}
	return a.Result, nil
}

// serve delivers what the peer prints until the peer ends.
func (p *Peer) serve(stdout io.Reader) {
	err := p.readAll(bufio.NewReader(stdout))
	if err != errEnded {
		_ = p.cmd.Process.Kill() // its answers would not be read any more
	}
	_ = p.cmd.Wait() // ProcessState holds the same
	p.err = fmt.Errorf("%w (%s)%s", err, p.cmd.ProcessState, p.lastWords())
	close(p.done)
}

// readAll reads lines of any length. It returns errEnded at the end of the output,
// or at a line that it cannot decode, with the reason.
func (p *Peer) readAll(lines *bufio.Reader) error {
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return errEnded // a line without an end is no answer
		}
		var a answer
		if err := json.Unmarshal(line, &a); err != nil {
			return fmt.Errorf("%w after saying %.200q: %w", errEnded, line, err)
		}
		p.deliver(a)
	}
}

func (p *Peer) deliver(a answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if waiting := p.pending[a.ID]; waiting != nil {
		waiting <- a
		delete(p.pending, a.ID) // the channel has room for one answer
	}
}

func (p *Peer) lastWords() string {
	if len(p.stderr) == 0 {
		return ""
	}
	return ", saying:\n" + string(p.stderr)
}

// tail keeps the end of what is written to it, for error messages. One goroutine
// uses it at a time: that of exec until Wait has returned, then that of serve.
type tail []byte

func (t *tail) Write(b []byte) (int, error) {
	const most = 4000 // enough for a stack trace of Java
	all := append(*t, b...)
	*t = slices.Delete(all, 0, max(0, len(all)-most))
	return len(b), nil
}
