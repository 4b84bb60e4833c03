package httplimit

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/redisson-go/rratelimiter/internal/admission"
)

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
	return func(r *http.Request) (string, error) {
		addr, ok := admission.ParseAddr(r.RemoteAddr)
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
// The entries of X-Forwarded-For are read from the right, where your proxies append. The key is the
// first address that is not a proxy. Entries to the left of it are ignored, because a visitor can
// write them. If RemoteAddr is not a proxy, it is the key, and the field is ignored; what connects through
// a Unix socket is a proxy. If all entries are proxies, or the next entry cannot be parsed, the key is the
// last proxy.
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
	isProxy := func(addr netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
	}
	return func(r *http.Request) (string, error) {
		addr, ok := admission.ParseAddr(r.RemoteAddr)
		for chain := chainOf(r); ok && isProxy(addr) || !ok && local(r); {
			before, there := admission.ParseAddr(chain.next())
			if !there {
				break
			}
			addr, ok = before, true
		}
		return addressKey(addr, ok, r)
	}, nil
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
	return func(r *http.Request) (string, error) {
		addr, ok := admission.ParseAddr(r.RemoteAddr)
		chain := chainOf(r)
		for range n {
			before, there := admission.ParseAddr(chain.next())
			if !there {
				break
			}
			addr, ok = before, true
		}
		return addressKey(addr, ok, r)
	}, nil
}

// A chain is X-Forwarded-For, read from the right. If the field is there several times, its lines
// form one list (RFC 9110, section 5.3).
type chain struct {
	lines []string // unread lines
	rest  string   // the unread part of the current line
	more  bool     // rest has an entry, which may be empty
}

func chainOf(r *http.Request) chain { return chain{lines: r.Header["X-Forwarded-For"]} }

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
