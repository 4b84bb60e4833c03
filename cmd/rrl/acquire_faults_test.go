package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// outstanding returns the permits of api that are taken.
func outstanding(t *testing.T, s *redistest.Server) int64 {
	t.Helper()
	l := redistest.Must(inspect.Read(t.Context(), s.Client(t), "api", inspect.Few))(t)
	return l.Shared().Outstanding
}

// interruptedAsking interrupts a command when it has written a key of the server, and does not know
// that yet. It expects that the command says nothing.
func interruptedAsking(t *testing.T, s *redistest.Server, key string, args ...string) {
	t.Helper()
	proxy := redistest.StartProxy(t, s.Addr)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	proxy.Delay(50 * time.Millisecond) // of the reply, too
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		for ctx.Err() == nil && s.Admin().Exists(ctx, key).Val() == 0 {
			runtime.Gosched()
		}
		cancel()
	}()
	code, stdout, stderr := rrl(ctx, append([]string{"--redis", proxy.Addr}, args...)...)
	cancel()
	<-taken
	if code != exitInterrupted || stdout != "" {
		t.Errorf("code %d, printed\n%s\n%s", code, stdout, stderr)
	}
}

// A call that is interrupted while it does not know yet that it was granted leaves no permits taken, and runs
// nothing.
func TestInterruptedWhileAsking(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"acquire", "api"}, {"acquire", "api", "--", "echo", "ran"},
		{"acquire", "api", "--timeout", "1m"}, {"acquire", "api", "--wait", "--", "echo", "ran"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			s := fives(t)
			interruptedAsking(t, s, "{api}:permits", args...)
			redistest.Until(t, "the permits come back", func() error {
				if n := outstanding(t, s); n != 0 {
					return fmt.Errorf("%d are taken", n)
				}
				return nil
			})
		})
	}
}

// A result that cannot be printed is none: the permits go back.
func TestResultThatCannotBePrinted(t *testing.T) {
	t.Parallel()
	s := fives(t)
	full := unwritable{errors.New("no space left on device")}
	for _, c := range []struct {
		args           []string
		stdout, stderr io.Writer
	}{
		{[]string{"acquire", "api"}, full, io.Discard},
		{[]string{"acquire", "api", "--json"}, full, io.Discard},
		{[]string{"acquire", "api", "--json", "--", "true"}, io.Discard, full},
	} {
		args := append([]string{"--redis", s.Addr}, c.args...)
		if code := run(t.Context(), args, nil, c.stdout, c.stderr); code != exitError {
			t.Errorf("%q: code %d", c.args, code)
		}
		if n := outstanding(t, s); n != 0 {
			t.Errorf("%q: %d permits are taken", c.args, n)
		}
	}
}

type unwritable struct{ err error }

func (u unwritable) Write([]byte) (int, error) { return 0, u.err }

// A PER_CLIENT limiter whose type changes is asked about: what its clients hold cannot be counted. And
// update leaves type and keep alive as they are.
func TestTypesThatChange(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	steps(t, server, "",
		step{"set own 2 1h --per-client --keep-alive 3h", 0, "PER_CLIENT, keep alive 3h", ""},
		step{"acquire own -n 2 --id svc", 0, "granted", ""},
		step{"set own 2 1h", 2, "", "nothing was done"},
		step{"acquire own --id svc", 1, "refused", ""},
		step{"update own 3 1h --keep-state --id svc", 0, "3 permits per 1h, PER_CLIENT, keep alive 3h", ""},
		step{"update own 3 1h --keep-state --id svc --keep-alive 0", 0, "3 permits per 1h, PER_CLIENT", ""},
		step{"update own 3 1h --per-client=false --yes", 0, "OVERALL", ""},
		step{"update nothing 3 1h", 1, "no rate is set", ""},
	)
}
