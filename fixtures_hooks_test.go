package rratelimiter_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
)

// An answer is an error of Redis.
type answer string

func (a answer) Error() string { return string(a) }

func (answer) RedisError() {}

var (
	errDial = &net.OpError{Op: "dial", Err: errors.New("refused")}
	lost    = io.EOF // the request is carried out, the reply is lost
)

// fails makes the next commands fail, each with an error of its own.
type fails struct {
	errs []error
	sent [][]any
}

func (h *fails) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *fails) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *fails) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.sent = append(h.sent, slices.Clone(cmd.Args()))
		if len(h.errs) == 0 {
			return next(ctx, cmd)
		}
		err := h.errs[0]
		h.errs = h.errs[1:]
		if errors.Is(err, lost) {
			_ = next(ctx, cmd)
		}
		return err
	}
}

// said is an answer of Redis.
type said string

func (s said) Error() string { return string(s) }

func (said) RedisError() {}

// An answering hook answers commands itself, those for which it reports so.
type answering func(cmd redis.Cmder) bool

func (a answering) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a answering) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a answering) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if a(cmd) {
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}

// cancelOnRetry ends a context when a command has failed.
type cancelOnRetry struct{ cancel context.CancelFunc }

func (h *cancelOnRetry) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *cancelOnRetry) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *cancelOnRetry) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err != nil {
			h.cancel()
		}
		return err
	}
}

// countScripts returns a function that tells how many scripts the client under
// test has sent since it was last asked.
func (b *bench) countScripts() (calls func() int) {
	h := &fails{}
	b.rdb.AddHook(h)
	return func() int {
		n := 0
		for _, args := range h.sent {
			if args[0] == "evalsha" {
				n++
			}
		}
		h.sent = nil
		return n
	}
}

// A gate counts the scripts that a client sends, and can keep one from
// arriving, so that those who come meanwhile come together.
type gate struct {
	mu    sync.Mutex
	calls int
	hold  chan struct{}
}

func (g *gate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			g.mu.Lock()
			g.calls++
			hold := g.hold
			g.mu.Unlock()
			if hold != nil {
				<-hold
			}
		}
		return next(ctx, cmd)
	}
}

// shut keeps the scripts from arriving that are sent from now on, until the
// function is called that it returns.
func (g *gate) shut() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	hold := make(chan struct{})
	g.hold = hold
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.hold = nil
		close(hold)
	}
}

func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls
}

// A tap holds single calls of scripts: before they reach the server, or their
// replies.
type tap struct {
	mu       sync.Mutex
	calls    int
	requests map[int]chan struct{} // by the number of the call
	replies  map[int]chan struct{}
}

func (g *tap) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *tap) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (g *tap) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" {
			return next(ctx, cmd)
		}
		g.mu.Lock()
		g.calls++
		request, reply := g.requests[g.calls], g.replies[g.calls]
		g.mu.Unlock()
		if request != nil {
			<-request
		}
		err := next(ctx, cmd)
		if reply != nil {
			<-reply
		}
		return err
	}
}
