package httplimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	return redistest.Must(httplimit.NewRetryAfterTransport(next, opts...))(t)
}

// A script is a transport with these responses, and 200 after them.
type script struct {
	mu        sync.Mutex // guards all that follows
	responses []*http.Response
	times     []time.Time
	bodies    []string
}

// want expects when requests arrived.
func (s *script) want(t *testing.T, start time.Time, want ...time.Duration) {
	t.Helper()
	var got []time.Duration
	for _, at := range s.times {
		got = append(got, at.Sub(start))
	}
	if !slices.Equal(got, want) {
		t.Errorf("requests arrived at %v, want %v", got, want)
	}
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times = append(s.times, time.Now())
	sent := ""
	if r.Body != nil {
		all, err := io.ReadAll(r.Body)
		if err := errors.Join(err, r.Body.Close()); err != nil {
			return nil, err
		}
		sent = string(all)
	}
	s.bodies = append(s.bodies, sent)
	if len(s.responses) == 0 {
		return response(http.StatusOK), nil
	}
	first := s.responses[0]
	s.responses = s.responses[1:]
	return first, nil
}

// delayed returns the delay of a request after a response, with a maximum of an hour.
func delayed(t *testing.T, first *http.Response) time.Duration {
	t.Helper()
	s := &script{responses: []*http.Response{first}}
	transport := newRetryAfter(t, s, httplimit.WithMaxDelay(time.Hour))
	mustGet(t, transport, apiURL)
	mustGet(t, transport, apiURL)
	return s.times[1].Sub(s.times[0])
}

// A refusal delays the next request to its host, whatever fields contain the time.
func TestRefusalDelaysTheNextRequest(t *testing.T) {
	const none = 0
	began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of a bubble
	f := func(fields ...string) []string { return fields }
	date := func(d time.Duration) string { return began.Add(d).UTC().Format(http.TimeFormat) }
	// A bubble is in the year 2000, whose Unix times have 9 digits; the server is not.
	server := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	unix := func(d time.Duration, ms string) []string {
		return f("Date", server.Format(http.TimeFormat),
			"X-RateLimit-Reset", strconv.FormatInt(server.Add(d).Unix(), 10)+ms)
	}
	for name, test := range map[string]struct {
		code   int
		fields []string
		want   time.Duration
	}{
		"seconds":      {429, f("Retry-After", "3"), 3 * time.Second},
		"503":          {503, f("Retry-After", "3"), 3 * time.Second},
		"200":          {200, f("Retry-After", "3"), none},
		"0 seconds":    {429, f("Retry-After", "0", "RateLimit", `"a";r=0;t=9`), none},
		"no field":     {429, f(), none},
		"rubbish":      {429, f("Retry-After", "soon"), none},
		"below 0":      {429, f("Retry-After", "-3"), none},
		"a fraction":   {429, f("Retry-After", "0.493"), 493 * time.Millisecond},
		"two dots":     {429, f("Retry-After", "1.5.2"), none},
		"an exponent":  {429, f("Retry-After", "1e1"), none},
		"for too long": {429, f("Retry-After", "86400"), 10 * time.Minute},
		"for ever":     {429, f("Retry-After", strings.Repeat("9", 99)), 10 * time.Minute},
		"a date":       {429, f("Retry-After", date(5*time.Second)), 5 * time.Second},
		"a date past":  {429, f("Retry-After", date(-5*time.Second)), none},
		"a date of another clock": {429, f(
			"Date", date(-time.Hour), "Retry-After", date(-time.Hour+7*time.Second)), 7 * time.Second},
		"draft 11, after": {
			429, f("Retry-After", "2", "RateLimit", `"a";r=0;t=4`), 2 * time.Second},
		"draft 11, several": {
			429, f("RateLimit", `"a";r=5;t=9, "b,;";t=4;r=0,"c";r=0;t=3`), 4 * time.Second},
		"draft 6": {
			429, f("RateLimit-Remaining", "0", "RateLimit-Reset", "6"), 6 * time.Second},
		"draft 6, a fraction":   {429, f("RateLimit-Reset", "6.5"), 6500 * time.Millisecond},
		"draft 6, no remaining": {429, f("RateLimit-Reset", "6"), 6 * time.Second},
		"draft 6, some left": {
			429, f("RateLimit-Remaining", "1", "RateLimit-Reset", "6"), none},
		"X, seconds": {
			429, f("X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "8"), 8 * time.Second},
		"X, Unix time, a fraction": {429, unix(9*time.Second, ".250"), 9250 * time.Millisecond},
		"X, some left": {
			429, f("X-RateLimit-Remaining", "10", "X-RateLimit-Reset", "8"), none},
		"X, seconds, the most":  {429, f("X-RateLimit-Reset", "999999999"), 10 * time.Minute},
		"X, a time of long ago": {429, unix(-time.Second, ""), none},
		"X, far away": {
			429, f("X-RateLimit-Reset", strings.Repeat("9", 18)), 10 * time.Minute},
		"X, a date":          {429, f("X-RateLimit-Reset", date(5*time.Second)), 5 * time.Second},
		"X, Unix time":       {429, unix(9*time.Second, ""), 9 * time.Second},
		"X, Unix time in ms": {429, unix(9*time.Second, "000"), 9 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			if got := delayed(t, response(test.code, test.fields...)); got != test.want {
				t.Errorf("%s: delayed for %v, want %v", name, got, test.want)
			}
		})
	}
}

func TestRefusalDelaysOneHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{responses: []*http.Response{response(429, "Retry-After", "30")}}
		h, start := newRetryAfter(t, s), time.Now()
		for _, url := range []string{"http://a", "http://b", "http://A"} {
			mustGet(t, h, url)
		}
		s.want(t, start, 0, 0, 30*time.Second)
	})
}

