package httplimit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/redisson-go/rratelimiter/internal/admission"
)

// A KeyFunc returns the key of a request, such as the name of its user. Requests with the same key
// share a limit. Many goroutines call it at once.
//
// With the error ErrNoLimit the request is passed on without asking the limiter. With an
// ErrNoKey, a limit.ErrInvalidArgument or an empty key it is refused with 400, with any
// other error with 503. No visitor bypasses the limit with a broken key.
//
// A key that a visitor writes may be long, and may look like the key of another visitor; ByHeader
// hashes the value for that reason. A Keyed refuses keys with braces, and all limiters in Redis
// refuse keys that are too long, with a limit.ErrInvalidArgument.
type KeyFunc func(*http.Request) (string, error)

// The errors of this package, besides limit.ErrInvalidArgument. Test with errors.Is:
// http.Client wraps those of a RoundTripper.
var (
	// ErrNoLimit is returned by a KeyFunc or a CostFunc if the request needs no permits, such as
	// a health check.
	ErrNoLimit = errors.New("httplimit: no limit for this request")

	// ErrNoKey is returned if a request has no key. A Middleware refuses it with 400.
	ErrNoKey = errors.New("httplimit: no key for this request")

	// ErrWait is returned if an outgoing request was not sent, because its turn would have come
	// too late.
	ErrWait = errors.New("httplimit: the wait is too long")
)

// errEmptyKey is the error of an empty key without an error.
var errEmptyKey = fmt.Errorf("%w: the key is empty, must not be", ErrNoKey)

// Constant returns a KeyFunc with the same key for all requests, for limit.Shared and for limits of a
// whole service. With an empty key each request fails with an ErrNoKey.
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

// ByRoute gives each route a limit. The key is the pattern of the http.ServeMux that matched,
// http.Request.Pattern, with <> in place of {}: "GET /users/<id>". The mux sets it before it calls a
// handler, so wrap the handlers that you register, not the mux. Without a pattern the error is an
// ErrNoKey.
func ByRoute() KeyFunc {
	return func(r *http.Request) (string, error) {
		if r.Pattern == "" {
			return "", fmt.Errorf("%w: Pattern is empty: wrap the handlers of a mux, not the mux", ErrNoKey)
		}
		return braces.Replace(r.Pattern), nil
	}
}

// ByHeader gives each value of a header field a limit, for example each API key. Check the value
// first: a visitor that can invent values gets a new limit with each.
//
// The key is a hash, so that secrets do not reach Redis, long values do no harm, and no value equals
// the key of another KeyFunc: 32 hexadecimal digits, the first half of the SHA-256 of the field's
// name in lower case, a colon and the value. Without the field, with an empty value or with several
// values the error is an ErrNoKey; FirstOf tries another key.
func ByHeader(name string) KeyFunc {
	prefix, name := strings.ToLower(name)+":", http.CanonicalHeaderKey(name)
	return func(r *http.Request) (string, error) {
		values := admission.Header(r, name)
		if len(values) != 1 || values[0] == "" {
			return "", fmt.Errorf("%w: field %q has %d values, must have 1 that is not empty",
				ErrNoKey, name, len(values))
		}
		return hashed(prefix, values[0]), nil
	}
}

// hashed returns half a SHA-256: 128 bits are enough that the value for a key cannot be found.
func hashed(prefix, value string) string {
	var room [256]byte
	sum := sha256.Sum256(append(append(room[:0], prefix...), value...))
	var digits [32]byte
	hex.Encode(digits[:], sum[:16])
	return string(digits[:])
}

// ByHost gives each host of outgoing requests a limit, for a Pacer. The key includes the port if the
// URL has one. Without a host the error is an ErrNoKey.
func ByHost() KeyFunc {
	return func(r *http.Request) (string, error) {
		if r.URL == nil || r.URL.Host == "" {
			return "", fmt.Errorf("%w: the URL has no host", ErrNoKey)
		}
		return strings.ToLower(r.URL.Host), nil
	}
}

// FirstOf returns the first key that a request has: for example its API key, or else its address.
// Different functions must not return the same key for different visitors; ByHeader, ByRoute and
// ByAddress never do. If keys is empty or contains nil, the error is a limit.ErrInvalidArgument.
func FirstOf(keys ...KeyFunc) (KeyFunc, error) {
	if len(keys) == 0 {
		return nil, invalid("FirstOf", "keys", "empty", "have one or more")
	}
	for i, key := range keys {
		if key == nil {
			return nil, nilArgument("FirstOf", fmt.Sprintf("key %d", i+1))
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
