package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
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

// listen starts a server, and returns a function that gets a page of it.
func listen(t *testing.T, handler http.Handler) (get func(field ...string) (*http.Response, string)) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	return func(field ...string) (*http.Response, string) {
		t.Helper()
		r := outgoing(t, http.MethodGet, server.URL, nil)
		for i := 0; i < len(field); i += 2 {
			r.Header.Set(field[i], field[i+1])
		}
		response := redistest.Must(server.Client().Do(r))(t)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
		return response, string(text)
	}
}

// On a server and Redis: a request is refused by its estimate, and counts what its response had.
func TestResponsesCountTheirBytes(t *testing.T) {
	client := rratelimiter.New(redistest.Start(t).Client(t))
	defer client.Close()
	for name, keyed := range map[string]limit.Keyed{
		"keyed":  client.Keyed("bytes", 1000, time.Hour),
		"shared": limit.Shared(client.RateLimiter("all").WithRate(1000, time.Hour)),
	} {
		m := newMiddleware(t, keyed, all, estimated(400), httplimit.WithActual(bytesSent),
			httplimit.WithTimeout(time.Minute), httplimit.WithFields(httplimit.Draft6))
		get := listen(t, m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.Header.Get("Send"))
		})))
		for _, v := range []struct {
			bytes, status int
			remaining     string
		}{
			{100, http.StatusOK, "600"},
			{900, http.StatusOK, "500"}, // 400 were reserved, 500 are charged
			{1, http.StatusTooManyRequests, "0"},
		} {
			response, _ := get("Send", strings.Repeat("x", v.bytes))
			got := response.Header.Get("RateLimit-Remaining")
			if response.StatusCode != v.status || got != v.remaining {
				t.Errorf("%s: %d bytes: %d with %s left, want %d with %s", name, v.bytes,
					response.StatusCode, got, v.status, v.remaining)
			}
			retry := response.Header.Get("Retry-After")
			if v.status == http.StatusTooManyRequests && len(retry) != 4 {
				t.Errorf("%s: Retry-After %q, want most of an hour", name, retry)
			}
		}
	}
}

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

// Several Middlewares with WithSettle are settled by one call; a Middleware without it is not.
func TestSettleReachesEachMiddleware(t *testing.T) {
	users, whole, apart := &account{Left: 10}, &account{Left: 100}, &account{Left: 1000}
	var handler http.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		redistest.NoError(t, httplimit.Settle(r.Context(), 2))
	})
	for _, m := range []*httplimit.Middleware{
		newMiddleware(t, users, all, estimated(5), httplimit.WithSettle()),
		newMiddleware(t, apart, all, estimated(5), httplimit.WithActual(bytesSent)),
		newMiddleware(t, whole, all, estimated(5), httplimit.WithSettle()),
	} {
		handler = m.Handler(handler)
	}
	handler.ServeHTTP(httptest.NewRecorder(), get(t))
	users.Wants(t, 8, 2)
	whole.Wants(t, 98, 2)
	apart.Wants(t, 1000, 0)
}

// A panic returns no permits, and a cost above the estimate is charged.
func TestPanicsGiveNothingBack(t *testing.T) {
	for bytes, want := range map[int]int64{1: 10, 5000: 5000} {
		l := &account{Left: 6000}
		var sent httplimit.Response
		m := newMiddleware(t, l, all, estimated(10), httplimit.WithActual(
			func(_ *http.Request, r httplimit.Response) int64 {
				sent = r
				return r.Bytes
			}))
		done := make(chan struct{})
		get := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(done)
			m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, strings.Repeat("x", bytes))
				redistest.NoError(t, http.NewResponseController(w).Flush())
				panic(http.ErrAbortHandler)
			})).ServeHTTP(w, r)
		}))
		get()
		<-done
		l.Wants(t, 6000-want, want)
		if sent.Status != http.StatusOK || sent.Bytes != int64(bytes) {
			t.Errorf("%+v was sent, want %d bytes", sent, bytes)
		}
	}
	silent := newMiddleware(t, &account{Left: 10}, all, httplimit.WithActual(
		func(_ *http.Request, r httplimit.Response) int64 {
			if r.Status != 0 {
				t.Errorf("status %d of a response that was not sent", r.Status)
			}
			return 0
		}))
	defer func() { _ = recover() }()
	silent.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("early") })).
		ServeHTTP(httptest.NewRecorder(), get(t))
}

