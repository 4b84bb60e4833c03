package rules_test

import (
	"context"
	"fmt"
	"os"

	"github.com/redisson-go/rratelimiter/limit/rules"
)

func Example() {
	data, err := os.ReadFile("testdata/rules.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := rules.Parse(data)
	if err != nil {
		fmt.Println(err) // each mistake with its line
		return
	}
	limits, err := rules.New(rules.InMemory(), set)
	if err != nil {
		fmt.Println(err)
		return
	}
	export := rules.Call{
		Method: "POST", Path: "/export",
		Header: func(string) []string { return []string{"acme"} }, // that of X-Tenant
	}
	for range 6 {
		g, err := limits.Allow(context.Background(), export, 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(g.Allowed, g.Policy, g.Remaining)
	}
	// Output:
	// true export 40
	// true export 30
	// true export 20
	// true export 10
	// true export 0
	// false export 0
}

func ExampleParse() {
	_, err := rules.Parse([]byte(`
rules:
  - name: search
    match: {route: /search}
    limits:
      - rate: -1/1m
      - {name: day, rate: 100, per: hourly, burst: 5}
`))
	fmt.Println(err)
	// Output:
	// line 6: rate is -1, must be 1 to 2^40
	// line 6: a limit has no name, must have one where a rule has several
	// line 7: per is "hourly", must be day, week, month, year, or a time such as 30s, 1m or 24h
	// line 7: burst is not for rratelimiter
}
