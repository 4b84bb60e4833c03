package grpclimit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/ratelimit"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/redisson-go/rratelimiter/grpclimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

var _ ratelimit.Limiter = (*grpclimit.Limiter)(nil)

// With go-grpc-middleware the key function gets the method, and the peer the pushback.
func TestAdapter(t *testing.T) {
	f := saying(granted, refusedFor(2*time.Second), outcome{err: errSecret})
	client := serve(t, &service{}, []grpc.ServerOption{grpc.UnaryInterceptor(
		ratelimit.UnaryServerInterceptor(grpclimit.NewLimiter(f, grpclimit.ByMethod)))})
	redistest.NoError(t, emptyCall(t.Context(), client))
	if f.attempts()[0].key != unaryMethod {
		t.Errorf("asked for %q", f.attempts()[0].key)
	}
	var trailer metadata.MD
	err := emptyCall(t.Context(), client, grpc.Trailer(&trailer))
	wantCode(t, err, codes.ResourceExhausted)
	if got := trailer.Get("grpc-retry-pushback-ms"); len(got) != 1 || got[0] != "2000" {
		t.Errorf("pushback: %v", got)
	}
	if !strings.HasSuffix(status.Convert(err).Message(), ". rate limit exceeded") {
		t.Errorf("the peer sees %v", err)
	}
	err = emptyCall(t.Context(), client)
	wantCode(t, err, codes.ResourceExhausted)
	wantNoSecret(t, err, nil)
}

// The error of Limit is a status with all details, even without a call.
func TestLimitReturnsAStatus(t *testing.T) {
	l := grpclimit.NewLimiter(saying(refusedFor(2*time.Second)), grpclimit.ByMethod)
	err := l.Limit(t.Context())
	wantCode(t, err, codes.ResourceExhausted)
	if retry, quota := details(err); retry == nil || quota == nil || err.Error() != "rate limit exceeded" {
		t.Errorf("%v: %v, %v", err, retry, quota)
	}
}
