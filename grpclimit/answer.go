package grpclimit

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/redisson-go/rratelimiter/limit"
)

// pushbackTrailer tells the retry policy of a client when to try again, in ms (gRFC A6).
// It counts only where no header was sent before (Trailers-Only).
const pushbackTrailer = "grpc-retry-pushback-ms"

// never is the pushback that forbids a retry.
const never = "-1"

// An answer is what a call that does not go on is told.
type answer struct {
	status   *status.Status
	pushback string // the value of pushbackTrailer, empty for none
}

func (a *answer) err() error { return a.status.Err() }

// trailer returns the metadata of a, nil for none.
func (a *answer) trailer() metadata.MD {
	if a.pushback == "" {
		return nil
	}
	return metadata.Pairs(pushbackTrailer, a.pushback)
}

// refused returns the answer to a refusal. Where several limits decided, there is a
// violation for each that refused. A limiter that does not know when permits will be
// there leaves the client to its own backoff.
func refused(policy string, r limit.Result) *answer {
	failure := &errdetails.QuotaFailure{}
	for _, each := range r.Each {
		if !each.Allowed {
			v := violation(policyOf(each, policy), described(each))
			failure.Violations = append(failure.Violations, v)
		}
	}
	if failure.Violations == nil {
		failure.Violations = append(failure.Violations, violation(policyOf(r, policy), described(r)))
	}
	if r.RetryAfter <= 0 {
		return &answer{status: exhausted("rate limit exceeded", failure)}
	}
	retry := &errdetails.RetryInfo{RetryDelay: durationpb.New(r.RetryAfter)}
	return &answer{exhausted("rate limit exceeded", retry, failure), pushback(r.RetryAfter)}
}

// exceeds returns the answer to a call that costs more than its limit ever has.
func exceeds(policy string) *answer {
	const text = "the call needs more permits than the limit has"
	failure := &errdetails.QuotaFailure{}
	failure.Violations = append(failure.Violations, violation(policy, text))
	return &answer{exhausted(text, failure), never}
}

// badKey returns the answer to a call whose key cannot be used.
func badKey() *answer {
	return &answer{status: status.New(codes.InvalidArgument, "the call has no valid rate limit key")}
}

// failed returns the answer to a call that a limiter could not decide on.
func failed() *answer {
	return &answer{status: status.New(codes.Unavailable, "rate limiter unavailable")}
}

func exhausted(text string, details ...protoadapt.MessageV1) *status.Status {
	plain := status.New(codes.ResourceExhausted, text)
	if detailed, err := plain.WithDetails(details...); err == nil {
		return detailed
	}
	return plain
}

func violation(policy, description string) *errdetails.QuotaFailure_Violation {
	return &errdetails.QuotaFailure_Violation{Subject: policy, Description: description}
}

// described returns a limit in words, without a name. It is true of windows, of buckets, whose
// Limit is their capacity, and of leases.
func described(r limit.Result) string {
	if r.Limit <= 0 || r.Interval <= 0 {
		return "rate limit exceeded"
	}
	return fmt.Sprintf("a limit of %d permits, which come back within %v", r.Limit, r.Interval)
}

// pushback returns d in ms, rounded up: a client that comes a moment too early would be
// refused again. What is more than clients read, 2^31-1 ms or 24 days, is never.
func pushback(d time.Duration) string {
	ms := (d-1)/time.Millisecond + 1
	if ms > math.MaxInt32 {
		return never
	}
	return strconv.FormatInt(int64(ms), 10)
}
