package rratelimiter_test

import (
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// withExamples is a test run with a server for the examples.
type withExamples struct{ m *testing.M }

var exampleAddr string

func (w withExamples) Run() int {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		panic(err)
	}
	exampleAddr = server.Addr()
	code := w.m.Run()
	for _, c := range exampleClosers {
		c()
	}
	server.Close()
	return code
}

// What is left for Run to close, so that the examples need not show it.
var exampleClosers []func()

func exampleRedis() *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	exampleClosers = append(exampleClosers, func() { _ = rdb.Close() })
	return rdb
}

func exampleClient() *rratelimiter.Client { return rratelimiter.New(exampleRedis()) }

// The wait that a visitor is told is in whole seconds, never too few. For a refusal
// it is never none.
func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 1: "1", time.Millisecond: "1", time.Second: "1", time.Second + 1: "2",
		59*time.Second + 999*time.Millisecond: "60",
		time.Hour:                             "3600", math.MaxInt64: "9223372037",
	} {
		if got := seconds(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestRefusedForLessThanASecond(t *testing.T) {
	m := redistest.Mini(t)
	b := newBench(t, redistest.MiniClient(t, m), redistest.MiniClient(t, m))
	l := b.limiter(overall, 1, time.Second)
	l.takes(1)
	handler := limit(l.RateLimiter, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("next was called")
	}))
	for _, ms := range []int64{0, 1, 998} {
		b.now += ms
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if got := w.Header().Get("Retry-After"); w.Code != http.StatusTooManyRequests || got != "1" {
			t.Errorf("%d, to be tried again after %q s, want 429 and 1 s", w.Code, got)
		}
	}
}
