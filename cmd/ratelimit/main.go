// Command ratelimit is a service of Envoy's rate limit protocol whose limits are those of package
// rratelimiter: gateways, services in Go and, by Redisson, services in Java share them. It takes the place of
// the reference service, github.com/envoyproxy/ratelimit: docs/envoy.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	_ "time/tzdata" // for --calendar: an image may have no time zones

	"github.com/caarlos0/env/v11"
	"github.com/redis/go-redis/v9/logging"

	"github.com/redisson-go/rratelimiter/internal/words"
)

func main() {
	logging.Disable() // go-redis returns the same as errors
	if os.Getenv("GOGC") == "" {
		// The heap is small, so that the default collects many times a second, at a tenth of the CPU or more.
		debug.SetGCPercent(200)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	os.Exit(run(ctx, env.ToMap(os.Environ()), os.Args[1:], os.Stdout, os.Stderr))
}

// run serves until ctx ends, and returns the exit code.
func run(
	ctx context.Context, environment map[string]string, args []string, stdout, stderr io.Writer,
) int {
	s, err := readSettings(environment, args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil && s.version {
		fmt.Fprintln(stdout, "ratelimit", words.Version())
		return 0
	}
	if err == nil {
		err = serve(ctx, s, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "ratelimit: %s\n", words.WithoutPasswords(err.Error()))
		return 1
	}
	return 0
}
