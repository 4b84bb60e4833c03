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

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/grpclimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// A line is a limiter in whose line a call waits for each permit.
type line struct {
	wait time.Duration
	err  error
}

func inLine(l *line) limit.Keyed[limit.Limiter] { return limit.Shared[limit.Limiter](l) }

func (l *line) Allow(context.Context, int64) (limit.Result, error) {
	return refusedFor(l.wait).result, l.err
}

func (l *line) Acquire(ctx context.Context, n int64) error {
	if l.err != nil {
		return l.err
	}
	select {
	case <-time.After(time.Duration(n) * l.wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A client waits in the line of the limiter, or for RetryAfter, and sends the call once. It is refused if it
// would wait too long, at once if the limiter tells how long, and ends with the context of the call.
func TestClientWaits(t *testing.T) {
	const s, minute, hour = time.Second, time.Minute, time.Hour
	asks := func(d time.Duration) limit.Keyed[limit.Limiter] { return saying(refusedFor(d)) }
	lines := func(d time.Duration) limit.Keyed[limit.Limiter] { return inLine(&line{wait: d}) }
	fails := func(err error) (asks, lines limit.Keyed[limit.Limiter]) {
		return saying(outcome{err: err}), inLine(&line{err: err})
	}
	broken, brokenLine := fails(errors.Join(context.DeadlineExceeded, errSecret))
	costly, costlyLine := fails(limit.ErrPermitsExceedRate)
	open, shadow := grpclimit.WithFailOpen(), grpclimit.WithShadow()
	most := grpclimit.WithMaxWait
	for name, test := range map[string]struct {
		limiter  limit.Keyed[limit.Limiter]
		deadline time.Duration
		opt      grpclimit.ClientOption
		want     codes.Code
		took     time.Duration
		retry    time.Duration // of RetryInfo
	}{
		"for RetryAfter, or 100 ms": {saying(refusedFor(3*s), refusedFor(2*s), refusedFor(0), granted),
			hour, most(hour), codes.OK, 5*s + 100*time.Millisecond, 0},
		"longer than the deadline": {asks(2 * s), s, most(hour), codes.ResourceExhausted, 0, 2 * s},
		"longer than the maximum":  {asks(2 * s), hour, most(s), codes.ResourceExhausted, 0, 2 * s},
		"no wait":                  {asks(2 * s), hour, most(0), codes.ResourceExhausted, 0, 2 * s},
		"no wait in line":          {lines(2 * s), hour, most(0), codes.ResourceExhausted, 0, 2 * s},
		"below 0":                  {lines(2 * s), hour, most(-1), codes.ResourceExhausted, 0, 2 * s},
		"the caller leaves":        {asks(hour), 2 * hour, most(2 * hour), codes.Canceled, minute, 0},
		"its turn in line":         {lines(minute), hour, most(hour), codes.OK, minute, 0},
		"the maximum in line":      {lines(minute), hour, most(s), codes.ResourceExhausted, s, 0},
		"the deadline in line":     {lines(minute), s, most(hour), codes.DeadlineExceeded, s, 0},
		"a failure":                {broken, hour, most(1), codes.Unavailable, 0, 0},
		"a failure in line":        {brokenLine, hour, most(1), codes.Unavailable, 0, 0},
		"a failure, open":          {broken, hour, open, codes.OK, 0, 0},
		"a failure in line, open":  {brokenLine, hour, open, codes.OK, 0, 0},
		"too high a cost":          {costly, hour, most(hour), codes.ResourceExhausted, 0, 0},
		"too high a cost in line":  {costlyLine, hour, most(hour), codes.ResourceExhausted, 0, 0},
		"in the shadow":            {asks(hour), hour, shadow, codes.OK, 0, 0},
		"in line, in the shadow":   {lines(hour), hour, shadow, codes.OK, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &service{}
				ctx, cancel := context.WithTimeout(t.Context(), test.deadline)
				defer cancel()
				if test.want == codes.Canceled {
					time.AfterFunc(test.took, cancel)
				}
				began := time.Now()
				err := emptyCall(ctx, serve(t, s, nil, waiting(test.limiter, test.opt)...))
				wantCode(t, err, test.want)
				retry, _ := details(err)
				took, after := time.Since(began), retry.GetRetryDelay().AsDuration()
				if took != test.took || after != test.retry {
					t.Errorf("took %v, want %v; retry after %v, want %v", took, test.took, after, test.retry)
				}
				if calls, _ := s.counted(); (calls == 1) != (err == nil) {
					t.Errorf("%d calls arrived", calls)
				}
			})
		})
	}
}

