package httplimit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// A KeyFunc returns what a request is limited by, such as the name of its user. Requests
// with one key share a limit. It is called by many goroutines at once.
//
// With the error ErrNoLimit the request is passed on without asking the limiter. With an
// ErrNoKey, a limit.ErrInvalidArgument or an empty key it is refused with 400, with any
// other error with 503. Nobody gets around the limit by a key that cannot be used.
//
// A key that a visitor writes may be long, and may look like another's. ByHeader hashes
// what it reads for that. A Keyed refuses keys with braces, and all limiters in Redis those that are
// too long, as an ErrInvalidArgument.
type KeyFunc func(*http.Request) (string, error)

// The errors of this package, besides limit.ErrInvalidArgument. Test with errors.Is:
// http.Client wraps those of a RoundTripper.
var (
	// ErrNoLimit is for a KeyFunc or a CostFunc to return: the request needs no permits,
	// for example because it asks for the health of the server.
	ErrNoLimit = errors.New("httplimit: no limit for this request")

	// ErrNoKey: the request lacks what it is limited by. A Middleware refuses it with 400.
	ErrNoKey = errors.New("httplimit: no key for this request")

	// ErrWait: an outgoing request was not sent, because its turn would have come too
	// late.
	ErrWait = errors.New("httplimit: the wait is too long")
)

// Constant returns a KeyFunc that has the same key for all requests, for limit.Shared and
// for limits of a whole service. An empty key is an ErrNoKey of each request.
func Constant(key string) KeyFunc {
	return func(*http.Request) (string, error) {
		if key == "" {
			return "", fmt.Errorf("%w: key of httplimit.Constant is empty, must not be", ErrNoKey)
		}
		return key, nil
	}
}

// braces are reserved in the names of keys on a Redis cluster.
var braces = strings.NewReplacer("{", "<", "}", ">")

// ByRoute limits each route by itself. The key is the pattern of the http.ServeMux that
// matched, http.Request.Pattern, with <> in place of {}: "GET /users/<id>". The mux sets
// it before it calls a handler: wrap the handlers that are given to the mux, not the mux.
// A request without a pattern is an ErrNoKey.
func ByRoute() KeyFunc {
	return func(r *http.Request) (string, error) {
		if r.Pattern == "" {
			return "", fmt.Errorf("%w: Pattern is empty: wrap the handlers of a mux, not the mux", ErrNoKey)
		}
		return braces.Replace(r.Pattern), nil
	}
}

// ByHeader limits by the value of a header field, such as an API key. The value must have
// been checked before: a visitor who can invent values has a new limit with each.
//
// The key is a hash, so that secrets do not get to Redis, long values do no harm, and no
// value is like the key of another KeyFunc: 32 hexadecimal digits, the first half of the
// SHA-256 of the field's name in lower case, a colon and the value. A request without the
// field, with an empty value or with several is an ErrNoKey; FirstOf limits it by
// something else. net/http keeps Host apart from the header, so ByHeader does not find it.
func ByHeader(name string) KeyFunc {
	prefix, name := strings.ToLower(name)+":", http.CanonicalHeaderKey(name)
	return func(r *http.Request) (string, error) {
		values := r.Header[name]
		if len(values) != 1 || values[0] == "" {
			return "", fmt.Errorf("%w: field %q has %d values, must have 1 that is not empty",
				ErrNoKey, name, len(values))
		}
		return hashed(prefix, values[0]), nil
	}
}

// hashed returns half a SHA-256: 128 bits, so that nobody can find the value for a key.
func hashed(prefix, value string) string {
	var room [256]byte
	sum := sha256.Sum256(append(append(room[:0], prefix...), value...))
	var digits [32]byte
	hex.Encode(digits[:], sum[:16])
	return string(digits[:])
}

// ByHost limits by the host that an outgoing request goes to, with its port if the URL has
// one: for a Pacer. A request without a host is an ErrNoKey.
func ByHost() KeyFunc {
	return func(r *http.Request) (string, error) {
		if r.URL == nil || r.URL.Host == "" {
			return "", fmt.Errorf("%w: the URL has no host", ErrNoKey)
		}
		return strings.ToLower(r.URL.Host), nil
	}
}

// FirstOf limits by the first of keys that has a key: by an API key if there is one, and by
// address otherwise. See to it that two of them do not have the same key for different
// visitors. ByHeader, ByRoute and ByAddress do not. If keys is empty or holds a nil, the error
// is a limit.ErrInvalidArgument.
func FirstOf(keys ...KeyFunc) (KeyFunc, error) {
	if len(keys) == 0 {
		return nil, invalid("FirstOf", "keys", "empty", "have one or more")
	}
	for i, key := range keys {
		if key == nil {
			return nil, invalid("FirstOf", fmt.Sprintf("key %d", i+1), nil, "not be nil")
		}
	}
	return func(r *http.Request) (key string, err error) {
		for _, f := range keys {
			key, err = f(r)
			if !errors.Is(err, ErrNoKey) && (err != nil || key != "") {
				break
			}
		}
		return key, err
	}, nil
}
