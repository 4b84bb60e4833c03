package httplimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func newRetryAfter(
	t *testing.T, next http.RoundTripper, opts ...httplimit.RetryAfterOption,
) *httplimit.RetryAfterTransport {
	t.Helper()
	h := redistest.Must(httplimit.NewRetryAfterTransport(next, opts...))(t)
	return h
}

// A script is a transport that answers with these responses, and with 200 after them.
type script struct {
	answers []*http.Response
	times   []time.Time
	bodies  []string
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	s.times = append(s.times, time.Now())
	sent := ""
	if r.Body != nil {
		all, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		sent = string(all)
		if err := r.Body.Close(); err != nil {
			return nil, err
		}
	}
	s.bodies = append(s.bodies, sent)
	if len(s.answers) == 0 {
		return answer(http.StatusOK), nil
	}
	first := s.answers[0]
	s.answers = s.answers[1:]
	return first, nil
}

// A refusal, in all its forms, delays the next request to that host.
func TestRetryAfterReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const none = 0
		began := time.Now()
		date := func(d time.Duration) string { return began.Add(d).UTC().Format(http.TimeFormat) }
		// A bubble is in the year 2000, whose Unix times have 9 digits: the server is not.
		server := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
		unix := func(d time.Duration, ms string) []string {
			return fieldsOf("Date", server.Format(http.TimeFormat),
				"X-RateLimit-Reset", strconv.FormatInt(server.Add(d).Unix(), 10)+ms)
		}
		for name, test := range map[string]struct {
			code   int
			fields []string
			want   time.Duration
		}{
			"seconds":      {429, fieldsOf("Retry-After", "3"), 3 * time.Second},
			"503":          {503, fieldsOf("Retry-After", "3"), 3 * time.Second},
			"200":          {200, fieldsOf("Retry-After", "3"), none},
			"403":          {403, fieldsOf("Retry-After", "3"), none},
			"0 seconds":    {429, fieldsOf("Retry-After", "0", "RateLimit", `"a";r=0;t=9`), none},
			"no field":     {429, fieldsOf(), none},
			"rubbish":      {429, fieldsOf("Retry-After", "soon"), none},
			"below 0":      {429, fieldsOf("Retry-After", "-3"), none},
			"a fraction":   {429, fieldsOf("Retry-After", "1.5"), none},
			"for too long": {429, fieldsOf("Retry-After", "86400"), 10 * time.Minute},
			"for ever":     {429, fieldsOf("Retry-After", strings.Repeat("9", 99)), 10 * time.Minute},
			"a date":       {429, fieldsOf("Retry-After", date(5*time.Second)), 5 * time.Second},
			"a date past":  {429, fieldsOf("Retry-After", date(-5*time.Second)), none},
			"a date of another clock": {429, fieldsOf(
				"Date", date(-time.Hour), "Retry-After", date(-time.Hour+7*time.Second)), 7 * time.Second},
			"draft 11": {429, fieldsOf("RateLimit", `"a";r=0;t=4`), 4 * time.Second},
			"draft 11, after": {
				429, fieldsOf("Retry-After", "2", "RateLimit", `"a";r=0;t=4`), 2 * time.Second},
			"draft 11, several": {
				429, fieldsOf("RateLimit", `"a";r=5;t=9, "b,;";t=4;r=0,"c";r=0;t=3`), 4 * time.Second},
			"draft 11, some left":  {429, fieldsOf("RateLimit", `"a";r=1;t=4`), none},
			"draft 11, no t":       {429, fieldsOf("RateLimit", `"a";r=0`), none},
			"draft 11, quote open": {429, fieldsOf("RateLimit", `"a";r=0;t=4, "b`), none},
			"draft 11, no integer": {429, fieldsOf("RateLimit", `"a";r=0;t=4.5`), none},
			"draft 11, a token":    {429, fieldsOf("RateLimit", `a;r=0;t=4`), 4 * time.Second},
			"draft 6": {
				429, fieldsOf("RateLimit-Remaining", "0", "RateLimit-Reset", "6"), 6 * time.Second},
			"draft 6, no remaining": {429, fieldsOf("RateLimit-Reset", "6"), 6 * time.Second},
			"draft 6, some left": {
				429, fieldsOf("RateLimit-Remaining", "1", "RateLimit-Reset", "6"), none},
			"X, seconds": {
				429, fieldsOf("X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "8"), 8 * time.Second},
			"X, some left": {
				429, fieldsOf("X-RateLimit-Remaining", "10", "X-RateLimit-Reset", "8"), none},
			"X, seconds, the most":  {429, fieldsOf("X-RateLimit-Reset", "999999999"), 10 * time.Minute},
			"X, a time of long ago": {429, unix(-time.Second, ""), none},
			"X, far away": {
				429, fieldsOf("X-RateLimit-Reset", strings.Repeat("9", 18)), 10 * time.Minute},
			"X, a date":          {429, fieldsOf("X-RateLimit-Reset", date(5*time.Second)), 5 * time.Second},
			"X, Unix time":       {429, unix(9*time.Second, ""), 9 * time.Second},
			"X, Unix time in ms": {429, unix(9*time.Second, "000"), 9 * time.Second},
		} {
			test.fields = append(fieldsOf("Date", date(0)), test.fields...) // which the table may replace
			s := &script{answers: []*http.Response{answer(test.code, test.fields...)}}
			h := newRetryAfter(t, s, httplimit.WithMaxDelay(time.Hour))
			for range 2 {
				if _, err := send(t, h, outgoing(t, http.MethodGet, nil)); err != nil {
					t.Error(err)
				}
			}
			if got := s.times[1].Sub(s.times[0]); got != test.want {
				t.Errorf("%s: delayed for %v, want %v", name, got, test.want)
			}
		}
	})
}

