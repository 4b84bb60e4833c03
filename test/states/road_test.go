package states_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// errCopied has a road keep a request, which arrives later, and lose the connection.
var errCopied = errors.New("copied")

// A road lies between the callers of a row and Redis. It counts, holds and loses scripts.
type road struct {
	mu     sync.Mutex
	calls  int
	held   []*hold       // that have not passed
	errs   []error       // of the next requests
	copied []any         // the request that is to arrive
	delay  time.Duration // of each request, and of each reply
}

// A hold keeps requests or replies until it passes.
type hold struct {
	reply bool
	call  int // the only one; 0 for all from now on
	pass  chan struct{}
}

// holds adds a hold. A number counts from the next request on.
func (r *road) holds(h *hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.call > 0 {
		h.call += r.calls
	}
	r.held = append(r.held, h)
}

// passes ends the oldest hold.
func (r *road) passes(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.held) == 0 {
		t.Fatal("nothing is held")
	}
	close(r.held[0].pass)
	r.held = r.held[1:]
}

// passAll ends all holds.
func (r *road) passAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.held {
		close(h.pass)
	}
	r.held, r.errs, r.delay = nil, nil, 0
}

// fails makes the next requests fail.
func (r *road) fails(times int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, slices.Repeat([]error{err}, int(times))...)
}

func (r *road) slows(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delay = d
}

func (r *road) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls
}

// enters returns what becomes of the next request. The newest hold keeps it.
func (r *road) enters(cmd redis.Cmder) (request, reply <-chan struct{}, delay time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	for _, h := range r.held {
		switch {
		case h.call != 0 && h.call != r.calls:
		case h.reply:
			reply = h.pass
		default:
			request = h.pass
		}
	}
	if len(r.errs) > 0 {
		err, r.errs = r.errs[0], r.errs[1:]
	}
	if errors.Is(err, errCopied) {
		r.copied, err = slices.Clone(cmd.Args()), errNever
	}
	return request, reply, r.delay, err
}

// process is the Hook of the road.
func (r *road) process(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
	if cmd.Name() != "evalsha" {
		return next(ctx, cmd)
	}
	request, reply, delay, err := r.enters(cmd)
	time.Sleep(delay)
	if request != nil {
		<-request
		ctx = context.WithoutCancel(ctx) // it was sent
	}
	switch {
	case err == nil:
		err = next(ctx, cmd)
	case errors.Is(err, ErrLost):
		_ = next(ctx, cmd) // whatever it replies is lost
	}
	if reply != nil {
		<-reply
	}
	time.Sleep(delay)
	return err
}
