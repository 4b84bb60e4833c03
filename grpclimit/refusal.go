package grpclimit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/redisson-go/rratelimiter/limit"
)

// pushbackTrailer sets when the retry policy of a client tries again, in ms (gRFC A6). A client ignores
// it if a header was sent before (not Trailers-Only).
const pushbackTrailer = "grpc-retry-pushback-ms"

// never is the pushback that forbids a retry.
const never = "-1"

// A refusal is the status and the trailers that the peer gets for a refused call.
type refusal struct {
	status   *status.Status
	pushback string // the value of pushbackTrailer, empty for none
}

func (r *refusal) err() error { return r.status.Err() }

// trailer returns the metadata of r, nil for none.
func (r *refusal) trailer() metadata.MD {
	if r.pushback == "" {
		return nil
	}
	return metadata.Pairs(pushbackTrailer, r.pushback)
}

// to sets the trailer of the call of ctx, if it is a call on a server, and returns the error.
func (r *refusal) to(ctx context.Context) error {
	if trailer := r.trailer(); trailer != nil {
		_ = grpc.SetTrailer(ctx, trailer) // fails only without a call on a server
	}
	return r.err()
}

// exhausted returns the refusal for a result. If several limits decided, there is a violation for each
// that refused. Without RetryAfter the client uses its own backoff.
func exhausted(policy string, r limit.Result) *refusal {
	failure := &errdetails.QuotaFailure{}
	for _, each := range r.Each {
		if !each.Allowed {
			v := violation(cmp.Or(policy, each.Policy), described(each))
			failure.Violations = append(failure.Violations, v)
		}
	}
	if failure.Violations == nil {
		failure.Violations = append(failure.Violations, violation(cmp.Or(policy, r.Policy), described(r)))
	}
	if r.RetryAfter <= 0 {
		return &refusal{status: withDetails("rate limit exceeded", failure)}
	}
	retry := &errdetails.RetryInfo{RetryDelay: durationpb.New(r.RetryAfter)}
	return &refusal{withDetails("rate limit exceeded", retry, failure), pushback(r.RetryAfter)}
}

// costTooHigh returns the refusal of a call that costs more than its limit can have.
func costTooHigh(policy string) *refusal {
	const text = "the call needs more permits than the limit has"
	failure := &errdetails.QuotaFailure{}
	failure.Violations = append(failure.Violations, violation(policy, text))
	return &refusal{withDetails(text, failure), never}
}

// badKey returns the refusal of a call whose key the limiter rejects.
func badKey() *refusal {
	return &refusal{status: status.New(codes.InvalidArgument, "the call has no valid rate limit key")}
}

// limiterFailed returns the refusal of a call about which the limiter could not decide.
func limiterFailed() *refusal {
	return &refusal{status: status.New(codes.Unavailable, "rate limiter unavailable")}
}

func withDetails(text string, details ...protoadapt.MessageV1) *status.Status {
	plain := status.New(codes.ResourceExhausted, text)
	if detailed, err := plain.WithDetails(details...); err == nil {
		return detailed
	}
	return plain
}

func violation(policy, description string) *errdetails.QuotaFailure_Violation {
	return &errdetails.QuotaFailure_Violation{Subject: policy, Description: description}
}

// described describes a limit without its name, in words that are true of windows, of buckets (Limit
// is their capacity) and of leases.
func described(r limit.Result) string {
	if r.Limit <= 0 || r.Interval <= 0 {
		return "rate limit exceeded"
	}
	return fmt.Sprintf("a limit of %d permits, which come back within %v", r.Limit, r.Interval)
}

// pushback returns d in ms, rounded up, because a client that comes a moment too early is refused
// again. Clients parse at most 2^31-1 ms, or 24 days; a longer time becomes never.
func pushback(d time.Duration) string {
	ms := (d-1)/time.Millisecond + 1
	if ms > math.MaxInt32 {
		return never
	}
	return strconv.FormatInt(int64(ms), 10)
}
