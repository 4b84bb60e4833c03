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
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/internal/admission/admissiontest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/test/fixtures"
)

type account = fixtures.Account

// estimated returns an option for a cost of n.
func estimated(n int64) httplimit.Option {
	return httplimit.WithCost(func(*http.Request) (int64, error) { return n, nil })
}

// bytesSent is the cost of a response by its bytes.
func bytesSent(_ *http.Request, sent httplimit.Response) int64 { return sent.Bytes }

// Each request is settled as the table says, and the hook gets the errors.
func TestSettlements(t *testing.T) {
	admissiontest.PlaySettlements(t, httplimit.Settle, func(
		t *testing.T, s admissiontest.Settlement, keyed limit.Keyed[*account], handler func(context.Context),
	) (told []error) {
		opts := []httplimit.Option{httplimit.WithSettle(), estimated(s.Cost), httplimit.WithErrorHook(
			func(_ *http.Request, d httplimit.Decision) {
				if told = append(told, d.Err); d.Key != "all" || d.Cost != s.Cost || d.Status != 0 {
					t.Errorf("the hook received %+v", d)
				}
			})}
		if s.Actual != nil {
			opts = append(opts, httplimit.WithActual(
				func(*http.Request, httplimit.Response) int64 { return s.Actual[0] }))
		}
		if s.Shadow {
			opts = append(opts, httplimit.WithShadow())
		}
		m, w := newMiddleware(t, keyed, all, opts...), httptest.NewRecorder()
		m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			handler(r.Context())
		})).ServeHTTP(w, get(t))
		status(t, w, http.StatusOK)
		return told
	})
}

// A broken is an account from which nothing can be reserved.
type broken struct{ *account }

func (broken) TryReserve(context.Context, int64) (*limit.Reservation, limit.Result, error) {
	return nil, limit.Result{}, errSecret
}

// A request that FallbackAllow has passed has nothing to settle, and that is no error.
func TestAPassedRequestSettlesNothing(t *testing.T) {
	m := newMiddleware(t, limit.Shared(broken{&account{}}), all, httplimit.WithSettle(), estimated(10),
		httplimit.WithFallback(httplimit.FallbackAllow))
	w := httptest.NewRecorder()
	m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		redistest.NoError(t, httplimit.Settle(r.Context(), 3))
	})).ServeHTTP(w, get(t))
	status(t, w, http.StatusOK)
}

// Of several limits the estimates count after a panic, whatever WithActual returns; so do those of rules
// without an option that settles.
func TestEstimatesOfSeveralLimitsCount(t *testing.T) {
	const text = "rules: [{name: a, cost: 10, settle: true, limits: [{rate: 100/1h}]}]"
	synctest.Test(t, func(t *testing.T) {
		c := rratelimiter.New(redistest.MiniClient(t, redistest.Mini(t)))
		defer c.Close()
		limiter := func(name string) *rratelimiter.RateLimiter {
			return c.RateLimiter(name).WithRate(100, time.Hour)
		}
		both := c.All(limiter("a"), limiter("b"))
		more := httplimit.WithActual(func(*http.Request, httplimit.Response) int64 { return 50 })
		for _, test := range []struct {
			m      *httplimit.Middleware
			panics bool
			left   string
		}{
			{newRules(t, rulesOf(t, text), more), true, `"a";r=80;t=3600`},
			{newMiddleware(t, limit.Shared(both), all, estimated(10), more), true,
				`"limit-1";r=80;t=3600, "limit-2";r=80;t=3600`},
			{newRules(t, rulesOf(t, text)), false, `"a";r=80;t=3600`},
		} {
			func() {
				defer func() { _ = recover() }()
				test.m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					if test.panics {
						panic(http.ErrAbortHandler)
					}
					err := httplimit.Settle(r.Context(), 0)
					if !errors.Is(err, limit.ErrNoReservation) {
						t.Errorf("%v, want ErrNoReservation", err)
					}
				})).ServeHTTP(httptest.NewRecorder(), get(t))
			}()
			header(t, visit(test.m, get(t)).Header(), map[string]string{"RateLimit": test.left})
		}
	})
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
		"then a panic": {func(_ *testing.T, w http.ResponseWriter) {
			fmt.Fprint(w, "text")
			panic(http.ErrAbortHandler)
		}, 200, 4},
		"a panic": {func(*testing.T, http.ResponseWriter) { panic(http.ErrAbortHandler) }, 0, 0},
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
			m := newMiddleware(t, newMemory(t, 1, time.Hour), all, httplimit.WithActual(
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
			_, _ = send(t, http.DefaultTransport, outgoing(t, http.MethodGet, server.URL, nil)) // or a panic
			sent := <-done
			if sent.Status != test.status || sent.Bytes != test.bytes || sent.Header.Get("X-Tokens") != "7" {
				t.Errorf("%+v, want status %d and %d bytes", sent, test.status, test.bytes)
			}
		})
	}
}
