package httplimit

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// ByAddress limits by the address of the other end of the connection,
// http.Request.RemoteAddr. No header field is read, because a visitor can write any. Behind
// a proxy it is the address of the proxy, and all visitors share its limit:
// ByAddressVia and ByAddressViaCount are for that. There is no safe default beyond this,
// because only you know which proxies are yours.
//
// The key is an IPv4 address, or a /64 of IPv6, such as "2001:db8::/64", because a visitor
// has all addresses of a /64. An address that cannot be read, as that of a Unix socket, is an
// ErrNoKey.
func ByAddress() KeyFunc {
	return func(r *http.Request) (string, error) {
		addr, ok := parseAddr(r.RemoteAddr)
		return addressKey(addr, ok, r)
	}
}

// ByAddressVia is ByAddress behind proxies with known addresses. Each proxy is an address
// or a CIDR, such as "10.0.0.0/8"; only those of your own proxies may be among them.
//
// The chain of X-Forwarded-For is read from the right, where your proxies append. The key
// is the first address that is not a proxy. What stands to the left of it is ignored,
// because a visitor can write it. If RemoteAddr is not a proxy, it is the key, and the
// field is ignored. If all are proxies, or what follows cannot be read, the key is the
// last proxy.
//
// If proxies is empty or one of them cannot be read, the error is a
// limit.ErrInvalidArgument.
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
		for _, prefix := range trusted {
			if prefix.Contains(addr) {
				return true
			}
		}
		return false
	}
	return func(r *http.Request) (string, error) {
		addr, ok := parseAddr(r.RemoteAddr)
		for chain := chainOf(r); ok && isProxy(addr); {
			before, there := parseAddr(chain.next())
			if !there {
				break
			}
			addr = before
		}
		return addressKey(addr, ok, r)
	}, nil
}

// parseProxy reads an address or a CIDR. A CIDR of IPv4 addresses that are written as IPv6
// would contain nothing, because addresses are compared as IPv4.
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
// X-Forwarded-For. The key is the nth address from the right. If there are fewer, or some
// cannot be read, it is the last one before that, and without the field RemoteAddr.
//
// It holds only if nobody can reach this server other than through all n proxies: whoever can
// is free to write the address. If n is below 1, the error is a limit.ErrInvalidArgument.
func ByAddressViaCount(n int) (KeyFunc, error) {
	if n < 1 {
		return nil, invalid("ByAddressViaCount", "n", n, "be at least 1")
	}
	return func(r *http.Request) (string, error) {
		addr, ok := parseAddr(r.RemoteAddr)
		chain := chainOf(r)
		for range n {
			before, there := parseAddr(chain.next())
			if !there {
				break
			}
			addr, ok = before, true
		}
		return addressKey(addr, ok, r)
	}, nil
}

// A chain is X-Forwarded-For, read from the right. The field may be there several times:
// the lines are one list (RFC 9110, section 5.3).
type chain struct {
	lines []string // that have not been read
	rest  string   // of the line that is being read
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

// parseAddr reads an address with or without a port; some proxies append one.
func parseAddr(text string) (netip.Addr, bool) {
	var addr netip.Addr
	if colon := strings.IndexByte(text, ':'); strings.HasPrefix(text, "[") && !strings.HasSuffix(text, "]") ||
		colon >= 0 && strings.IndexByte(text[colon+1:], ':') < 0 {
		withPort, err := netip.ParseAddrPort(text)
		if err != nil {
			return addr, false
		}
		addr = withPort.Addr()
	} else {
		var err error
		if addr, err = netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")); err != nil {
			return addr, false
		}
	}
	// A zone is not part of an address elsewhere, and any would be another key.
	return addr.Unmap().WithZone(""), true
}

func addressKey(addr netip.Addr, ok bool, r *http.Request) (string, error) {
	if !ok {
		return "", fmt.Errorf("%w: RemoteAddr is %q, must be an address", ErrNoKey, r.RemoteAddr)
	}
	if addr.Is4() {
		return addr.String(), nil
	}
	prefix, err := addr.Prefix(64)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoKey, err)
	}
	return prefix.String(), nil
}
