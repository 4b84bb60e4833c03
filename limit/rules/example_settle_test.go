package rules_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/rules"
)

// A server whose requests are settled with what they used.
func Example_settle() {
	set, err := rules.Parse([]byte(`
rules:
  - {name: calls, also: true, limits: [{rate: 100/1m}]}
  - {name: tokens, cost: 500, settle: true, limits: [{rate: 20000/1h}]}
`))
	if err != nil {
		panic(err)
	}
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	clock := limit.WithClock(func() time.Time { return noon })
	limits, err := rules.New(rules.InMemory(clock), set) // or rules.OnRedis(client, rdb, "shop")
	if err != nil {
		panic(err)
	}
	user := func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }
	middleware, err := httplimit.NewRules(limits, user, httplimit.WithSettle())
	if err != nil {
		panic(err)
	}
	answer := middleware.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if err := httplimit.Settle(r.Context(), 120); err != nil { // the tokens of the answer
			panic(err)
		}
	}))
	for range 2 {
		w := httptest.NewRecorder()
		answer.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(w.Header().Get("RateLimit"))
	}
	// Output:
	// "calls";r=99;t=60, "tokens";r=19500;t=3600
	// "calls";r=98;t=60, "tokens";r=19380;t=3600
}
