package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/limit"
)

// TestBlocks of the root package compares the Go blocks of docs/http.md with the examples. TestMain
// starts their Redis.

func ExampleByAddressVia() {
	// The proxies of this service, and nothing else: they append to X-Forwarded-For.
	byAddress, err := httplimit.ByAddressVia("10.0.0.0/8", "2001:db8:aaaa::/48")
	if err != nil {
		log.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "10.0.0.1:4711"
	// The visitor wrote the first entry.
	r.Header.Set("X-Forwarded-For", "198.51.100.1, 2001:db8:1:2::3, 10.0.0.2")
	fmt.Println(byAddress(r))
	// Output: 2001:db8:1:2::/64 <nil>
}

func ExampleNew_shared() {
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	// All requests share 1 a minute.
	all := client.RateLimiter("report").WithRate(1, time.Minute)
	m, err := httplimit.New(limit.Shared(all), httplimit.Constant("all"))
	if err != nil {
		log.Fatal(err)
	}
	report := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "made")
	}))
	for range 2 {
		w := httptest.NewRecorder()
		report.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 429
}

func ExampleMiddleware_Admit() {
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	type userKey struct{} // the key of the authenticated user in the context
	key := func(r *http.Request) (string, error) {
		if r.URL.Path == "/healthz" {
			return "", httplimit.ErrNoLimit
		}
		user, ok := r.Context().Value(userKey{}).(string)
		if !ok {
			return "", httplimit.ErrNoKey
		}
		return "user:" + user, nil
	}
	limits := client.Keyed("users", 2, time.Minute)
	m, err := httplimit.New(limits, key)
	if err != nil {
		log.Fatal(err)
	}
	// A framework with another form of middleware, such as gin, calls Admit.
	handle := func(w http.ResponseWriter, r *http.Request) {
		if !m.Admit(w, r) {
			return // the response has been written
		}
		fmt.Fprint(w, "welcome")
	}
	for _, path := range []string{"/healthz", "/search"} {
		w := httptest.NewRecorder()
		handle(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(path, w.Code)
	}
	// Output:
	// /healthz 200
	// /search 400
}

func ExampleWithErrorHook() {
	redisIsAway := limit.Shared(limit.Func(func(context.Context, int64) (limit.Result, error) {
		return limit.Result{}, errors.New("dial tcp 10.1.2.3:6379: connection refused")
	}))
	m, err := httplimit.New(redisIsAway, httplimit.ByAddress(),
		httplimit.WithTimeout(50*time.Millisecond),
		httplimit.WithFallback(httplimit.FallbackAllow),
		httplimit.WithErrorHook(func(_ *http.Request, d httplimit.Decision) {
			fmt.Println("not for the visitor:", d.Err)
		}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Admit(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)))
	// Output:
	// not for the visitor: dial tcp 10.1.2.3:6379: connection refused
	// true
}

func ExampleRetryAfterTransport() {
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	limiters := rratelimiter.New(rdb)
	defer limiters.Close()

	visits := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if visits++; visits == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		fmt.Fprint(w, "welcome back")
	}))
	defer server.Close()

	// Two requests a minute to each host, from all processes together.
	perHost := limiters.Keyed("others", 2, time.Minute)
	pacer, err := httplimit.NewKeyedPacer(nil, perHost, httplimit.ByHost(),
		httplimit.WithMaxWait(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	transport, err := httplimit.NewRetryAfterTransport(pacer, httplimit.WithRetries(2))
	if err != nil {
		log.Fatal(err)
	}
	client := &http.Client{Transport: transport}

	start := time.Now()
	response, err := client.Get(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	fmt.Printf("%d %s %v\n", response.StatusCode, body, err)
	fmt.Println(time.Since(start) >= time.Second)
	// Output:
	// 200 welcome back <nil>
	// true
}

func ExampleWithActual() {
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	// Each API key has 1,000 bytes an hour. A request reserves 400 and counts the bytes of its response.
	perKey := client.Keyed("bytes", 1000, time.Hour)
	m, err := httplimit.New(perKey, httplimit.ByHeader("X-Api-Key"),
		httplimit.WithCost(func(*http.Request) (int64, error) { return 400, nil }),
		httplimit.WithActual(func(_ *http.Request, sent httplimit.Response) int64 { return sent.Bytes }),
		httplimit.WithTimeout(time.Second))
	if err != nil {
		log.Fatal(err)
	}
	handler := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, strings.Repeat("x", 250))
	}))
	for range 4 {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Api-Key", "alice")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// 200 "bytes";r=600;t=3600
	// 200 "bytes";r=350;t=3600
	// 200 "bytes";r=100;t=3600
	// 429 "bytes";r=250;t=3600
}

func ExampleSettle() {
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()

	perKey := client.Keyed("tokens", 1000, time.Hour)
	m, err := httplimit.New(perKey, httplimit.ByHeader("X-Api-Key"), httplimit.WithSettle(),
		httplimit.WithCost(func(*http.Request) (int64, error) { return 400, nil }), // the estimate
		httplimit.WithTimeout(time.Second))
	if err != nil {
		log.Fatal(err)
	}
	answer := func(*http.Request) (text string, tokens int64) { return "42", 120 }
	handler := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, tokens := answer(r)
		if err := httplimit.Settle(r.Context(), tokens); err != nil {
			log.Print(err)
		}
		fmt.Fprintln(w, text)
	}))
	for range 2 {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Api-Key", "alice")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// 200 "tokens";r=600;t=3600
	// 200 "tokens";r=480;t=3600
}

func ExampleWithReserve() {
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	limits := rratelimiter.New(rdb)
	defer limits.Close()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Usage-Tokens", "120")
		fmt.Fprint(w, "an answer")
	}))
	defer service.Close()

	// All processes together have 1,000 tokens an hour.
	tokens := limits.RateLimiter("partner-tokens").WithRate(1000, time.Hour)
	estimate := func(*http.Request) (int64, error) { return 400, nil }
	actual := func(r *http.Response) int64 {
		n, err := strconv.ParseInt(r.Header.Get("X-Usage-Tokens"), 10, 64)
		if err != nil {
			return -1 // unknown: the estimate counts
		}
		return n
	}
	pacer, err := httplimit.NewPacer(nil, tokens, httplimit.WithReserve(estimate, actual))
	if err != nil {
		log.Fatal(err)
	}
	client := &http.Client{Transport: pacer}
	defer client.CloseIdleConnections()
	response, err := client.Get(service.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	fmt.Println(string(text), err)
	fmt.Println(tokens.AvailablePermits(response.Request.Context()))
	// Output:
	// an answer <nil>
	// 880 <nil>
}