// Hosts whose pause has ended do not stay in memory: a program may call millions of them.
func TestEndedPausesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newRetryAfter(t, transport(func(*http.Request) (*http.Response, error) {
			return response(429, "Retry-After", "9"), nil
		}))
		for i := range 1000 {
			mustGet(t, h, "http://"+strconv.Itoa(i))
			time.Sleep(time.Second)
		}
		if n := h.Paused(); n > 128 {
			t.Errorf("%d hosts are remembered", n)
		}
	})
}

// A request that would be delayed for too long is not sent, and its body is closed: it fails at once
// with ErrWait, or when its context ends.
func TestTooLongDelayDoesNotSend(t *testing.T) {
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
			s := &script{responses: []*http.Response{response(429, "Retry-After", "61")}}
			h := newRetryAfter(t, s, test.opts...)
			if code := mustGet(t, h, apiURL); code != 429 {
				t.Errorf("%s: %d", name, code)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			b, start := newBody("x"), time.Now()
			_, err := send(t, h, outgoing(t, http.MethodPost, apiURL, b).WithContext(ctx))
			took := time.Since(start)
			if !errors.Is(err, test.want) || took != test.took || !b.closed || len(s.times) != 1 {
				t.Errorf("%s: %v after %v, closed %v, sent %d", name, err, took, b.closed, len(s.times))
			}
		})
	}
}

// Replayable requests are sent again with their bodies, as often as WithRetries allows, and the bodies of
// refusals, which may never end, are closed unread. There is no retry without a time, or after too long.
func TestReplayableRequestsAreRetried(t *testing.T) {
	text := func() io.Reader { return strings.NewReader("text") } // has a GetBody
	keyed := func(r *http.Request) { r.Header.Set("Idempotency-Key", "k") }
	noMethod := func(r *http.Request) { r.Method = "" }
	noBody := func(r *http.Request) { r.GetBody = func() (io.ReadCloser, error) { return nil, errSecret } }
	for name, test := range map[string]struct {
		method   string
		body     io.Reader
		change   func(*http.Request)
		refusals int
		wait     string
		sent     int
	}{
		"get":                 {http.MethodGet, nil, nil, 2, "2", 3},
		"no method is get":    {http.MethodGet, nil, noMethod, 1, "2", 2},
		"three times at most": {http.MethodGet, nil, nil, 9, "2", 3},
		"put with a body":     {http.MethodPut, text(), nil, 1, "2", 2},
		"put, an empty body":  {http.MethodPut, http.NoBody, nil, 1, "2", 2},
		"put, no GetBody":     {http.MethodPut, newBody("text"), nil, 1, "2", 1},
		"put, GetBody fails":  {http.MethodPut, text(), noBody, 1, "2", 1},
		"post":                {http.MethodPost, text(), nil, 1, "2", 1},
		"post with a key":     {http.MethodPost, text(), keyed, 1, "2", 2},
		"no time":             {http.MethodGet, nil, nil, 1, "", 1},
		"too long":            {http.MethodGet, nil, nil, 1, "61", 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, refusals := &script{}, []*http.Response{}
			for range test.refusals {
				refusals = append(refusals, response(429, "Retry-After", test.wait))
			}
			s.responses = append(s.responses, refusals...)
			r := outgoing(t, test.method, apiURL, test.body)
			if test.change != nil {
				test.change(r)
			}
			start, want := time.Now(), http.StatusOK
			if test.sent <= test.refusals {
				want = http.StatusTooManyRequests
			}
			h := newRetryAfter(t, s, httplimit.WithRetries(2))
			if code, err := send(t, h, r); code != want || err != nil {
				t.Errorf("%s: %d, %v", name, code, err)
			}
			t.Log(name)
			s.want(t, start, []time.Duration{0, 2 * time.Second, 4 * time.Second}[:test.sent]...)
			if slices.ContainsFunc(s.bodies, func(b string) bool { return b != s.bodies[0] }) {
				t.Errorf("bodies %q", s.bodies)
			}
			for i := range min(test.sent, test.refusals) {
				if b, _ := refusals[i].Body.(*body); !b.closed {
					t.Errorf("the body of refusal %d is open", i)
				}
			}
		})
	}
}

