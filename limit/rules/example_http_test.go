package rules_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/limit/rules"
)

// A server whose limits are in a file, which is read again when it changes.
func Example_server() {
	const file = "testdata/rules.yaml"
	data, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	set, err := rules.Parse(data)
	if err != nil {
		panic(err) // each mistake with its line
	}
	limits, err := rules.New(rules.InMemory(), set) // or rules.OnRedis(client, rdb, "shop")
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go limits.Watch(ctx, file, 10*time.Second, func(err error) {
		if err != nil {
			fmt.Println("the rules stay as they are:", err)
		}
	})
	// user returns the name of the visitor, which another middleware has checked.
	user := func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }
	middleware, err := httplimit.NewRules(limits, user)
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /export", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "exported") })
	server := httptest.NewServer(middleware.Handler(mux)) // http.ListenAndServe(":8080", ...)
	defer server.Close()

	for range 6 {
		request, err := http.NewRequest(http.MethodPost, server.URL+"/export", nil)
		if err != nil {
			panic(err)
		}
		request.Header.Set("X-Tenant", "acme")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			panic(err)
		}
		_ = response.Body.Close()
		fmt.Println(response.StatusCode)
	}
	http.DefaultClient.CloseIdleConnections()
	// Output:
	// 200
	// 200
	// 200
	// 200
	// 200
	// 429
}
