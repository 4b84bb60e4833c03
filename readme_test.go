package rratelimiter_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
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

// call returns the status and the header of one call.
func call(handler http.HandlerFunc) string {
	w := httptest.NewRecorder()
	handler(w, httptest.NewRequest(http.MethodGet, "/", nil))
	for name := range w.Header() {
		switch name {
		case "Retry-After":
			w.Header().Set(name, regexp.MustCompile(`^3[56]\d\d$`).ReplaceAllString(w.Header().Get(name), "3600 or so"))
		case "Content-Type", "X-Content-Type-Options":
			w.Header().Del(name)
		}
	}
	return fmt.Sprint(w.Code, " ", w.Header())
}

// The Go blocks of what is written about the library are pieces of the examples,
// which run.
func TestREADME(t *testing.T) {
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	flat := func(code string) string {
		return strings.Join(strings.Fields(strings.ReplaceAll(code, "exampleAddr", `"localhost:6379"`)), " ")
	}
	for file, least := range map[string]int{"README.md": 4, "docs/versions.md": 2} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		if len(blocks) < least {
			t.Fatalf("%d Go blocks in %s", len(blocks), file)
		}
		for _, block := range blocks {
			if !strings.Contains(flat(string(examples)), flat(block[1])) {
				t.Errorf("not in example_test.go:\n%s", block[1])
			}
		}
	}
}