// If the context ends before a retry, the new body is closed.
func TestRetryEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b := newBody("x")
		r := outgoing(t, http.MethodPut, apiURL, nil).WithContext(ctx)
		r.Body, r.GetBody = newBody("x"), func() (io.ReadCloser, error) { return b, nil }
		s := &script{responses: []*http.Response{response(429, "Retry-After", "2")}}
		_, err := send(t, newRetryAfter(t, s, httplimit.WithRetries(5)), r)
		if !errors.Is(err, context.DeadlineExceeded) || !b.closed || len(s.times) != 1 {
			t.Errorf("%v, closed %v, sent %d times", err, b.closed, len(s.times))
		}
	})
}

// With a Pacer behind it, each retry takes a permit.
func TestEachRetryTakesAPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, start := &script{responses: []*http.Response{response(429, "Retry-After", "1")}}, time.Now()
		pacer := redistest.Must(httplimit.NewPacer(s, newMemory(t, 1, time.Minute)))(t)
		mustGet(t, newRetryAfter(t, pacer, httplimit.WithRetries(2)), apiURL)
		s.want(t, start, 0, time.Minute)
	})
}

// RateLimit is parsed by draft 11, and a malformed field is ignored (section 7).
func TestReadDraft11(t *testing.T) {
	for field, want := range map[string]time.Duration{
		`"a";r=0;t=7`:                        7 * time.Second,
		`"a";t=7;r=0`:                        7 * time.Second,
		`"a"; r=0; t=7`:                      7 * time.Second,
		`"a";r=0;t=7;pk=:cHsd:;x="r=9;t=99"`: 7 * time.Second,
		`"a";r=0;t=7,"b";r=0;t=8`:            8 * time.Second,
		`"a";r=0;t=0`:                        0,
		`"a\";r=0;t=7"`:                      -1,
		`"a\\";r=0;t=7`:                      7 * time.Second,
		`"a";r=1;t=7`:                        -1,
		`"a";r=0`:                            -1,
		`"a";t=7`:                            -1,
		`"a";r="0";t=7`:                      -1,
		`"a";r=-1;t=7`:                       -1,
		`"a";r=0;t=?1`:                       -1,
		`"a";r=0;t=4.5`:                      -1,
		`"a";r=0;t=4, "b`:                    -1,
		`a;r=0;t=4`:                          4 * time.Second,
		`"a";r=0;t=1000000000000000`:         -1,
		`"a";r=0;t=999999999999999`:          1_000_000_000 * time.Second,
		`"a`:                                 -1,
		``:                                   -1,
	} {
		got, ok := httplimit.ReadDraft11(field)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%s: %v, %v, want %v", field, got, ok, want)
		}
	}
}

// Whatever a server sends, there is a time of 0 or more, or none.
func FuzzReadDraft11(f *testing.F) {
	f.Add(`"a;,";r=0;t=7;t=8 ,	b;x="\"\\";t=1;r=0`)
	f.Add(strings.Repeat(`;`, 1000))
	f.Add(`\"`)
	f.Fuzz(func(t *testing.T, field string) {
		if d, ok := httplimit.ReadDraft11(field); d < 0 || !ok && d != 0 {
			t.Fatalf("%q: %v, %v", field, d, ok)
		}
	})
}
