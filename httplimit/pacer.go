package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// blindWait is how long a Pacer waits after a refusal that does not say how long.
const blindWait = 100 * time.Millisecond

// A Pacer is an http.RoundTripper that takes a permit before it sends a request, and waits
// for it: so that a program keeps to the limit of a service that it calls. It is safe for
// concurrent use and starts no goroutines.
type Pacer struct {
	next    http.RoundTripper
	key     KeyFunc
	acquire func(ctx context.Context, key string) error
	maxWait time.Duration // 0 for none
}

// A PacerOption changes what a Pacer does.
type PacerOption func(*Pacer) error

// WithMaxWait sets how long a request may wait for its turn, more than 0. If it would take
// longer, the error is an ErrWait: at once if the limiter says so, and otherwise after d.
// By default only the context of the request ends the wait.
func WithMaxWait(d time.Duration) PacerOption {
	return func(p *Pacer) error {
		if d <= 0 {
			return invalid("WithMaxWait", "d", d, "be more than 0")
		}
		p.maxWait = d
		return nil
	}
}

// NewPacer returns a Pacer whose requests share one limit. If limiter is a limit.Acquirer, as
// a RateLimiter is, requests wait in its line. Otherwise the Pacer calls Allow again after
// RetryAfter. next sends the requests; nil is http.DefaultTransport.
//
// Errors are limit.ErrInvalidArgument: limiter or an option is nil, or an argument of an
// option is out of its bounds.
func NewPacer(next http.RoundTripper, limiter limit.Limiter, opts ...PacerOption) (*Pacer, error) {
	if limiter == nil {
		return nil, invalid("NewPacer", "limiter", nil, "not be nil")
	}
	return newPacer("NewPacer", next, limit.Shared(limiter), Constant("all"), opts)
}

// NewKeyedPacer is NewPacer with a limit for each key: ByHost is one for each host. Requests
// wait in line if keyed is a limit.KeyedAcquirer, as a Keyed is. A request for which key
// returns ErrNoLimit is sent at once. With any other error it is not sent.
func NewKeyedPacer(
	next http.RoundTripper, keyed limit.Keyed, key KeyFunc, opts ...PacerOption,
) (*Pacer, error) {
	switch {
	case keyed == nil:
		return nil, invalid("NewKeyedPacer", "keyed", nil, "not be nil")
	case key == nil:
		return nil, invalid("NewKeyedPacer", "key", nil, "not be nil")
	}
	return newPacer("NewKeyedPacer", next, keyed, key, opts)
}

// newPacer returns a Pacer for the constructor called where.
func newPacer(
	where string, next http.RoundTripper, keyed limit.Keyed, key KeyFunc, opts []PacerOption,
) (*Pacer, error) {
	p := &Pacer{next: orDefault(next), key: key}
	if a, ok := keyed.(limit.KeyedAcquirer); ok {
		p.acquire = func(ctx context.Context, key string) error { return a.Acquire(ctx, key, 1) }
	} else {
		p.acquire = p.polling(keyed)
	}
	for i, opt := range opts {
		if opt == nil {
			return nil, invalid(where, fmt.Sprintf("option %d", i+1), nil, "not be nil")
		}
		if err := opt(p); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func orDefault(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		return http.DefaultTransport
	}
	return next
}

// RoundTrip waits for a permit, and sends r then. Without one r is not sent, and the error is
// an ErrWait, the end of the context, or what the limiter or the KeyFunc returned.
func (p *Pacer) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := p.wait(r); err != nil {
		closeBody(r)
		return nil, err
	}
	return p.next.RoundTrip(r)
}

// CloseIdleConnections closes the idle connections of next. http.Client calls it.
func (p *Pacer) CloseIdleConnections() { closeIdle(p.next) }

func (p *Pacer) wait(r *http.Request) error {
	key, err := p.key(r)
	switch {
	case errors.Is(err, ErrNoLimit):
		return nil
	case err == nil && key == "":
		err = fmt.Errorf("%w: the key is empty, must not be", ErrNoKey)
	}
	if err != nil {
		return err
	}
	ctx := r.Context()
	if p.maxWait > 0 {
		timed, cancel := context.WithTimeout(ctx, p.maxWait)
		defer cancel()
		ctx = timed
	}
	err = p.acquire(ctx, key)
	if err != nil && ctx.Err() != nil && r.Context().Err() == nil {
		return fmt.Errorf("%w: no permit within %v: %w", ErrWait, p.maxWait, err)
	}
	return err
}

// polling waits by calling Allow again.
func (p *Pacer) polling(keyed limit.Keyed) func(ctx context.Context, key string) error {
	return func(ctx context.Context, key string) error {
		for start := time.Now(); ; {
			result, err := keyed.Allow(ctx, key, 1)
			if err != nil || result.Allowed {
				return err
			}
			pause := result.RetryAfter
			if pause <= 0 {
				pause = blindWait
			}
			// RetryAfter is never too short, so waiting longer than left would be in vain.
			if left := p.maxWait - time.Since(start); p.maxWait > 0 && pause > left {
				return fmt.Errorf("%w: the permit is there in %v, must be within %v", ErrWait, pause, left)
			}
			if err := sleep(ctx, pause); err != nil {
				return err
			}
		}
	}
}

// sleep waits for d, or for the end of ctx, whose error it returns.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// closeBody closes the body of a request that is not sent, as a RoundTripper must.
func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close() // nothing was read: nothing can be lost
	}
}

func closeIdle(next http.RoundTripper) {
	if closer, ok := next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}