// A call is charged once, however often the retry policy sends it. If it fails, its estimate counts.
func TestClientChargesACallOnce(t *testing.T) {
	type call = func(context.Context, testpb.TestServiceClient, ...grpc.CallOption) error
	refused := refusedFor(time.Second)
	for name, call := range map[string]call{"unary": emptyCall, "stream": echoOnce} {
		synctest.Test(t, func(t *testing.T) {
			server, turns := saying(refused, refused, granted), saying(granted)
			client := serve(t, &service{}, limited(server, grpclimit.ByMethod),
				append(waiting(turns), grpc.WithDefaultServiceConfig(retries))...)
			redistest.NoError(t, call(t.Context(), client))
			server.wantAsked(t, 3)
			turns.wantAsked(t, 1)

			held := &account{Left: 100}
			client = serve(t, &service{}, limited(saying(refused), grpclimit.ByMethod),
				waiting(limit.Shared(held), ten, grpclimit.WithSettle())...)
			t.Log(name)
			wantCode(t, call(t.Context(), client), codes.ResourceExhausted)
			held.Wants(t, 90)
		})
	}
}

// late bounds how much later than due a wait in Redis ends: the line lets Java go first.
const late = 200 * time.Millisecond

// A client waits in the line of a Keyed, or of one limiter, also for the permits that it reserves.
func TestClientOnRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rratelimiter.New(redistest.MiniClient(t, redistest.Mini(t)))
		defer c.Close()
		one := c.RateLimiter("partner")
		redistest.NoError(t, one.SetRate(t.Context(), rratelimiter.Overall, 1, time.Minute))
		tokens := c.Keyed("tokens", 10, time.Minute)
		for _, client := range []testpb.TestServiceClient{
			serve(t, &service{}, nil, waiting(c.Keyed("methods", 1, time.Minute))...),
			serve(t, &service{}, nil, waiting(limit.Shared(one))...),
			serve(t, &service{}, nil,
				waiting(tokens, ten, grpclimit.WithSettle(), grpclimit.WithMaxWait(time.Hour))...),
		} {
			began := time.Now()
			redistest.NoError(t, emptyCall(t.Context(), client))
			redistest.NoError(t, emptyCall(t.Context(), client))
			if took := time.Since(began); took < time.Minute || took > time.Minute+late {
				t.Errorf("two calls took %v, want 1m", took)
			}
		}
	})
}

// A stream waits before it begins, or, with WithPerMessage, before each message.
func TestClientStreamWaits(t *testing.T) {
	twice := grpclimit.WithCost(func(context.Context, string, any) int64 { return 2 })
	for waits, opts := range map[int][]grpclimit.ClientOption{
		2: {twice}, 6: {twice, grpclimit.WithPerMessage()},
	} {
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
		second := grpclimit.WithMaxWait(time.Second)
		stream, err := serve(t, s, nil, waiting(limiter, second, grpclimit.WithPerMessage())...).
			FullDuplexCall(t.Context())
		redistest.NoError(t, err)
		redistest.NoError(t, stream.Send(&testpb.StreamingOutputCallRequest{}))
		_, err = stream.Recv()
		redistest.NoError(t, err)
		wantCode(t, stream.Send(&testpb.StreamingOutputCallRequest{}), codes.ResourceExhausted)
		_, err = stream.Recv()
		wantCode(t, err, codes.Canceled)

		once := serve(t, s, nil, waiting(saying(refusedFor(time.Hour)), second)...)
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
