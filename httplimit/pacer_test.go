package httplimit_test

import (
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// All requests are sent, each when there is a permit of its host. One without a limit is sent at once.
func TestPacerObservesTheLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent, start := &script{}, time.Now()
		key := func(r *http.Request) (string, error) {
			if r.URL.Path == "/free" {
				return "", httplimit.ErrNoLimit
			}
			return httplimit.ByHost()(r)
		}
		pacer := redistest.Must(httplimit.NewKeyedPacer(sent, newMemory(t, 1, time.Second), key))(t)
		var crowd sync.WaitGroup
		for _, url := range []string{"http://a", "http://b", "http://a", "http://a", "http://a/free"} {
			crowd.Go(func() { mustGet(t, pacer, url) })
		}
		crowd.Wait()
		sent.want(t, start, 0, 0, 0, time.Second, 2*time.Second)
	})
}

// A line is a limit.Acquirer.
type line func(ctx context.Context) error

func (line) Allow(context.Context, int64) (limit.Result, error) { return limit.Result{}, errSecret }

func (l line) Acquire(ctx context.Context, permits int64) error {
	if permits != 1 {
		return errSecret
	}
	return l(ctx)
}

// A request without a permit is not sent: its body is closed, and the error tells the reason. It waits in the
// line of a limiter that has one.
func TestPacerDoesNotSend(t *testing.T) {
	empty := limit.Result{Limit: 1, RetryAfter: time.Minute}
	in := func(l line) limiters { return limit.Shared[limit.Limiter](l) }
	crowded := in(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	fails := in(func(context.Context) error { return limit.ErrPermitsExceedRate })
	for name, test := range map[string]struct {
		keyed limiters
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
		"too long in line": {
			crowded, all, []httplimit.PacerOption{httplimit.WithMaxWait(time.Minute)},
			httplimit.ErrWait, time.Minute},
		"the context ends in line": {crowded, all, nil, context.DeadlineExceeded, time.Hour},
		"the line fails":           {fails, all, nil, limit.ErrPermitsExceedRate, 0},
		"the context ends":         {says(empty, nil), all, nil, context.DeadlineExceeded, time.Hour},
		"the limiter fails":        {says(empty, errSecret), all, nil, errSecret, 0},
		"no key":                   {says(empty, nil), httplimit.Constant(""), nil, httplimit.ErrNoKey, 0},
		"an empty key":             {says(empty, nil), keyIs("", nil), nil, httplimit.ErrNoKey, 0},
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

// http.Client closes idle connections through both transports.
func TestCloseIdleConnections(t *testing.T) {
	closes := &idle{}
	pacer := redistest.Must(httplimit.NewPacer(closes, newMemory(t, 1, time.Second)))(t)
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

// tokens is the cost of a response in its header, unknown without it.
func tokens(r *http.Response) int64 {
	n, err := strconv.ParseInt(r.Header.Get("X-Usage-Tokens"), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// ten is an estimate.
func ten(*http.Request) (int64, error) { return 10, nil }

// reserving returns a Pacer that reserves permits of l.
func reserving(
	t *testing.T, next http.RoundTripper, l limit.Limiter, estimate httplimit.CostFunc,
	opts ...httplimit.PacerOption,
) *httplimit.Pacer {
	t.Helper()
	opts = append(opts, httplimit.WithReserve(estimate, tokens))
	return redistest.Must(httplimit.NewPacer(next, l, opts...))(t)
}

// On a server: a request counts what its response cost, which its header has, or its stream at the end.
func TestAPacerSettlesWhatAResponseCost(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/header" {
			w.Header().Set("X-Usage-Tokens", "3")
		}
	}))
	defer server.Close()
	for path, left := range map[string]int64{"/header": 97, "/none": 90, "/later": 95} {
		l := &account{Left: 100}
		client := &http.Client{Transport: reserving(t, nil, l, ten), Timeout: time.Minute}
		response := redistest.Must(client.Do(outgoing(t, http.MethodGet, server.URL+path, nil)))(t)
		redistest.NoError(t, response.Body.Close())
		if path == "/later" {
			redistest.NoError(t, httplimit.Settle(response.Request.Context(), 5))
			redistest.NoError(t, httplimit.Settle(response.Request.Context(), 50))
		}
		if l.Left != left {
			t.Errorf("%s: %d left, want %d", path, l.Left, left)
		}
		client.CloseIdleConnections()
	}
}

// The estimate of a request without response comes back only if it got no connection for certain.
func TestOnlyRequestsThatWereNotSentCostNothing(t *testing.T) {
	closed := redistest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	redistest.NoError(t, closed.Close())
	dropping := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}))
	defer dropping.Close()
	silent := transport(func(*http.Request) (*http.Response, error) { return nil, errSecret })
	for name, test := range map[string]struct {
		next http.RoundTripper
		url  string
		left int64
	}{
		"not connected": {&http.Transport{}, "http://" + closed.Addr().String(), 100},
		"connected":     {&http.Transport{}, dropping.URL, 90},
		"says nothing":  {silent, apiURL, 90},
		"wrong request": {&http.Transport{}, "ftp://127.0.0.1", 90},
	} {
		l := &account{Left: 100}
		p := reserving(t, test.next, l, ten)
		if _, err := send(t, p, outgoing(t, http.MethodGet, test.url, nil)); err == nil {
			t.Errorf("%s: no error", name)
		}
		t.Log(name)
		if test.left == 100 {
			l.Wants(t, 100, 0)
		} else {
			l.Wants(t, test.left)
		}
	}
}

