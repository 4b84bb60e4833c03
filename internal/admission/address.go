package admission

import (
	"net/http"
	"net/netip"
	"strings"
)

// ParseAddr parses an address with or without a port; some proxies append one. IPv4 in IPv6 becomes
// IPv4. A zone is dropped: it means nothing on other machines, and each would be another key.
func ParseAddr(text string) (netip.Addr, bool) {
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
	return addr.Unmap().WithZone(""), true
}

// Unix is the key of all clients of a Unix socket: a proxy on this machine.
const Unix = "unix"

// AddressKey returns the key of an address from ParseAddr: the address itself for IPv4, and the /64
// for IPv6, which is the least that one customer is given.
func AddressKey(addr netip.Addr) string {
	if addr.Is4() {
		return addr.String()
	}
	return netip.PrefixFrom(addr, 64).Masked().String()
}

// Header returns the values of a header field, whose name must be canonical; also those of Host, which
// net/http keeps outside of Request.Header.
func Header(r *http.Request, name string) []string {
	if name == "Host" && r.Host != "" {
		return []string{r.Host}
	}
	return r.Header[name]
}