func fieldsOf(fields ...string) []string { return fields }

// A date without the Date of the response is compared with the clock of the client.
func TestRetryAfterComparesWithTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(5 * time.Second).UTC().Format(http.TimeFormat)
		s := &script{answers: []*http.Response{answer(429, "Retry-After", at)}}
		h := newRetryAfter(t, s)
		for range 2 {
			if _, err := send(t, h, outgoing(t, http.MethodGet, nil)); err != nil {
				t.Error(err)
			}
		}
		if got := s.times[1].Sub(s.times[0]); got != 5*time.Second {
			t.Errorf("delayed for %v", got)
		}
	})
}

// A host that asked for a pause gets it; other hosts are not paused.
func TestRetryAfterPausesAHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []*http.Response{answer(429, "Retry-After", "30")}}
		h, start := newRetryAfter(t, s), time.Now()
		for _, host := range []string{"a", "b", "A"} {
			r := outgoing(t, http.MethodGet, nil)
			r.URL.Host = host
			if _, err := send(t, h, r); err != nil {
				t.Error(err)
			}
		}
		if s.times[1].Sub(start) != 0 || s.times[2].Sub(start) != 30*time.Second {
			t.Errorf("%v", s.times)
		}
	})
}

// Hosts whose pause has ended are forgotten: a program may meet millions of them.
func TestRetryAfterForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := transport(func(*http.Request) (*http.Response, error) {
			return answer(429, "Retry-After", "9"), nil
		})
		h := newRetryAfter(t, refuse)
		for i := range 1000 {
			r := outgoing(t, http.MethodGet, nil)
			r.URL.Host = strconv.Itoa(i)
			if _, err := send(t, h, r); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
		}
		if n := h.Paused(); n > 128 {
			t.Errorf("%d hosts are remembered", n)
		}
	})
}

