package httplimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// A transport is a http.RoundTripper that is a function. It closes the bodies of requests,
// as it must.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	return f(r)
}

// A body knows whether it was read to its end and closed.
type body struct {
	*strings.Reader
	closed bool
}

func newBody(text string) *body                    { return &body{Reader: strings.NewReader(text)} }
func (b *body) Close() error                       { b.closed = true; return nil }
func (b *body) request(t *testing.T) *http.Request { return outgoing(t, http.MethodPost, b) }

func outgoingTo(t *testing.T, url string) *http.Request {
	t.Helper()
	r := redistest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	return r
}

func outgoing(t *testing.T, method string, body io.Reader) *http.Request {
	t.Helper()
	r := redistest.Must(http.NewRequestWithContext(t.Context(), method, "http://api.example.com/x", body))(t)
	return r
}

func answer(code int, fields ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(fields); i += 2 {
		h.Set(fields[i], fields[i+1])
	}
	return &http.Response{StatusCode: code, Header: h, Body: newBody("answer")}
}

// send sends r and closes the body of the response.
func send(t *testing.T, sender http.RoundTripper, r *http.Request) (int, error) {
	t.Helper()
	response, err := sender.RoundTrip(r)
	if err != nil {
		if response != nil {
			t.Error("a response and an error")
		}
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// served is a transport that notes when requests arrive.
func served(times *[]time.Duration, start time.Time) http.RoundTripper {
	var mu sync.Mutex
	return transport(func(*http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		*times = append(*times, time.Since(start))
		return answer(http.StatusOK), nil
	})
}

func checkTimes(t *testing.T, got []time.Duration, want ...time.Duration) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}

// Requests go out when there are permits, and none is lost.
func TestPacerKeepsToTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var times []time.Duration
		two := limit.Of(newMemory(2, time.Second), "api")
		pacer := redistest.Must(httplimit.NewPacer(served(&times, time.Now()), two))(t)
		var crowd sync.WaitGroup
		for range 5 {
			crowd.Go(func() {
				code, err := send(t, pacer, outgoing(t, http.MethodGet, nil))
				if code != http.StatusOK || err != nil {
					t.Errorf("%d, %v", code, err)
				}
			})
		}
		crowd.Wait()
		checkTimes(t, times, 0, 0, time.Second, time.Second, 2*time.Second)
	})
}

// Each host has its own limit, and what needs no permit has none.
func TestKeyedPacer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var times []time.Duration
		byHost := httplimit.ByHost()
		key := func(r *http.Request) (string, error) {
			if r.Method == http.MethodHead {
				return "", httplimit.ErrNoLimit
			}
			return byHost(r)
		}
		pacer := redistest.Must(
			httplimit.NewKeyedPacer(served(&times, time.Now()), newMemory(1, time.Second), key))(t)
		for _, host := range []string{"a", "b", "a"} {
			r := outgoing(t, http.MethodGet, nil)
			r.URL.Host = host
			if _, err := send(t, pacer, r); err != nil {
				t.Error(err)
			}
		}
		if _, err := send(t, pacer, outgoing(t, http.MethodHead, nil)); err != nil {
			t.Error(err)
		}
		checkTimes(t, times, 0, 0, time.Second, time.Second)
	})
}

