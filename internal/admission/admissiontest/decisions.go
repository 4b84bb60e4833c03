// Package admissiontest has tables of what a middleware decides about a request. httplimit and grpclimit both
// run them: a new decision is a row.
package admissiontest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// Key is the key of all requests. Visitors see neither it nor ErrSecret.
const Key = "secret"

// ErrSecret is an error of a limiter or a key.
var ErrSecret = errors.New("dial tcp 10.1.2.3:6379: secret")

// A Decision is a request, what its limiter answers, and what the visitor gets.
type Decision struct {
	Name    string
	Request Request
	Answer  Answer // nil: the limiter must not be asked

	// HTTP is "STATUS, RateLimit, Retry-After, PROBLEM [VIOLATED]", and GRPC "CODE, RetryInfo, pushback,
	// [VIOLATED]", each without the parts that a response lacks.
	HTTP, GRPC string
}

// A Request is the cost of a request, and the errors of the functions that find its key and its cost.
type Request struct {
	KeyErr  error
	Cost    int64
	CostErr error // for HTTP only
}

// An Answer is the result of a limiter.
type Answer func(ctx context.Context) (limit.Result, error)

func says(r limit.Result) Answer {
	return func(context.Context) (limit.Result, error) { return r, nil }
}

// Fails is the Answer of a limiter that fails.
func Fails(err error) Answer {
	return func(context.Context) (limit.Result, error) { return limit.Result{}, err }
}

func silent(ctx context.Context) (limit.Result, error) {
	<-ctx.Done()
	return limit.Result{}, ctx.Err()
}

// of returns the result of a limit of 10 permits a minute with n left, and the wait of a refusal.
func of(policy string, n int64, after time.Duration) limit.Result {
	return limit.Result{
		Name: Key, Policy: policy, Limit: 10, Interval: time.Minute,
		Remaining: n, Allowed: n > 0, RetryAfter: after,
	}
}

// decisions returns the decisions of all protocols.
func decisions() []Decision {
	const s = time.Second
	const wrong, unknown = "400, about:blank", "503, temporary-reduced-capacity []"
	one, keyFails := Request{Cost: 1}, func(err error) Request { return Request{KeyErr: err, Cost: 1} }
	hidden := func(err error) error { return fmt.Errorf("%w: %w", err, ErrSecret) }
	both := func(a, b limit.Result) Answer {
		return says(limit.Result{Each: []limit.Result{a, b}, RetryAfter: max(a.RetryAfter, b.RetryAfter)})
	}
	return []Decision{
		{"granted", one, says(of("a", 9, 0)), `200, "a";r=9;t=0`, "OK"},
		{"seven permits", Request{Cost: 7}, says(of("a", 3, 0)), `200, "a";r=3;t=0`, "OK"},
		{"no cost", Request{}, nil, "200", "OK"},

		{"refused", one, says(of("a", 0, s+1)), `429, "a";r=0;t=2, 2, quota-exceeded [a]`,
			"ResourceExhausted, 1.000000001s, 1001, [a]"},
		{"refused without a time", one, says(of("a", 0, 0)), `429, "a";r=0;t=0, 1, quota-exceeded [a]`,
			"ResourceExhausted, [a]"},
		{"refused by one of two", one, both(of("a", 9, 0), of("b", 0, s)),
			`429, "a";r=9;t=0, "b";r=0;t=1, 1, quota-exceeded [b]`, "ResourceExhausted, 1s, 1000, [b]"},
		{"refused by both", one, both(of("a", 0, 2*s), of("b", 0, s)),
			`429, "a";r=0;t=2, "b";r=0;t=1, 2, quota-exceeded [a b]`, "ResourceExhausted, 2s, 2000, [a b]"},
		{"refused without the store", one, says(limit.Result{Policy: "a", Degraded: true}),
			"429, 1, temporary-reduced-capacity [a]", "ResourceExhausted, [a]"},
		{"too many permits", one, Fails(hidden(limit.ErrPermitsExceedRate)), wrong,
			"ResourceExhausted, -1, []"},

		{"the limiter fails", one, Fails(ErrSecret), unknown, "Unavailable"},
		{"the limiter is silent", one, silent, unknown, "Unavailable"},
		{"the limiter is wrong", one, Fails(hidden(limit.ErrMisconfigured)), unknown, "Unavailable"},
		{"a strange key", one, Fails(hidden(limit.ErrInvalidArgument)), wrong, "InvalidArgument"},
		{"an invalid key", keyFails(hidden(limit.ErrInvalidArgument)), nil, wrong, "InvalidArgument"},
		{"the key fails", keyFails(ErrSecret), nil, unknown, "Unavailable"},
	}
}

// A Protocol plays decisions.
type Protocol struct {
	Column     func(Decision) string // Decision.HTTP or Decision.GRPC
	OK, Failed string                // how it begins if the request goes on, or its limiter or key has failed

	// Serve returns what the visitor got, and the errors that the hook received, nil for a refusal. With
	// open a request goes on if its limiter fails, with shadow in any case.
	Serve func(t *testing.T, d Decision, open, shadow bool, l limit.Keyed[limit.Func],
	) (visitor string, told []error)
}

// Play plays each Decision of all protocols, and more of this one: as it is, with open, and with shadow.
func (p Protocol) Play(t *testing.T, more ...Decision) {
	for _, d := range slices.Concat(decisions(), more) {
		for i, mode := range []string{"", ", open", ", shadow"} {
			t.Run(d.Name+mode, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { p.play(t, d, i == 1, i == 2) })
			})
		}
	}
}

func (p Protocol) play(t *testing.T, d Decision, open, shadow bool) {
	asked, cause, began := false, cmp.Or(d.Request.KeyErr, d.Request.CostErr), time.Now()
	limiters := func(key string) limit.Func {
		return func(ctx context.Context, n int64) (r limit.Result, err error) {
			if asked = true; key != Key || n != d.Request.Cost || d.Answer == nil {
				t.Errorf("asked for %d permits of %q", n, key)
				return r, nil
			}
			r, cause = d.Answer(ctx)
			return r, cause
		}
	}
	visitor, told := p.Serve(t, d, open, shadow, limit.KeyedFunc(limiters))
	want := p.Column(d)
	refused := !strings.HasPrefix(want, p.OK)
	if refused != (len(told) == 1) || refused && !errors.Is(told[0], cause) {
		t.Errorf("the hook received %v, want %v", told, cause)
	}
	if shadow || open && asked && strings.HasPrefix(want, p.Failed) {
		want = p.OK
	}
	if visitor != want || asked != (d.Answer != nil) {
		t.Errorf("got %q, want %q; asked: %v", visitor, want, asked)
	}
	if took := time.Since(began); took != 0 && took != 100*time.Millisecond { // the default timeout
		t.Errorf("took %v", took)
	}
}