// A request whose delay would be too long is not sent: the error is an ErrWait at once, or
// that of its context. Its body is closed.
func TestRetryAfterDoesNotSend(t *testing.T) {
	for name, test := range map[string]struct {
		opts []httplimit.RetryAfterOption
		want error
		took time.Duration
	}{
		"a minute by default": {nil, httplimit.ErrWait, 0},
		"WithMaxDelay": {
			[]httplimit.RetryAfterOption{httplimit.WithMaxDelay(61*time.Second - 1)}, httplimit.ErrWait, 0},
		"the context ends": {
			[]httplimit.RetryAfterOption{httplimit.WithMaxDelay(61 * time.Second)},
			context.DeadlineExceeded, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{answers: []*http.Response{answer(429, "Retry-After", "61")}}
			h := newRetryAfter(t, s, test.opts...)
			if code, err := send(t, h, outgoing(t, http.MethodGet, nil)); code != 429 || err != nil {
				t.Errorf("%s: %d, %v", name, code, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			b, start := newBody("x"), time.Now()
			_, err := send(t, h, b.request(t).WithContext(ctx))
			took := time.Since(start)
			if !errors.Is(err, test.want) || took != test.took || !b.closed || len(s.times) != 1 {
				t.Errorf("%s: %v after %v, closed %v, sent %d", name, err, took, b.closed, len(s.times))
			}
		})
	}
}

// Replayable requests are sent again with their bodies, as often as WithRetries allows; the
// bodies of refusals are closed.
func TestRetryAfterRetries(t *testing.T) {
	text := func() io.Reader { return strings.NewReader("text") } // has a GetBody
	for name, test := range map[string]struct {
		method   string
		body     io.Reader
		change   func(*http.Request)
		refusals int
		sent     int
	}{
		"get": {method: http.MethodGet, refusals: 2, sent: 3},
		"no method is get": {method: http.MethodGet, refusals: 1, sent: 2,
			change: func(r *http.Request) { r.Method = "" }},
		"no more than that":   {method: http.MethodGet, refusals: 9, sent: 3},
		"put with a body":     {method: http.MethodPut, body: text(), refusals: 1, sent: 2},
		"put with an empty":   {method: http.MethodPut, body: http.NoBody, refusals: 1, sent: 2},
		"put, a body of once": {method: http.MethodPut, body: newBody("text"), refusals: 1, sent: 1},
		"post":                {method: http.MethodPost, body: text(), refusals: 1, sent: 1},
		"post with a key": {method: http.MethodPost, body: text(), refusals: 1, sent: 2,
			change: func(r *http.Request) { r.Header.Set("Idempotency-Key", "k") }},
		"put whose body is gone": {method: http.MethodPut, body: text(), refusals: 1, sent: 1,
			change: func(r *http.Request) {
				r.GetBody = func() (io.ReadCloser, error) { return nil, errSecret }
			}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, refusals := &script{}, []*http.Response{}
			for range test.refusals {
				refusals = append(refusals, answer(429, "Retry-After", "2"))
			}
			s.answers = append(s.answers, refusals...)
			r := outgoing(t, test.method, test.body)
			if test.change != nil {
				test.change(r)
			}
			code, err := send(t, newRetryAfter(t, s, httplimit.WithRetries(2)), r)
			want := http.StatusOK
			if test.sent <= test.refusals {
				want = http.StatusTooManyRequests
			}
			if code != want || err != nil || len(s.times) != test.sent {
				t.Errorf("%s: %d, %v, sent %d times", name, code, err, len(s.times))
			}
			for i := range s.times {
				if got := s.times[i].Sub(s.times[0]); got != time.Duration(i)*2*time.Second {
					t.Errorf("%s: sent at %v", name, got)
				}
				if s.bodies[i] != s.bodies[0] {
					t.Errorf("%s: bodies %q", name, s.bodies)
				}
			}
			for i := range min(test.sent, test.refusals) {
				if b, _ := refusals[i].Body.(*body); !b.closed {
					t.Errorf("%s: the body of refusal %d is open", name, i)
				}
			}
		})
	}
}

// There is no retry if the time is unknown or too long, or after an error. The refusal is the
// response then.
func TestRetryAfterGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		for _, refusal := range []*http.Response{answer(429), answer(503), answer(429, "Retry-After", "61")} {
			s := &script{answers: []*http.Response{refusal}}
			transport := newRetryAfter(t, s, httplimit.WithRetries(5))
			code, err := send(t, transport, outgoing(t, http.MethodGet, nil))
			if code != refusal.StatusCode || err != nil || len(s.times) != 1 || time.Since(start) != 0 {
				t.Errorf("%d, %v, sent %d times", code, err, len(s.times))
			}
		}
		fails := transport(func(*http.Request) (*http.Response, error) { return nil, errSecret })
		_, err := send(t, newRetryAfter(t, fails, httplimit.WithRetries(5)), outgoing(t, http.MethodGet, nil))
		if !errors.Is(err, errSecret) {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b := newBody("x")
		r := outgoing(t, http.MethodPut, nil).WithContext(ctx)
		r.Body, r.GetBody = newBody("x"), func() (io.ReadCloser, error) { return b, nil }
		s := &script{answers: []*http.Response{answer(429, "Retry-After", "2")}}
		_, err = send(t, newRetryAfter(t, s, httplimit.WithRetries(5)), r)
		if !errors.Is(err, context.DeadlineExceeded) || !b.closed || len(s.times) != 1 {
			t.Errorf("%v, closed %v, sent %d times", err, b.closed, len(s.times))
		}
	})
}
