package rratelimiter

import (
	"fmt"
	"strings"
	"time"

	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/host"
	"github.com/redisson-go/rratelimiter/internal/outage"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Keyed has a limit for each of many keys: users, addresses, customers. The limiters
// are ordinary ones, which Java can use as well, but no program needs to set their rate:
// if none is set, or a different one, the acquire sets it in the same round trip. So
// ErrNotInitialized cannot happen, not even after the keep alive has passed or Redis has
// lost its data.
//
// The limiter of a key is called NAME:{KEY}, for example "api:{42}". If the name
// of the Keyed has a hash tag already, it is NAME:[KEY]: with the name
// "{api}:user" all users live in one slot of a cluster, and can be in a [Group]
// with a limiter "{api}:all".
//
// A Keyed is safe for concurrent use. It keeps nothing for its keys: a process may meet millions of them. An
// unused limiter expires, by default after two intervals, when all its permits are back. So made-up keys fill
// neither Redis nor the memory of the process.
type Keyed struct {
	client *Client
	name   string
	policy outage.Policy
	rate   *givenRate
	err    error // why it cannot be used, nil if it can
}

var _ limit.Keyed[*RateLimiter] = (*Keyed)(nil)

// maxKey is the most bytes in a key of a Keyed.
const maxKey = 1024

// keyedIntervals is the number of intervals after which an unused limiter of a
// Keyed expires, unless WithKeepAlive sets another time.
const keyedIntervals = 2

// Keyed returns a Keyed whose limiters grant rate permits per interval, to all clients
// together (Overall).
//
// Each acquire sets rate, interval and keep alive if none are set, or if they differ, as
// RateLimiter.WithRate does; with WithKeepRate it leaves an existing rate alone. WithKeepAlive sets
// how long an unused limiter stays. The default is two intervals; 0 means forever, and then made-up
// keys can fill Redis. The time to live is renewed when an eighth of it has passed, not by each call.
//
// name must not be empty. On a cluster and a Ring, a brace in it must be part of a hash tag,
// as in "{api}:user". The other bounds are those of TrySetRate. If an argument is out of
// bounds, each call returns an ErrInvalidArgument.
func (c *Client) Keyed(
	name string, rate int64, interval time.Duration, opts ...RateOption,
) *Keyed {
	t := &Keyed{client: c, name: name, policy: c.policy, err: c.host.Err}
	if t.err == nil {
		t.rate, t.err = newGivenRate(ofKeyed, rate, interval, keyedIntervals, opts)
	}
	if t.err == nil && name == "" {
		t.err = failure.Invalid("name", `""`, "not be empty")
	}
	if t.err = failure.Misconfigured(failure.Named(t.err, name)); t.err == nil {
		t.rate.name, t.rate.policy = name, host.PolicyName(name)
	}
	return t
}

// Validate returns an ErrMisconfigured if each call would fail because of an argument of Keyed
// or New (limit.Validate).
func (t *Keyed) Validate() error { return t.For("key").Validate() }

// For returns the limiter of a key. It does not call Redis, and is cheap enough for each
// request. Acquires of the limiter set the rate if none is set, or a different one; Peek returns
// the numbers that they would find, and Release does nothing if none is set. If the key is empty,
// has braces or more than 1,024 bytes, each call returns an ErrInvalidArgument.
func (t *Keyed) For(key string) *RateLimiter {
	e := t.client.engine
	name, err := t.limiterName(key)
	if err != nil {
		return newRateLimiter(t.client, e.Unusable(t.name, err), t.policy, t.rate)
	}
	return newRateLimiter(t.client, e.Limiter("name", name, t.rate.engine()), t.policy, t.rate)
}

// String returns a text for people, such as `keyed rate limiter "visits"`. It does not ask
// Redis.
func (t *Keyed) String() string { return fmt.Sprintf("keyed rate limiter %q", t.name) }

// WithFallback returns a Keyed of the same limiters that fall back to f, as
// RateLimiter.WithFallback does.
func (t *Keyed) WithFallback(f Fallback) *Keyed {
	other := *t
	other.policy = t.policy.With(int(f))
	return &other
}

// WithLease returns a Keyed of the same limiters that take permits ahead, as RateLimiter.WithLease does.
// Only keys that are used often are leased.
func (t *Keyed) WithLease(o LeaseOptions) *Keyed {
	other := *t
	policy, err := leasing(t.policy, o)
	if other.policy = policy; other.err == nil {
		other.err = failure.Misconfigured(failure.Named(err, t.name))
	}
	return &other
}

// limiterName returns the name of the limiter of a key.
func (t *Keyed) limiterName(key string) (string, error) {
	switch {
	case t.err != nil:
		return "", t.err
	case key == "":
		return "", failure.Invalid("key", `""`, "not be empty")
	case len(key) > maxKey:
		return "", failure.Invalid("key", fmt.Sprintf("of %d bytes", len(key)),
			fmt.Sprintf("have at most %d", maxKey))
	case strings.ContainsAny(key, "{}"): // it could name a limiter of another Keyed
		return "", failure.Invalid("key", fmt.Sprintf("%.60q", key), "be without braces")
	case strings.ContainsAny(t.name, "{}"):
		// The brackets keep the key "a:value" from being that of the value of "a".
		return t.name + ":[" + key + "]", nil
	}
	return t.name + ":{" + key + "}", nil
}
