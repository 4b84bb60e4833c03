package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/redisson-go/rratelimiter/grpclimit"
	"github.com/redisson-go/rratelimiter/limit"
)

func emptyCall(ctx context.Context, c testpb.TestServiceClient) error {
	_, err := c.EmptyCall(ctx, &testpb.Empty{})
	return err
}

// A client waits exactly as long as its limiter says, and sends then.
func TestClientWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := saying(refusedFor(3*time.Second), refusedFor(2*time.Second), refusedFor(0), granted)
		s := &service{}
		client := serve(t, s, nil, waiting(f)...)
		noError(t, emptyCall(t.Context(), client))
		got := gaps(f.attempts())
		want := []time.Duration{3 * time.Second, 2 * time.Second, 10 * time.Millisecond}
		if !slices.Equal(got, want) {
			t.Errorf("waited %v", got)
		}
		if calls, _ := s.counted(); calls != 1 {
			t.Errorf("%d calls arrived", calls)
		}
	})
}

// A call that would wait longer than it may is refused at once, and is not sent.
func TestClientDoesNotWaitInVain(t *testing.T) {
	longest := func(d time.Duration) []grpclimit.ClientOption {
		return []grpclimit.ClientOption{grpclimit.WithMaxWait(d)}
	}
	asks, inLine := saying(refusedFor(2*time.Second)), inLine(&line{wait: 2 * time.Second})
	for name, test := range map[string]struct {
		limiter  limit.Keyed
		deadline time.Duration
		opts     []grpclimit.ClientOption
	}{
		"deadline":         {asks, time.Second, nil},
		"longest wait":     {asks, time.Hour, longest(time.Second)},
		"deadline before":  {asks, time.Second, longest(time.Hour)},
		"no wait":          {asks, time.Hour, longest(0)},
		"no wait, in line": {inLine, time.Hour, longest(0)},
		"less than none":   {inLine, time.Hour, longest(-1)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &service{}
				client := serve(t, s, nil, waiting(test.limiter, test.opts...)...)
				ctx, cancel := context.WithTimeout(t.Context(), test.deadline)
				defer cancel()
				began := time.Now()
				err := emptyCall(ctx, client)
				wantCode(t, err, codes.ResourceExhausted)
				if retry, _ := details(err); retry.GetRetryDelay().AsDuration() != 2*time.Second {
					t.Errorf("RetryInfo: %v", retry)
				}
				if calls, _ := s.counted(); calls != 0 || time.Since(began) != 0 {
					t.Errorf("%d calls arrived, after %v", calls, time.Since(began))
				}
			})
		})
	}
}

// A wait ends with the call.
func TestClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := serve(t, &service{}, nil, waiting(saying(refusedFor(time.Hour)))...)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		began := time.Now()
		wantCode(t, emptyCall(ctx, client), codes.Canceled)
		if time.Since(began) != time.Minute {
			t.Errorf("left after %v", time.Since(began))
		}
	})
}

// What a limiter fails with ends the wait, or lets the call through, as at a server.
func TestClientErrors(t *testing.T) {
	for _, test := range []struct {
		err  error
		opts []grpclimit.ClientOption
		want codes.Code
	}{
		{errSecret, nil, codes.Unavailable},
		{errSecret, []grpclimit.ClientOption{grpclimit.WithFailOpen()}, codes.OK},
		{limit.ErrPermitsExceedRate, nil, codes.ResourceExhausted},
	} {
		client := serve(t, &service{}, nil, waiting(saying(verdict{err: test.err}), test.opts...)...)
		wantCode(t, emptyCall(t.Context(), client), test.want)
		queued := serve(t, &service{}, nil, waiting(inLine(&line{err: test.err}), test.opts...)...)
		wantCode(t, emptyCall(t.Context(), queued), test.want)
	}
}

// In shadow mode a client asks once, and does not wait.
func TestClientShadow(t *testing.T) {
	f := saying(refusedFor(time.Hour))
	noError(t, emptyCall(t.Context(), serve(t, &service{}, nil, waiting(f, grpclimit.WithShadow())...)))
	f.wantAsked(t, 1)
	l := &line{wait: time.Hour}
	client := serve(t, &service{}, nil, waiting(inLine(l), grpclimit.WithShadow())...)
	noError(t, emptyCall(t.Context(), client))
}

// A line is a limiter whose callers wait in it.
type line struct {
	wait time.Duration
	err  error

	mu       sync.Mutex
	acquired []attempt
}

func inLine(l *line) limit.Keyed { return limit.Shared(l) }

func (l *line) Allow(context.Context, int64) (limit.Result, error) {
	return refusedFor(l.wait).result, l.err
}

