package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// All requests are sent, each when there is a permit.
func TestPacerObservesTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent, start := &script{}, time.Now()
		two := limit.Of(newMemory(t, 2, time.Second), "api")
		pacer := redistest.Must(httplimit.NewPacer(sent, two))(t)
		var crowd sync.WaitGroup
		for range 5 {
			crowd.Go(func() { mustGet(t, pacer, apiURL) })
		}
		crowd.Wait()
		sent.want(t, start, 0, 0, time.Second, time.Second, 2*time.Second)
	})
}

// Each host has its own limit, and a request without a limit is sent at once.
func TestKeyedPacer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent, start := &script{}, time.Now()
		key := func(r *http.Request) (string, error) {
			if r.URL.Path == "/free" {
				return "", httplimit.ErrNoLimit
			}
			return httplimit.ByHost()(r)
		}
		pacer := redistest.Must(httplimit.NewKeyedPacer(sent, newMemory(t, 1, time.Second), key))(t)
		for _, url := range []string{"http://a", "http://b", "http://a", "http://a/free"} {
			mustGet(t, pacer, url)
		}
		sent.want(t, start, 0, 0, time.Second, time.Second)
	})
}

// A request without a permit is not sent: its body is closed, and the error tells the reason.
func TestPacerDoesNotSend(t *testing.T) {
	empty := limit.Result{Limit: 1, RetryAfter: time.Minute}
	for name, test := range map[string]struct {
		keyed limit.Keyed
		key   httplimit.KeyFunc
		opts  []httplimit.PacerOption
		want  error
		took  time.Duration
	}{
		"too long by RetryAfter": {
			says(empty, nil), all, []httplimit.PacerOption{httplimit.WithMaxWait(time.Minute - 1)},
			httplimit.ErrWait, 0},
		"too long, a silent limiter": {
			silent, all, []httplimit.PacerOption{httplimit.WithMaxWait(time.Minute)},
			httplimit.ErrWait, time.Minute},
		"too long without RetryAfter": {
			says(limit.Result{}, nil), all, []httplimit.PacerOption{httplimit.WithMaxWait(time.Second)},
			httplimit.ErrWait, time.Second},
		"the context ends":  {says(empty, nil), all, nil, context.DeadlineExceeded, time.Hour},
		"the limiter fails": {says(empty, errSecret), all, nil, errSecret, 0},
		"no key":            {says(empty, nil), httplimit.Constant(""), nil, httplimit.ErrNoKey, 0},
		"an empty key":      {says(empty, nil), keyIs("", nil), nil, httplimit.ErrNoKey, 0},
		"the key fails": {
			says(empty, nil), keyIs("", errSecret), nil, errSecret, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			sent := &script{}
			pacer := redistest.Must(httplimit.NewKeyedPacer(sent, test.keyed, test.key, test.opts...))(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			b, start := newBody("x"), time.Now()
			_, err := send(t, pacer, outgoing(t, http.MethodPost, apiURL, b).WithContext(ctx))
			if took := time.Since(start); !errors.Is(err, test.want) || took != test.took {
				t.Errorf("%s: %v after %v, want %v after %v", name, err, took, test.want, test.took)
			}
			if !b.closed || len(sent.times) != 0 {
				t.Errorf("%s: the body is closed: %v; sent at %v", name, b.closed, sent.times)
			}
		})
	}
}

// A line is a limit.Acquirer. With errSecret its callers wait until their context ends.
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

// A keyedLine is a limit.KeyedAcquirer. It is the key of its last caller.
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

// If the limiter has a line, requests wait in it.
func TestPacerWaitsInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent, start, one := &script{}, time.Now(), &line{}
		pacer := redistest.Must(httplimit.NewPacer(sent, one))(t)
		mustGet(t, pacer, apiURL)
		one.err = limit.ErrPermitsExceedRate
		_, err := send(t, pacer, outgoing(t, http.MethodGet, apiURL, nil))
		if !errors.Is(err, limit.ErrPermitsExceedRate) || one.acquired != 2 {
			t.Errorf("%v, %d permits", err, one.acquired)
		}
		var key keyedLine
		mustGet(t, redistest.Must(httplimit.NewKeyedPacer(sent, &key, httplimit.ByHost()))(t), apiURL)
		if key != "api.example.com" {
			t.Errorf("waited for %q", key)
		}
		impatient := redistest.Must(
			httplimit.NewPacer(sent, &line{err: errSecret}, httplimit.WithMaxWait(time.Second)))(t)
		_, err = send(t, impatient, outgoing(t, http.MethodGet, apiURL, nil))
		if !errors.Is(err, httplimit.ErrWait) || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		sent.want(t, start, 0, 0)
	})
}

// http.Client closes idle connections through both transports.
func TestCloseIdleConnections(t *testing.T) {
	closes := &idle{}
	pacer := redistest.Must(httplimit.NewPacer(closes, limit.Of(newMemory(t, 1, time.Second), "k")))(t)
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
