package grpclimit_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/redisson-go/rratelimiter/grpclimit"
	"github.com/redisson-go/rratelimiter/internal/admission/admissiontest"
	"github.com/redisson-go/rratelimiter/limit"
)

// Each call gets what the table says. A status of a Key reaches the peer, unlike one of a limiter.
func TestDecisions(t *testing.T) {
	other, who := status.Error(codes.NotFound, "secret"), status.Error(codes.Unauthenticated, "who are you?")
	type request = admissiontest.Request
	admissiontest.Protocol{
		Column: func(d admissiontest.Decision) string { return d.GRPC }, OK: "OK", Failed: "Unavailable",
		Serve: decide,
	}.Play(t, []admissiontest.Decision{
		{Name: "a status of another", Request: request{Cost: 1}, Answer: admissiontest.Fails(other),
			GRPC: "Unavailable"},
		{Name: "a status of the key", Request: request{KeyErr: who, Cost: 1}, GRPC: "Unauthenticated"},
		{Name: "a cost below 0", Request: request{Cost: -1}, GRPC: "OK"},
	}...)
}

func decide(
	t *testing.T, d admissiontest.Decision, open, shadow bool, limiter limit.Keyed[limit.Func],
) (peer string, told []error) {
	var seen grpclimit.Decision
	opts := []grpclimit.ServerOption{
		grpclimit.WithHook(func(_ context.Context, d grpclimit.Decision) {
			if seen = d; !d.Result.Allowed {
				told = append(told, d.Err)
			}
		}),
		grpclimit.WithCost(func(_ context.Context, fullMethod string, message any) int64 {
			if _, ok := message.(*testpb.Empty); !ok || fullMethod != unaryMethod {
				t.Errorf("the cost of %q, %T", fullMethod, message)
			}
			return d.Request.Cost
		}),
	}
	if open {
		opts = append(opts, grpclimit.WithFailOpen())
	}
	if shadow {
		opts = append(opts, grpclimit.WithShadow())
	}
	key := func(context.Context, string) (string, error) { return admissiontest.Key, d.Request.KeyErr }
	s := &service{}
	var trailer metadata.MD
	err := emptyCall(t.Context(), serve(t, s, limited(limiter, key, opts...)), grpc.Trailer(&trailer))
	wantNoSecret(t, err, trailer)
	calls, _ := s.counted()
	if told != nil && (seen.Passed != (err == nil) || seen.Permits != 1 || seen.FullMethod != unaryMethod) ||
		(calls == 1) != (err == nil) {
		t.Errorf("%d calls, and the hook received %+v", calls, seen)
	}
	parts := []string{status.Code(err).String()}
	retry, quota := details(err)
	if retry != nil {
		parts = append(parts, retry.GetRetryDelay().AsDuration().String())
	}
	parts = append(parts, trailer.Get("grpc-retry-pushback-ms")...)
	if quota != nil {
		violated := make([]string, len(quota.GetViolations()))
		for i, v := range quota.GetViolations() {
			violated[i] = v.GetSubject()
		}
		parts = append(parts, fmt.Sprint(violated))
	}
	return strings.Join(parts, ", "), told
}
