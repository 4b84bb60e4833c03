package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/redisson-go/rratelimiter/grpclimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

func maxWait(d time.Duration) []grpclimit.ClientOption {
	return []grpclimit.ClientOption{grpclimit.WithMaxWait(d)}
}

// A client waits for RetryAfter, or 100 ms without it, and then sends the call once.
func TestClientWaitsForRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := saying(refusedFor(3*time.Second), refusedFor(2*time.Second), refusedFor(0), granted)
		s := &service{}
		redistest.NoError(t, emptyCall(t.Context(), serve(t, s, nil, waiting(f)...)))
		f.wantWaits(t, 3*time.Second, 2*time.Second, 100*time.Millisecond)
		if calls, _ := s.counted(); calls != 1 {
			t.Errorf("%d calls arrived", calls)
		}
	})
}

// A call that may not wait long enough is refused at once, and is not sent.
func TestClientRefusesTooLongWaits(t *testing.T) {
	asks, inLine := saying(refusedFor(2*time.Second)), inLine(&line{wait: 2 * time.Second})
	for name, test := range map[string]struct {
		limiter  limit.Keyed
		deadline time.Duration
		opts     []grpclimit.ClientOption
	}{
		"deadline":             {asks, time.Second, nil},
		"maximum":              {asks, time.Hour, maxWait(time.Second)},
		"deadline and maximum": {asks, time.Second, maxWait(time.Hour)},
		"no wait":              {asks, time.Hour, maxWait(0)},
		"no wait, in line":     {inLine, time.Hour, maxWait(0)},
		"below 0":              {inLine, time.Hour, maxWait(-1)},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &service{}
			client := serve(t, s, nil, waiting(test.limiter, test.opts...)...)
			ctx, cancel := context.WithTimeout(t.Context(), test.deadline)
			defer cancel()
			began := time.Now()
			err := emptyCall(ctx, client)
			wantCode(t, err, codes.ResourceExhausted)
			if retry, _ := details(err); retry.GetRetryDelay().AsDuration() != 2*time.Second {
				t.Errorf("%s: RetryInfo %v", name, retry)
			}
			if calls, _ := s.counted(); calls != 0 || time.Since(began) != 0 {
				t.Errorf("%s: %d calls arrived, after %v", name, calls, time.Since(began))
			}
		})
	}
}

// A wait ends with the context of the call.
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

// An error of the limiter ends the wait, in line or not, with the status of a server.
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
		for _, limiter := range []limit.Keyed{saying(outcome{err: test.err}), inLine(&line{err: test.err})} {
			client := serve(t, &service{}, nil, waiting(limiter, test.opts...)...)
			wantCode(t, emptyCall(t.Context(), client), test.want)
		}
	}
}

// In shadow mode a client calls Allow once, and does not wait.
func TestClientShadow(t *testing.T) {
	f := saying(refusedFor(time.Hour))
	for _, limiter := range []limit.Keyed{f, inLine(&line{wait: time.Hour})} {
		client := serve(t, &service{}, nil, waiting(limiter, grpclimit.WithShadow())...)
		redistest.NoError(t, emptyCall(t.Context(), client))
	}
	f.wantAsked(t, 1)
}

// A line is a limiter with a line, for the calls of one client.
type line struct {
	wait     time.Duration
	err      error
	acquired []int64
}

func inLine(l *line) limit.Keyed { return limit.Shared(l) }

func (l *line) Allow(context.Context, int64) (limit.Result, error) {
	return refusedFor(l.wait).result, l.err
}