// A request that does not get its turn is not sent; its body is closed, and the error says
// why.
func TestPacerDoesNotSend(t *testing.T) {
	empty := limit.Result{Limit: 1, RetryAfter: time.Minute}
	noKey := func(err error) httplimit.KeyFunc {
		return func(*http.Request) (string, error) { return "", err }
	}
	waits := limit.KeyedFunc(func(ctx context.Context, _ string, _ int64) (limit.Result, error) {
		<-ctx.Done()
		return limit.Result{}, ctx.Err()
	})
	for name, test := range map[string]struct {
		keyed limit.Keyed
		key   httplimit.KeyFunc
		opts  []httplimit.PacerOption
		want  error
		took  time.Duration
	}{
		"too long, as the limiter says": {
			says(empty, nil), all, []httplimit.PacerOption{httplimit.WithMaxWait(time.Minute - 1)},
			httplimit.ErrWait, 0},
		"too long, nobody says": {
			waits, all, []httplimit.PacerOption{httplimit.WithMaxWait(time.Minute)},
			httplimit.ErrWait, time.Minute},
		"too long, and refusals without a wait": {
			says(limit.Result{}, nil), all, []httplimit.PacerOption{httplimit.WithMaxWait(time.Second)},
			httplimit.ErrWait, time.Second},
		"the context ends":  {says(empty, nil), all, nil, context.DeadlineExceeded, time.Hour},
		"the limiter fails": {says(empty, errSecret), all, nil, errSecret, 0},
		"no key":            {says(empty, nil), httplimit.Constant(""), nil, httplimit.ErrNoKey, 0},
		"an empty key":      {says(empty, nil), noKey(nil), nil, httplimit.ErrNoKey, 0},
		"an error in place of a key": {
			says(empty, nil), noKey(errSecret), nil, errSecret, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			pacer, err := httplimit.NewKeyedPacer(transport(func(*http.Request) (*http.Response, error) {
				t.Errorf("%s: sent", name)
				return answer(http.StatusOK), nil
			}), test.keyed, test.key, test.opts...)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			b, start := newBody("x"), time.Now()
			_, err = send(t, pacer, b.request(t).WithContext(ctx))
			if took := time.Since(start); !errors.Is(err, test.want) || took != test.took {
				t.Errorf("%s: %v after %v, want %v after %v", name, err, took, test.want, test.took)
			}
			if !b.closed {
				t.Errorf("%s: the body is open", name)
			}
		})
	}
}

// A line is a limiter that can wait by itself, as a RateLimiter.
type line struct {
	limit.Limiter
	acquired int64
	err      error
}

func (l *line) Acquire(ctx context.Context, permits int64) error {
	l.acquired += permits
	if errors.Is(l.err, errSecret) {
		<-ctx.Done()
		return ctx.Err()
	}
	return l.err
}

// A keyedLine is a line for each key, as a Keyed. It keeps the key that waited.
type keyedLine string

func (l *keyedLine) Allow(context.Context, string, int64) (limit.Result, error) {
	return limit.Result{}, errSecret
}

func (l *keyedLine) Acquire(_ context.Context, key string, permits int64) error {
	if *l = keyedLine(key); permits != 1 {
		return errSecret
	}
	return nil
}

// A limiter that has a line is waited for in its line.
func TestPacerStandsInLine(t *testing.T) {
	var times []time.Duration
	one := &line{}
	pacer := redistest.Must(httplimit.NewPacer(served(&times, time.Now()), one))(t)
	_, err := send(t, pacer, outgoing(t, http.MethodGet, nil))
	if err != nil || one.acquired != 1 || len(times) != 1 {
		t.Errorf("%v, %d permits, %d sent", err, one.acquired, len(times))
	}
	one.err = limit.ErrPermitsExceedRate
	_, err = send(t, pacer, outgoing(t, http.MethodGet, nil))
	if !errors.Is(err, limit.ErrPermitsExceedRate) || len(times) != 1 {
		t.Errorf("%v, %d sent", err, len(times))
	}
	var keys keyedLine
	byHost := redistest.Must(
		httplimit.NewKeyedPacer(served(&times, time.Now()), &keys, httplimit.ByHost()))(t)
	_, err = send(t, byHost, outgoing(t, http.MethodGet, nil))
	if err != nil || keys != "api.example.com" || len(times) != 2 {
		t.Errorf("%v, %q, %d sent", err, keys, len(times))
	}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		pacer := redistest.Must(
			httplimit.NewPacer(nil, &line{err: errSecret}, httplimit.WithMaxWait(time.Second)))(t)
		_, err = send(t, pacer, outgoing(t, http.MethodGet, nil))
		if !errors.Is(err, httplimit.ErrWait) || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// http.Client closes idle connections through both.
func TestCloseIdleConnections(t *testing.T) {
	closes := &idle{}
	pacer := redistest.Must(httplimit.NewPacer(closes, limit.Of(newMemory(1, 1), "k")))(t)
	retryAfter := redistest.Must(httplimit.NewRetryAfterTransport(pacer))(t)
	(&http.Client{Transport: retryAfter}).CloseIdleConnections()
	if closes.n != 1 {
		t.Errorf("closed %d times", closes.n)
	}
}

type idle struct {
	http.RoundTripper
	n int
}

func (i *idle) CloseIdleConnections() { i.n++ }
