// Command rrl inspects rate limiters and locks of Redisson and rratelimiter, and works with them: on the
// terminal, in scripts, and as a page for the browser. rrl compare shows what limiters admit, without a
// server.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9/logging"

	"github.com/redisson-go/rratelimiter/internal/words"
)

// The exit codes other than 0, which means that permits were granted, a rate was set, a check passed.
const (
	exitNo          = 1
	exitError       = 2
	exitLost        = 3
	exitInterrupted = 128 + int(syscall.SIGINT) // as shells do
)

// errNo is a no that is not an error: refused, not found, not right. The details were printed.
var errNo = errors.New("no")

// An exitCode ends rrl silently with the code of a command that rrl ran.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

func main() {
	logging.Disable() // go-redis returns the same as errors
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run carries out a command line and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: &output{w: stdout}, stderr: stderr}
	return a.run(ctx, args)
}

// run is the function run for one app.
func (a *app) run(ctx context.Context, args []string) int {
	out, stderr := a.stdout, a.stderr
	err := a.execute(ctx, args)
	if err == nil || errors.Is(err, errNo) {
		err = errors.Join(err, out.err)
	}
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case out.err == nil && errors.Is(err, errNo):
		return exitNo
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "rrl: interrupted")
		return exitInterrupted
	}
	text := strings.ReplaceAll(a.explain(err).Error(), "\n", "; ") // of joined errors
	fmt.Fprintf(stderr, "rrl: %s\n", words.Harmless(strings.TrimPrefix(text, "rratelimiter: ")))
	return exitError
}

// An output keeps the first error of a writer, so that callers check only the end, not each line.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(b []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.w.Write(b)
	o.err = err
	return n, err
}
