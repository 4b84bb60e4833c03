package rratelimiter

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/engine"
	"github.com/redisson-go/rratelimiter/internal/outage"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Template has a limit for each of many keys: users, addresses, customers. The
// limiters are ordinary ones, also for Java, but nobody needs to set their rate: the
// acquire does that, in the same round trip, wherever none is set. So
// ErrNotInitialized cannot happen, also after keep alive has passed or Redis has come
// back empty.
//
// The limiter of a key is called NAME:{KEY}, for example "api:{42}". If the name of the
// Template has a hash tag already, it is NAME:[KEY]: with the name "{api}:user" all users
// live in one slot of a cluster, and can be in a [Group] with a limiter "{api}:all".
//
// A Template is safe for concurrent use. It keeps nothing for its keys: a process may
// meet millions of them. A limiter that nobody uses expires, by default after two
// intervals, when its permits are back in any case. So made-up keys fill neither Redis
// nor the process.
type Template struct {
	client *Client
	name   string
	policy outage.Policy
	spec   *templateSpec
	err    error // why it cannot be used, nil if it can
}

var _ limit.Keyed = (*Template)(nil)

// A templateSpec is what all limiters of a Template have.
type templateSpec struct {
	name   string
	policy string // the name, if visitors may see it (Result.Policy)
	sets   *engine.Template
	other  atomic.Bool // a limiter has been found that has another rate
}

// differs reports whether the rate that a limiter has is not that of the Template, the first time
// that it is.
func (s *templateSpec) differs(v engine.Verdict) bool {
	if s == nil || v.Limit == 0 || v.Degraded {
		return false
	}
	same := v.Limit == s.sets.Rate.Permits && v.Every == s.sets.Rate.Interval.Milliseconds()
	return !same && s.other.CompareAndSwap(false, true)
}

// policyName returns a name if visitors may see it: it has 1 to 64 characters of ASCII that can be
// printed.
func policyName(name string) string {
	const longest = 64
	if len(name) > longest || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return name
}

const (
	// maxKey is how many bytes a key of a Template has at most.
	maxKey = 1024

	// A limiter of a Template expires after so many intervals, unless WithKeepAlive says
	// otherwise.
	templateKeeps = 2
)

// Template returns a Template whose limiters give out rate permits per interval, to all
// clients together (Overall).
//
// Of the options, WithKeepAlive sets for how long a limiter stays that nobody uses. The
// default is two intervals; 0 is for ever, and then made-up keys can fill Redis. The time to
// live is set anew when an eighth of it has passed, not by each call.
// WithUpdate gives the rate also to limiters that have another one. Without it they
// keep theirs, as with TrySetRate.
//
// name is not empty. On a cluster and a Ring a brace in it must be part of a hash tag, as in
// "{api}:user". The other bounds are those of TrySetRate. An argument that is refused is an
// ErrInvalidArgument of each call.
func (c *Client) Template(
	name string, rate int64, interval time.Duration, opts ...RateOption,
) *Template {
	t := &Template{client: c, name: name, policy: c.policy, err: c.host.Err}
	change := rateChange{Config: Config{Overall, rate, interval, 0}}
	if t.err == nil {
		t.err = change.complete(opts)
	}
	switch {
	case t.err != nil:
	case name == "":
		t.err = engine.Invalid("name", `""`, "not be empty")
	case !change.keepSet:
		change.KeepAlive = min(math.MaxInt64/templateKeeps, change.Interval) * templateKeeps
	}
	t.err = engine.Misconfigured(engine.Named(t.err, name))
	t.spec = &templateSpec{name: name, policy: policyName(name)}
	t.spec.sets = engine.NewTemplate(change.rate(), change.update)
	return t
}

// Validate returns an ErrMisconfigured if each call would fail for what Template was given, or the
// Client (limit.Validator).
func (t *Template) Validate() error { return t.RateLimiter("key").Validate() }

// RateLimiter returns the limiter of a key. It does not ask Redis, and is cheap enough
// to be made for each request. Its acquires set the rate where none is set; Peek tells
// what they would find, and Release does nothing. A key that is empty, has braces or
// more than 1,024 bytes is an ErrInvalidArgument of each call.
func (t *Template) RateLimiter(key string) *RateLimiter {
	e := t.client.engine
	name, err := t.limiterName(key)
	if err != nil {
		return newRateLimiter(t.client, e.Unusable(t.name, t.spec.sets, err), t.policy, t.spec)
	}
	return newRateLimiter(t.client, e.Limiter("name", name, t.spec.sets), t.policy, t.spec)
}

// WithFallback returns a Template of the same limiters that fall back to f, as
// RateLimiter.WithFallback does.
func (t *Template) WithFallback(f Fallback) *Template {
	other := *t
	other.policy = t.policy.With(int(f))
	return &other
}

// limiterName returns the name of the limiter of a key.
func (t *Template) limiterName(key string) (string, error) {
	switch {
	case t.err != nil:
		return "", t.err
	case key == "":
		return "", engine.Invalid("key", `""`, "not be empty")
	case len(key) > maxKey:
		return "", engine.Invalid("key", fmt.Sprintf("of %d bytes", len(key)),
			fmt.Sprintf("have at most %d", maxKey))
	case strings.ContainsAny(key, "{}"): // it could be the limiter of another template
		return "", engine.Invalid("key", fmt.Sprintf("%.60q", key), "be without braces")
	case strings.ContainsAny(t.name, "{}"):
		// The brackets keep the key "a:value" from being that of the value of "a".
		return t.name + ":[" + key + "]", nil
	}
	return t.name + ":{" + key + "}", nil
}

// Allow is that of the RateLimiter of a key.
func (t *Template) Allow(ctx context.Context, key string, permits int64) (Result, error) {
	return t.RateLimiter(key).Allow(ctx, permits)
}

// TryAcquire is that of the RateLimiter of a key.
func (t *Template) TryAcquire(
	ctx context.Context, key string, permits int64, timeout time.Duration,
) (bool, error) {
	return t.RateLimiter(key).TryAcquire(ctx, permits, timeout)
}

// Acquire is that of the RateLimiter of a key.
func (t *Template) Acquire(ctx context.Context, key string, permits int64) error {
	return t.RateLimiter(key).Acquire(ctx, permits)
}
