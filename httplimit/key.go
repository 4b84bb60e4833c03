package httplimit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
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

// FirstOf returns a KeyFunc for the first key that a request has: for example its API key, or else its
// address. Different functions must not return the same key for different visitors; ByHeader, ByRoute and
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

// ByAddress gives each address a limit: that of the other end of the connection,
// http.Request.RemoteAddr. It reads no header field, because a visitor can write any. Behind a proxy
// it is the address of the proxy, and all visitors share its limit; use ByAddressVia or
// ByAddressViaCount there. There is no safe default beyond RemoteAddr, because only you know which
// proxies are yours.
//
// The key is an IPv4 address, or a /64 of IPv6, such as "2001:db8::/64", because a visitor has all
// addresses of a /64. Requests through a Unix socket have the key "unix", because a proxy on this machine
// sent them. If the address cannot be parsed, the error is an ErrNoKey.
func ByAddress() KeyFunc {
	return behind(func(int, netip.Addr, bool) bool { return false })
}

// behind returns a KeyFunc that reads X-Forwarded-For from the right, as long as trusted reports that the
// last address is one of a proxy. hops is the number of entries that were read. Without an address addr is
// invalid; unix reports that this is so because the request came through a Unix socket.
func behind(trusted func(hops int, addr netip.Addr, unix bool) bool) KeyFunc {
	return func(r *http.Request) (string, error) {
		addr, ok := admission.ParseAddr(r.RemoteAddr)
		chain := chain{lines: r.Header["X-Forwarded-For"]}
		for hops := 0; trusted(hops, addr, !ok && local(r)); hops++ {
			before, there := admission.ParseAddr(chain.next())
			if !there {
				break
			}
			addr, ok = before, true
		}
		return addressKey(addr, ok, r)
	}
}

// local reports whether a request came through a Unix socket.
func local(r *http.Request) bool {
	return strings.HasPrefix(r.RemoteAddr, "@") || strings.HasPrefix(r.RemoteAddr, "/")
}

// ByAddressVia is ByAddress behind proxies with known addresses. Each proxy is an address
// or a CIDR, such as "10.0.0.0/8". List your own proxies only.
//
// The entries of X-Forwarded-For are read from the right, where your proxies append. The key is the first
// address that is not a proxy. Entries to the left of it are ignored, because a visitor can write them. If
// RemoteAddr is not a proxy, it is the key, and the field is ignored; a peer on a Unix socket counts as a
// proxy. If all entries are proxies, or the next entry cannot be parsed, the key is the last proxy.
//
// If proxies is empty or one of them cannot be parsed, the error is a limit.ErrInvalidArgument.
func ByAddressVia(proxies ...string) (KeyFunc, error) {
	if len(proxies) == 0 {
		return nil, invalid("ByAddressVia", "proxies", "empty", "name one proxy or more")
	}
	trusted := make([]netip.Prefix, len(proxies))
	for i, proxy := range proxies {
		prefix, ok := parseProxy(proxy)
		if !ok {
			return nil, invalid("ByAddressVia", fmt.Sprintf("proxy %d", i+1), fmt.Sprintf("%q", proxy),
				"be an address or a CIDR, of IPv4 or IPv6")
		}
		trusted[i] = prefix
	}
	return behind(func(_ int, addr netip.Addr, unix bool) bool {
		return unix || slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
	}), nil
}

// parseProxy parses an address or a CIDR. It rejects a CIDR of IPv4 in IPv6, which would contain no
// address, because addresses are compared as IPv4.
func parseProxy(text string) (netip.Prefix, bool) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix, !prefix.Addr().Is4In6()
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return netip.Prefix{}, false
	}
	addr = addr.Unmap()
	return netip.PrefixFrom(addr, addr.BitLen()), true
}

// ByAddressViaCount is ByAddress behind n proxies, at least 1, that each append an address to
// X-Forwarded-For. The key is the nth address from the right. If there are fewer, or an entry cannot
// be parsed, the key is the last address before it, and without the field RemoteAddr.
//
// It is safe only if all requests reach this server through all n proxies: any other client is free
// to write the address. If n is below 1, the error is a limit.ErrInvalidArgument.
func ByAddressViaCount(n int) (KeyFunc, error) {
	if n < 1 {
		return nil, invalid("ByAddressViaCount", "n", n, "be at least 1")
	}
	return behind(func(hops int, _ netip.Addr, _ bool) bool { return hops < n }), nil
}

// A chain is X-Forwarded-For, read from the right. If the field is there several times, its lines
// form one list (RFC 9110, section 5.3).
type chain struct {
	lines []string // unread lines
	rest  string   // the unread part of the current line
	more  bool     // rest has an entry, which may be empty
}

// next returns the next entry to the left, empty if there is none.
func (c *chain) next() string {
	if !c.more {
		last := len(c.lines) - 1
		if last < 0 {
			return ""
		}
		c.lines, c.rest = c.lines[:last], c.lines[last]
	}
	comma := strings.LastIndexByte(c.rest, ',')
	entry := c.rest[comma+1:]
	c.rest, c.more = c.rest[:max(0, comma)], comma >= 0
	return strings.TrimSpace(entry)
}

// addressKey returns the key of addr, which is that of r if ok is true.
func addressKey(addr netip.Addr, ok bool, r *http.Request) (string, error) {
	if !ok && local(r) {
		return admission.Unix, nil
	}
	if !ok {
		return "", fmt.Errorf("%w: RemoteAddr is %q, must be an address", ErrNoKey, r.RemoteAddr)
	}
	return admission.AddressKey(addr), nil
}
