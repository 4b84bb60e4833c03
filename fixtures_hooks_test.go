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

// A hook sees each command of a client and decides what becomes of it. Pipelines
// and dials pass it by.
type hook func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error

func (hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return h(ctx, cmd, next) }
}

// A redisError is an error that Redis has sent.
type redisError string

func (e redisError) Error() string { return string(e) }
func (redisError) RedisError()     {}

var (
	errDial = &net.OpError{Op: "dial", Err: errors.New("refused")}
	lost    = io.EOF // the request is carried out, the reply is lost
)

// failures make the next commands fail, each with an error of its own, and note
// what is sent.
type failures struct {
	errs []error
	sent [][]any
}

func (f *failures) process(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
	f.sent = append(f.sent, slices.Clone(cmd.Args()))
	if len(f.errs) == 0 {
		return next(ctx, cmd)
	}
	err := f.errs[0]
	f.errs = f.errs[1:]
	if errors.Is(err, lost) {
		_ = next(ctx, cmd) // whatever it replies is lost
	}
	return err
}

// failing adds failures to a client.
func failing(rdb *redis.Client, errs ...error) *failures {
	f := &failures{errs: errs}
	rdb.AddHook(hook(f.process))
	return f
}

// countScripts returns a function. It returns how many scripts the client under
// test has sent since its last call.
func (b *bench) countScripts() (calls func() int) {
	f := failing(b.rdb)
	return func() int {
		n := 0
		for _, args := range f.sent {
			if args[0] == "evalsha" {
				n++
			}
		}
		f.sent = nil
		return n
	}
}

// cancelOnError returns a context that ends when a command of the client has
// failed.
func cancelOnError(parent context.Context, rdb *redis.Client) context.Context {
	ctx, cancel := context.WithCancel(parent)
	rdb.AddHook(hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		err := next(ctx, cmd)
		if err != nil {
			cancel()
		}
		return err
	}))
	return ctx
}

// answering returns a hook that replies itself where reply returns true.
func answering(reply func(cmd redis.Cmder) bool) hook {
	return func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		if reply(cmd) {
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}

// A gate counts the scripts that a client sends. While it is shut no script
// passes, so that callers that arrive meanwhile share the next one.
type gate struct {
	mu    sync.Mutex
	calls int
	hold  chan struct{} // nil while the gate is open
}

func (g *gate) process(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
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

// shut keeps the scripts that are sent from now on. They pass when open is called; if the
// gate was shut once more before that, those that are sent later do not.
func (g *gate) shut() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	hold := make(chan struct{})
	g.hold = hold
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.hold == hold {
			g.hold = nil
		}
		close(hold)
	}
}

func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls
}

// A tap holds single calls of scripts, before they reach the server or on their
// way back.
type tap struct {
	mu       sync.Mutex
	calls    int
	requests map[int]chan struct{} // by the number of the call
	replies  map[int]chan struct{}
}

func (g *tap) process(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
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

// sent returns how many commands the Client sends for f.
func (b *bench) sent(f func()) int {
	b.Helper()
	seen := failing(b.rdb)
	f()
	return len(seen.sent)
}
