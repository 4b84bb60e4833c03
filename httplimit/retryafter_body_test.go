package httplimit_test

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A dripping body has no end: reading it waits until it is closed.
type dripping struct {
	closed chan struct{}
	once   sync.Once
}

func (d *dripping) Read([]byte) (int, error) {
	<-d.closed
	return 0, io.ErrClosedPipe
}

func (d *dripping) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}

type roundTrip func(r *http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A refusal whose body never ends does not hold up the retry, and its body is closed.
func TestRetryDoesNotWaitForABody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := &dripping{closed: make(chan struct{})}
		sent := 0
		h, err := httplimit.NewRetryAfterTransport(roundTrip(func(*http.Request) (*http.Response, error) {
			if sent++; sent > 1 {
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
			}
			header := http.Header{"Retry-After": {"0"}}
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: header, Body: body}, nil
		}), httplimit.WithRetries(1))
		if err != nil {
			t.Fatal(err)
		}
		r := redistest.Must(
			http.NewRequestWithContext(t.Context(), http.MethodGet, "http://example.com/", nil))(t)
		response, err := h.RoundTrip(r)
		if err != nil || response.StatusCode != http.StatusOK || sent != 2 {
			t.Fatalf("%v, %v after %d requests", response, err, sent)
		}
		_ = response.Body.Close()
		select {
		case <-body.closed:
		default:
			t.Error("the body of the refusal is not closed")
		}
	})
}