func (l *line) Acquire(ctx context.Context, n int64) error {
	l.mu.Lock()
	l.acquired = append(l.acquired, attempt{n: n, at: time.Now()})
	l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	select {
	case <-time.After(l.wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A limiter that has a line is waited for in it, up to the longest wait or the end of the
// call.
func TestClientWaitsInLine(t *testing.T) {
	for name, test := range map[string]struct {
		deadline, longest time.Duration // 0: none
		want              codes.Code
		took              time.Duration
	}{
		"its turn":     {0, 0, codes.OK, time.Minute},
		"in time":      {time.Hour, time.Hour, codes.OK, time.Minute},
		"longest wait": {0, time.Second, codes.ResourceExhausted, time.Second},
		"deadline":     {time.Second, time.Hour, codes.DeadlineExceeded, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &line{wait: time.Minute}
				opts := []grpclimit.ClientOption{grpclimit.WithCost(
					func(context.Context, string, any) int64 { return 3 })}
				if test.longest > 0 {
					opts = append(opts, grpclimit.WithMaxWait(test.longest))
				}
				ctx := t.Context()
				if test.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.deadline)
					defer cancel()
				}
				began := time.Now()
				client := serve(t, &service{}, nil, waiting(inLine(l), opts...)...)
				wantCode(t, emptyCall(ctx, client), test.want)
				if took := time.Since(began); took != test.took {
					t.Errorf("took %v, want %v", took, test.took)
				}
				if len(l.acquired) != 1 || l.acquired[0].n != 3 {
					t.Errorf("acquired %v", l.acquired)
				}
			})
		})
	}
}

// Of a line that broke while a call waited as long as it may, the hook has the error.
func TestClientLineBreaks(t *testing.T) {
	var told error
	broken := &line{err: errors.Join(context.DeadlineExceeded, errSecret)}
	client := serve(t, &service{}, nil, waiting(inLine(broken), grpclimit.WithMaxWait(time.Nanosecond),
		grpclimit.WithHook(func(_ context.Context, d grpclimit.Decision) { told = d.Err }))...)
	wantCode(t, emptyCall(t.Context(), client), codes.Unavailable)
	if !errors.Is(told, errSecret) {
		t.Errorf("the hook was told %v", told)
	}
}

// A stream waits before it begins; with WithPerMessage before each message.
func TestClientStreamWaits(t *testing.T) {
	for name, test := range map[string]struct {
		opts  []grpclimit.ClientOption
		asked int
	}{
		"once":        {nil, 1},
		"per message": {[]grpclimit.ClientOption{grpclimit.WithPerMessage()}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &line{wait: time.Minute}
				client := serve(t, &service{}, nil, waiting(inLine(l), test.opts...)...)
				began := time.Now()
				answered, err := echo(t, client, 3)
				noError(t, err)
				if took := time.Since(began); answered != 3 || took != time.Duration(test.asked)*time.Minute {
					t.Errorf("%d answered after %v", answered, took)
				}
			})
		})
	}
}

// A message that is refused ends the stream, at the server, too; so does a stream that
// may not begin.
func TestClientStreamIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := saying(granted, refusedFor(time.Hour)), &service{}
		atMost := grpclimit.WithMaxWait(time.Second)
		client := serve(t, s, nil, waiting(f, grpclimit.WithPerMessage(), atMost)...)
		stream, err := client.FullDuplexCall(t.Context())
		noError(t, err)
		noError(t, stream.Send(&testpb.StreamingOutputCallRequest{}))
		_, err = stream.Recv()
		noError(t, err)
		wantCode(t, stream.Send(&testpb.StreamingOutputCallRequest{}), codes.ResourceExhausted)
		_, err = stream.Recv()
		wantCode(t, err, codes.Canceled)

		once := serve(t, s, nil, waiting(saying(refusedFor(time.Hour)), atMost)...)
		_, err = once.FullDuplexCall(t.Context())
		wantCode(t, err, codes.ResourceExhausted)
		if calls, received := s.counted(); calls != 1 || received != 1 {
			t.Errorf("%d calls and %d messages arrived", calls, received)
		}
	})
}

// A stream that is over frees its context: when the server has ended it, and with the
// only response where there is one.
func TestClientStreamFreesItsContext(t *testing.T) {
	for name, test := range map[string]struct {
		many bool
		err  error
		want bool
	}{
		"one response":           {false, nil, true},
		"one of many responses":  {true, nil, false},
		"the end of many":        {true, io.EOF, true},
		"an error of the server": {false, io.ErrUnexpectedEOF, true},
	} {
		t.Run(name, func(t *testing.T) {
			var used context.Context
			streamer := func(
				ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ ...grpc.CallOption,
			) (grpc.ClientStream, error) {
				used = ctx
				return received{err: test.err}, nil
			}
			stream, err := grpclimit.StreamClientInterceptor(saying(granted), grpclimit.ByMethod,
				grpclimit.WithPerMessage())(t.Context(), &grpc.StreamDesc{ServerStreams: test.many}, nil,
				bidiMethod, streamer)
			noError(t, err)
			if err := stream.RecvMsg(nil); err != test.err {
				t.Errorf("received %v", err)
			}
			if freed := used.Err() != nil; freed != test.want {
				t.Errorf("freed %v, want %v", freed, test.want)
			}
		})
	}
}

// A received stream returns err to all who receive.
type received struct {
	grpc.ClientStream
	err error
}

func (s received) RecvMsg(any) error { return s.err }