// grouped gives the Results of an account the form of a Group's.
type grouped struct{ *account }

func (g grouped) TryReserve(
	ctx context.Context, key string, n int64,
) (*limit.Reservation, limit.Result, error) {
	r, result, err := g.account.TryReserve(ctx, key, n)
	result.Each = []limit.Result{result}
	return r, result, err
}

// After a panic the estimates of a Group count. The middleware does not know them: each is a multiple of the
// cost.
func TestAPanicKeepsTheEstimatesOfAGroup(t *testing.T) {
	l := &account{Left: 6000}
	m := newMiddleware(t, grouped{l}, all, estimated(10), httplimit.WithActual(
		func(*http.Request, httplimit.Response) int64 { return 20 }))
	defer func() {
		_ = recover()
		l.Wants(t, 5990)
	}()
	m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("early") })).
		ServeHTTP(httptest.NewRecorder(), get(t))
}

// A settlement goes on when the visitor has disconnected, bounded by WithTimeout.
func TestSettlementsOutliveVisitors(t *testing.T) {
	for name, opt := range map[string]httplimit.Option{
		"handler": httplimit.WithSettle(), "middleware": httplimit.WithActual(bytesSent),
	} {
		l := &account{Left: 10, Check: func(ctx context.Context) {
			at, ok := ctx.Deadline()
			if ctx.Err() != nil || !ok || time.Until(at) > time.Second {
				t.Errorf("%s: %v, until %v", name, ctx.Err(), at)
			}
		}}
		m := newMiddleware(t, l, all, estimated(5), opt, httplimit.WithTimeout(time.Second))
		ctx, leave := context.WithCancel(t.Context())
		m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			leave()
			if name == "handler" {
				redistest.NoError(t, httplimit.Settle(r.Context(), 0))
			}
		})).ServeHTTP(httptest.NewRecorder(), get(t).WithContext(ctx))
		l.Wants(t, 10, 0)
	}
}

// A settlement that Redis does not answer says how long it waited.
func TestASettlementWithoutAnAnswerNamesItsTimeout(t *testing.T) {
	waits := func(ctx context.Context) { <-ctx.Done() }
	l := &account{Left: 10, Fails: context.DeadlineExceeded, Check: waits}
	m := newMiddleware(t, l, all, httplimit.WithSettle(), httplimit.WithTimeout(time.Millisecond))
	m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		const want = "settling: no answer within 1ms: context deadline exceeded"
		if err := httplimit.Settle(r.Context(), 0); err == nil || err.Error() != want {
			t.Errorf("error is %v, want %s", err, want)
		}
	})).ServeHTTP(httptest.NewRecorder(), get(t))
}

// The hook for errors gets those of settlements; the visitor does not notice.
func TestErrorsOfSettlementsReachTheHook(t *testing.T) {
	for name, opt := range map[string]httplimit.Option{
		"handler": httplimit.WithSettle(), "middleware": httplimit.WithActual(bytesSent),
	} {
		var seen []httplimit.Decision
		m := newMiddleware(t, &account{Left: 10, Fails: errSecret}, keyIs("alice", nil), estimated(5), opt,
			httplimit.WithErrorHook(func(_ *http.Request, d httplimit.Decision) { seen = append(seen, d) }))
		w := httptest.NewRecorder()
		m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if name == "handler" && !errors.Is(httplimit.Settle(r.Context(), 1), errSecret) {
				t.Error("Settle hides its error")
			}
		})).ServeHTTP(w, get(t))
		status(t, w, http.StatusOK)
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
			get := listen(t, m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Tokens", "7")
				test.send(t, w)
			})))
			get()
			sent := <-done
			if sent.Status != test.status || sent.Bytes != test.bytes || sent.Header.Get("X-Tokens") != "7" {
				t.Errorf("%+v, want status %d and %d bytes", sent, test.status, test.bytes)
			}
		})
	}
}
