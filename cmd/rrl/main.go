// Command rrl shows what the rate limiter does. In rrl demo, four callers share five
// permits per second. It prints what each of them gets and when, and what Redis
// holds at the end. It needs no server, but can use one.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/redis/go-redis/v9/logging"
)

const usage = `rrl is the command line of rratelimiter, Redisson's RRateLimiter for Go.

Usage:
  rrl demo [--redis ADDRESS]   four callers share 5 permits per second, live
  rrl version                  print the version
  rrl help                     print this text

The demo runs on a Redis embedded in rrl. With --redis it runs on a real one,
under a name of its own that is deleted at the end. ADDRESS is HOST:PORT, as in
--redis localhost:6379, or a URL, as in --redis redis://:password@localhost:6379/0.
`

// The exit codes, besides 0.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 128 + int(syscall.SIGINT) // as shells do
)

// errUsage marks the errors after which a user should read the usage.
var errUsage = errors.New("run 'rrl help' for usage")

func main() {
	logging.Disable() // go-redis returns the same as errors
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run carries out a command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := dispatch(ctx, args, stdout)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "rrl: interrupted")
		return exitInterrupted
	case errors.Is(err, errUsage):
		fmt.Fprintf(stderr, "rrl: %v\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "rrl: %v\n", err)
	return exitFailed
}

// dispatch runs the command that args name.
func dispatch(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 0 {
		args = []string{"help"}
	}
	switch command, rest := args[0], args[1:]; command {
	case "demo":
		return demo(ctx, rest, stdout)
	case "version", "-version", "--version":
		return put(stdout, version())
	case "help", "-h", "-help", "--help":
		return put(stdout, usage)
	default:
		return fmt.Errorf("unknown command %q; %w", command, errUsage)
	}
}

func put(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

// version returns the line of rrl version: the version of the module as go install
// and go build record it, "(devel)" under go run.
func version() string {
	v := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		v = info.Main.Version
	}
	return fmt.Sprintf("rrl %s %s %s/%s\n", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
