package httplimit_test

import (
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
)

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