// Requests without estimate are sent at once. With an error or without permits they are not sent.
func TestEstimatesOfAPacer(t *testing.T) {
	for name, test := range map[string]struct {
		cost int64
		err  error
		want error
		left int64
	}{
		"free":      {0, nil, nil, 20},
		"unlimited": {0, httplimit.ErrNoLimit, nil, 20},
		"all":       {20, nil, nil, 0},
		"negative":  {-1, nil, limit.ErrInvalidArgument, 20},
		"failed":    {1, errSecret, errSecret, 20},
		"too many":  {21, nil, httplimit.ErrWait, 20},
	} {
		l := &account{Left: 20}
		sent := false
		p := reserving(t, transport(func(*http.Request) (*http.Response, error) {
			sent = true
			return response(http.StatusOK), nil
		}), l, func(*http.Request) (int64, error) { return test.cost, test.err })
		content := newBody("content")
		_, err := send(t, p, outgoing(t, http.MethodPost, apiURL, content))
		if !errors.Is(err, test.want) || sent != (test.want == nil) || !content.closed {
			t.Errorf("%s: %v, sent: %v, closed: %v", name, err, sent, content.closed)
		}
		l.Wants(t, test.left)
	}
}

// A request waits in the line of the limiter up to WithMaxWait, and for ever without it.
func TestReservationsOfAPacerWait(t *testing.T) {
	for want, opts := range map[time.Duration][]httplimit.PacerOption{
		math.MaxInt64: nil, time.Minute: {httplimit.WithMaxWait(time.Minute)},
	} {
		l := &account{Left: 10, Waits: func(timeout time.Duration) {
			if timeout != want {
				t.Errorf("waits %v, want %v", timeout, want)
			}
		}}
		mustGet(t, reserving(t, answers(http.StatusOK), l, ten, opts...), apiURL)
	}
}

// answers is a transport whose responses have the same status and fields.
func answers(code int, fields ...string) http.RoundTripper {
	return transport(func(*http.Request) (*http.Response, error) { return response(code, fields...), nil })
}

// The hook gets the error of a settlement, and the caller its response.
func TestErrorsOfSettlementsOfAPacer(t *testing.T) {
	l := &account{Left: 10, Fails: errSecret}
	var seen error
	p := reserving(t, answers(http.StatusOK, "X-Usage-Tokens", "4"), l, ten,
		httplimit.WithSettleErrorHook(func(_ *http.Request, err error) { seen = err }))
	mustGet(t, p, apiURL)
	if !errors.Is(seen, errSecret) {
		t.Errorf("the hook got %v", seen)
	}
}
