package grpclimit_test

import (
	"context"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/grpclimit"
	"github.com/redisson-go/rratelimiter/internal/admission/admissiontest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/rules"
	"github.com/redisson-go/rratelimiter/test/fixtures"
)

type account = fixtures.Account

// ten is an estimate.
var ten = grpclimit.WithCost(func(context.Context, string, any) int64 { return 10 })

// costs returns an option whose calls cost n in the end, and that keeps the last Outcome.
func costs(n int64, last *grpclimit.Outcome) grpclimit.Option {
	return grpclimit.WithActual(func(_ context.Context, o grpclimit.Outcome) int64 {
		*last = o
		return n
	})
}

// Each call is settled as the table says, and the hook gets the errors.
func TestSettlements(t *testing.T) {
	admissiontest.PlaySettlements(t, grpclimit.Settle, func(
		t *testing.T, s admissiontest.Settlement, limiter limit.Keyed[*account],
		handler func(context.Context),
	) (told []error) {
		opts := []grpclimit.ServerOption{grpclimit.WithSettle(),
			grpclimit.WithCost(func(context.Context, string, any) int64 { return s.Cost }),
			grpclimit.WithHook(func(_ context.Context, d grpclimit.Decision) {
				if d.Key != unaryMethod || d.Permits != s.Cost || !d.Passed {
					t.Errorf("the hook received %+v", d)
				}
				if d.Err != nil {
					told = append(told, d.Err)
				}
			})}
		if s.Actual != nil {
			opts = append(opts, costs(s.Actual[0], &grpclimit.Outcome{}))
		}
		if s.Shadow {
			opts = append(opts, grpclimit.WithShadow())
		}
		unary := grpclimit.UnaryServerInterceptor(limiter, grpclimit.ByMethod, opts...)
		redistest.NoError(t, intercepted(t.Context(), unary, handler))
		return told
	})
}

// WithActual learns the messages and the error of a call, on both sides. The last message of a stream is
// there before it ends.
func TestActualLearnsTheOutcome(t *testing.T) {
	wants := func(o grpclimit.Outcome, method string, requests, replies int64, code codes.Code) {
		t.Helper()
		if o.FullMethod != method || o.Requests != requests || o.Replies != replies || o.Request == nil ||
			o.Reply == nil {
			t.Errorf("%+v, want %d and %d messages of %s", o, requests, replies, method)
		}
		wantCode(t, o.Err, code)
	}
	var server, client grpclimit.Outcome
	l, turns := &account{Left: 100}, &account{Left: 100}
	c := serve(t, &service{}, limited(limit.Shared(l), grpclimit.ByMethod, ten, costs(1, &server)),
		waiting(limit.Shared(turns), ten, costs(2, &client))...)
	redistest.NoError(t, emptyCall(t.Context(), c))
	wants(server, unaryMethod, 0, 0, codes.OK)
	wants(client, unaryMethod, 0, 0, codes.OK)
	responses, err := echo(t.Context(), c, 3)
	redistest.NoError(t, err)
	if responses != 3 {
		t.Errorf("%d responses", responses)
	}
	wants(server, bidiMethod, 3, 3, codes.OK)
	wants(client, bidiMethod, 3, 3, codes.OK)
	l.Wants(t, 98, 1, 1)
	turns.Wants(t, 96, 2, 2)
	turns.Left, l.Left = 100, 0
	wantCode(t, emptyCall(t.Context(), c), codes.ResourceExhausted)
	wants(client, unaryMethod, 0, 0, codes.ResourceExhausted)
	turns.Wants(t, 98, 2, 2, 2)
}

// A stream of a client that is abandoned is settled when its context ends, and Settle finds its
// reservation in the context of the stream.
func TestStreamsOfAClientSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last grpclimit.Outcome
		turns := &account{Left: 100}
		c := serve(t, &service{}, nil, waiting(limit.Shared(turns), ten, costs(2, &last))...)
		ctx, leave := context.WithCancel(t.Context())
		stream := redistest.Must(c.FullDuplexCall(ctx))(t)
		redistest.NoError(t, stream.Send(&testpb.StreamingOutputCallRequest{}))
		redistest.Must(stream.Recv())(t)
		leave()
		synctest.Wait()
		turns.Wants(t, 98, 2)
		wantCode(t, last.Err, codes.Canceled)
		if _, err := stream.Recv(); err == nil || last.Requests != 1 || last.Replies != 1 {
			t.Errorf("%v, %+v", err, last)
		}
		turns = &account{Left: 100}
		c = serve(t, &service{}, nil, waiting(limit.Shared(turns), ten, grpclimit.WithSettle())...)
		ctx, leave = context.WithCancel(t.Context())
		defer leave()
		stream = redistest.Must(c.FullDuplexCall(ctx))(t)
		redistest.NoError(t, grpclimit.Settle(stream.Context(), 4))
		turns.Wants(t, 96, 4)
	})
}

const settledRules = `
rules:
  - {name: calls, also: true, limits: [{rate: 9/1h, algorithm: fixed-window}]}
  - {name: tokens, cost: 10, settle: true, limits: [{rate: 20/1h}]}
`

// The limits that a file marks are settled, in unary calls and streams. After a panic the estimate counts.
func TestRulesSettleTheirLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		c := rratelimiter.New(rdb)
		defer c.Close()
		set := redistest.Must(rules.Parse([]byte(settledRules)))(t)
		limits := redistest.Must(rules.New(rules.OnRedis(c, rdb, "settled"), set))(t)
		s := &service{during: func(ctx context.Context) { redistest.NoError(t, grpclimit.Settle(ctx, 5)) }}
		client := serve(t, s, ruled(limits, nil, grpclimit.WithSettle()))
		redistest.NoError(t, emptyCall(t.Context(), client))
		_, err := echo(t.Context(), client, 1)
		redistest.NoError(t, err)
		var last grpclimit.Outcome
		func() {
			defer func() { _ = recover() }()
			_ = intercepted(t.Context(), grpclimit.UnaryServerRules(limits, nil, costs(0, &last)),
				func(context.Context) { panic("handler") })
		}()
		// 5, 5 and 10 are used.
		wantCode(t, emptyCall(t.Context(), client), codes.ResourceExhausted)
	})
}
