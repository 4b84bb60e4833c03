package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/test/fixtures"
)

type account = fixtures.Account

// estimated is a cost.
func estimated(n int64) httplimit.Option {
	return httplimit.WithCost(func(*http.Request) (int64, error) { return n, nil })
}

// bytesSent is the cost of a response by its bytes.
func bytesSent(_ *http.Request, sent httplimit.Response) int64 { return sent.Bytes }

// The first Settle of a handler counts, before what WithActual says. Without any the estimate counts.
func TestHandlersSettle(t *testing.T) {
	settling := func(amounts ...int64) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for _, n := range amounts {
				if err := httplimit.Settle(r.Context(), n); err != nil {
					t.Error(err)
				}
			}
			fmt.Fprint(w, "five!")
		}
	}
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		opts    []httplimit.Option
		left    int64
		settled []int64
	}{
		"settled":        {settling(3, 9), nil, 97, []int64{3}},
		"free":           {settling(0), nil, 100, []int64{0}},
		"more":           {settling(120), nil, -20, []int64{120}},
		"not settled":    {settling(), nil, 90, nil},
		"by WithActual":  {settling(), []httplimit.Option{httplimit.WithActual(bytesSent)}, 95, []int64{5}},
		"by the handler": {settling(7), []httplimit.Option{httplimit.WithActual(bytesSent)}, 93, []int64{7}},
		"unknown": {settling(), []httplimit.Option{
			httplimit.WithActual(func(*http.Request, httplimit.Response) int64 { return -1 }),
		}, 90, nil},
	} {
		l := &account{Left: 100}
		m := newMiddleware(t, l, all, append(test.opts, estimated(10), httplimit.WithSettle())...)
		m.Handler(test.handler).ServeHTTP(httptest.NewRecorder(), get(t))
		t.Log(name)
		l.Wants(t, test.left, test.settled...)
	}
}

// A panic returns no permits, and WithActual learns the status if there was one.
func TestPanicsGiveNothingBack(t *testing.T) {
	for text, status := range map[string]int{"text": 200, "": 0} {
		l, sent := &account{Left: 100}, httplimit.Response{}
		m := newMiddleware(t, l, all, estimated(10), httplimit.WithActual(
			func(_ *http.Request, r httplimit.Response) int64 { sent = r; return r.Bytes }))
		func() {
			defer func() { _ = recover() }()
			m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if text != "" {
					fmt.Fprint(w, text)
				}
				panic(http.ErrAbortHandler)
			})).ServeHTTP(httptest.NewRecorder(), get(t))
		}()
		if l.Left != 90 || sent.Status != status {
			t.Errorf("%q: %d left, want 90; status %d, want %d", text, l.Left, sent.Status, status)
		}
	}
}

// The hook gets the error of a settlement, and the visitor, who may have disconnected, does not notice.
func TestErrorsOfSettlementsReachTheHook(t *testing.T) {
	for name, opt := range map[string]httplimit.Option{
		"handler": httplimit.WithSettle(), "middleware": httplimit.WithActual(bytesSent),
	} {
		ctx, leave := context.WithCancel(t.Context())
		l := &account{Left: 10, Fails: errSecret}
		var seen []httplimit.Decision
		m := newMiddleware(t, l, keyIs("alice", nil), estimated(5), opt,
			httplimit.WithErrorHook(func(_ *http.Request, d httplimit.Decision) { seen = append(seen, d) }))
		w := httptest.NewRecorder()
		m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			leave()
			if name == "handler" && !errors.Is(httplimit.Settle(r.Context(), 0), errSecret) {
				t.Error("Settle hides its error")
			}
		})).ServeHTTP(w, get(t).WithContext(ctx))
		status(t, w, http.StatusOK)
		l.Wants(t, 10, 0)
		if len(seen) != 1 || !errors.Is(seen[0].Err, errSecret) || seen[0].Key != "alice" ||
			seen[0].Cost != 5 || seen[0].Status != 0 {
			t.Errorf("%s: the hook got %+v", name, seen)
		}
	}
}

// A request that passed without permits has nothing to settle. A handler without the option learns it.
func TestSettleWithoutAReservation(t *testing.T) {
	settles := func(m *httplimit.Middleware) (err error) {
		m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			err = httplimit.Settle(r.Context(), 1)
		})).ServeHTTP(httptest.NewRecorder(), get(t))
		return err
	}
	with := httplimit.WithSettle()
	empty := &account{}
	for name, m := range map[string]*httplimit.Middleware{
		"free":      newMiddleware(t, empty, all, with, estimated(0)),
		"unlimited": newMiddleware(t, empty, keyIs("", httplimit.ErrNoLimit), with),
		"shadow":    newMiddleware(t, empty, all, with, httplimit.WithShadow()),
	} {
		if err := settles(m); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	empty.Wants(t, 0)
	plain := newMiddleware(t, says(granted, nil), all)
	if err := settles(plain); !errors.Is(err, limit.ErrNoReservation) {
		t.Errorf("%v, want ErrNoReservation", err)
	}
}

// Whatever way a handler sends, WithActual learns the status and the bytes.
func TestEveryWayToSendIsCounted(t *testing.T) {
	for name, test := range map[string]struct {
		send   func(t *testing.T, w http.ResponseWriter)
		status int
		bytes  int64
	}{
		"nothing": {func(*testing.T, http.ResponseWriter) {}, 200, 0},
		"a status": {func(_ *testing.T, w http.ResponseWriter) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, "gone")
		}, 404, 4},
		"from a reader": {func(t *testing.T, w http.ResponseWriter) {
			r := struct{ io.Reader }{strings.NewReader("reader")}
			if n := redistest.Must(io.Copy(w, r))(t); n != 6 {
				t.Errorf("%d bytes", n)
			}
		}, 200, 6},
		"flushed": {func(t *testing.T, w http.ResponseWriter) {
			flusher, ok := w.(http.Flusher)
			if !ok {
				t.Fatal("cannot flush")
			}
			flusher.Flush()
			fmt.Fprint(w, "late")
		}, 200, 4},
		"hijacked": {func(t *testing.T, w http.ResponseWriter) {
			conn, buffer, err := http.NewResponseController(w).Hijack()
			redistest.NoError(t, err)
			defer conn.Close()
			fmt.Fprint(buffer, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nraw")
			redistest.NoError(t, buffer.Flush())
		}, 101, 0},
	} {
		t.Run(name, func(t *testing.T) {
			done := make(chan httplimit.Response, 1)
			m := newMiddleware(t, &account{Left: 1}, all, httplimit.WithActual(
				func(_ *http.Request, sent httplimit.Response) int64 {
					done <- sent
					return 0
				}))
			server := httptest.NewServer(m.Handler(http.HandlerFunc(
				func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("X-Tokens", "7")
					test.send(t, w)
				})))
			defer server.Close()
			mustGet(t, http.DefaultTransport, server.URL)
			sent := <-done
			if sent.Status != test.status || sent.Bytes != test.bytes || sent.Header.Get("X-Tokens") != "7" {
				t.Errorf("%+v, want status %d and %d bytes", sent, test.status, test.bytes)
			}
		})
	}
}
