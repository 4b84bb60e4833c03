package main

// modules are the libraries that the page of comparison names.
var modules = map[string]string{
	"XTime":         "golang.org/x/time",
	"XSync":         "golang.org/x/sync",
	"Uber":          "go.uber.org/ratelimit",
	"Failsafe":      "github.com/failsafe-go/failsafe-go",
	"GoLimiter":     "github.com/sethvargo/go-limiter",
	"Ulule":         "github.com/ulule/limiter/v3",
	"Throttled":     "github.com/throttled/throttled/v2",
	"Httprate":      "github.com/go-chi/httprate",
	"HttprateRedis": "github.com/go-chi/httprate-redis",
	"RedisRate":     "github.com/go-redis/redis_rate/v10",
	"Rueidis":       "github.com/redis/rueidis/rueidislimiter",
}

// versions returns their versions.
func versions() map[string]string {
	found := map[string]string{}
	for name, path := range modules {
		found[name] = moduleVersion(path)
	}
	return found
}