func (l *line) Acquire(ctx context.Context, n int64) error {
	l.acquired = append(l.acquired, n)
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

// If the limiter has a line, a call waits in it, until WithMaxWait or the end of the call.
func TestClientWaitsInLine(t *testing.T) {
	for name, test := range map[string]struct {
		deadline time.Duration
		opts     []grpclimit.ClientOption
		want     codes.Code
		took     time.Duration
	}{
		"its turn":            {time.Hour, nil, codes.OK, time.Minute},
		"before the maximum":  {time.Hour, maxWait(time.Hour), codes.OK, time.Minute},
		"maximum":             {time.Hour, maxWait(time.Second), codes.ResourceExhausted, time.Second},
		"deadline of context": {time.Second, maxWait(time.Hour), codes.DeadlineExceeded, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := &line{wait: time.Minute}
			cost := func(context.Context, string, any) int64 { return 3 }
			opts := append(test.opts, grpclimit.WithCost(cost))
			ctx, cancel := context.WithTimeout(t.Context(), test.deadline)
			defer cancel()
			began := time.Now()
			wantCode(t, emptyCall(ctx, serve(t, &service{}, nil, waiting(inLine(l), opts...)...)), test.want)
			if took := time.Since(began); took != test.took {
				t.Errorf("%s: took %v, want %v", name, took, test.took)
			}
			if len(l.acquired) != 1 || l.acquired[0] != 3 {
				t.Errorf("%s: acquired %v", name, l.acquired)
			}
		})
	}
}

// The hook receives the error of a line even if the longest wait has passed.
func TestClientLineFails(t *testing.T) {
	var seen error
	broken := &line{err: errors.Join(context.DeadlineExceeded, errSecret)}
	client := serve(t, &service{}, nil, waiting(inLine(broken), grpclimit.WithMaxWait(time.Nanosecond),
		grpclimit.WithHook(func(_ context.Context, d grpclimit.Decision) { seen = d.Err }))...)
	wantCode(t, emptyCall(t.Context(), client), codes.Unavailable)
	if !errors.Is(seen, errSecret) {
		t.Errorf("the hook received %v", seen)
	}
}

// A stream waits before it begins, or, with WithPerMessage, before each message.
func TestClientStreamWaits(t *testing.T) {
	for waits, opts := range map[int][]grpclimit.ClientOption{1: nil, 3: {grpclimit.WithPerMessage()}} {
		synctest.Test(t, func(t *testing.T) {
			client := serve(t, &service{}, nil, waiting(inLine(&line{wait: time.Minute}), opts...)...)
			began := time.Now()
			responses, err := echo(t.Context(), client, 3)
			redistest.NoError(t, err)
			if took := time.Since(began); responses != 3 || took != time.Duration(waits)*time.Minute {
				t.Errorf("%d responses after %v, want %d minutes", responses, took, waits)
			}
		})
	}
}

// A refused message ends the stream, at the server as well. A refused stream does not begin.
func TestClientStreamIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{}
		limiter := saying(granted, refusedFor(time.Hour))
		opts := append(maxWait(time.Second), grpclimit.WithPerMessage())
		stream, err := serve(t, s, nil, waiting(limiter, opts...)...).FullDuplexCall(t.Context())
		redistest.NoError(t, err)
		redistest.NoError(t, stream.Send(&testpb.StreamingOutputCallRequest{}))
		_, err = stream.Recv()
		redistest.NoError(t, err)
		wantCode(t, stream.Send(&testpb.StreamingOutputCallRequest{}), codes.ResourceExhausted)
		_, err = stream.Recv()
		wantCode(t, err, codes.Canceled)

		once := serve(t, s, nil, waiting(saying(refusedFor(time.Hour)), maxWait(time.Second)...)...)
		_, err = once.FullDuplexCall(t.Context())
		wantCode(t, err, codes.ResourceExhausted)
		if calls, received := s.counted(); calls != 1 || received != 1 {
			t.Errorf("%d calls and %d messages arrived", calls, received)
		}
	})
}

// A stream releases its context when the server ends it, or with its only response.
func TestClientStreamReleasesItsContext(t *testing.T) {
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
		var used context.Context
		streamer := func(
			ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			used = ctx
			return received{err: test.err}, nil
		}
		stream := redistest.Must(grpclimit.StreamClientInterceptor(saying(granted), grpclimit.ByMethod,
			grpclimit.WithPerMessage())(t.Context(), &grpc.StreamDesc{ServerStreams: test.many}, nil,
			bidiMethod, streamer))(t)
		if err := stream.RecvMsg(nil); err != test.err {
			t.Errorf("%s: received %v", name, err)
		}
		if released := used.Err() != nil; released != test.want {
			t.Errorf("%s: released %v, want %v", name, released, test.want)
		}
	}
}

// In a received stream Recv returns err.
type received struct {
	grpc.ClientStream
	err error
}

func (s received) RecvMsg(any) error { return s.err }
