package grpclimit

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/redisson-go/rratelimiter/limit"
)

// A Key returns which limit a call falls under. fullMethod is "/package.Service/Method".
// ctx is that of the call. An error that wraps limit.ErrInvalidArgument refuses the call
// with INVALID_ARGUMENT. One that is a gRPC status, as of package status, is returned to
// the caller as it is. Any other error refuses it with UNAVAILABLE, also with WithFailOpen:
// nobody gets around a limit by a key that fails.
type Key func(ctx context.Context, fullMethod string) (string, error)

// ByMethod is the Key that has one limit for each method: its full name.
func ByMethod(_ context.Context, fullMethod string) (string, error) { return fullMethod, nil }

// ipv6Bits is how much of an IPv6 address tells one peer from another: a network of 64
// bits is the least that one customer is given.
const ipv6Bits = 64

// ByPeer is the Key that has one limit for each address of a peer, for servers. IPv4 is
// as it is, "192.0.2.1"; IPv6 is by its network, "2001:db8::/64", because one peer has
// all addresses of it. Another transport has the text of its address; an empty one is an
// ErrInvalidArgument.
//
// Behind a proxy the peer is the proxy. Headers such as x-forwarded-for are not read:
// anybody can send them.
func ByPeer(ctx context.Context, _ string) (string, error) {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return "", fmt.Errorf("%w: the call has no peer", limit.ErrInvalidArgument)
	}
	address, ok := addressOf(p.Addr)
	switch {
	case ok && address.Is6():
		return netip.PrefixFrom(address, ipv6Bits).Masked().String(), nil
	case ok:
		return address.String(), nil
	case p.Addr.String() == "":
		return "", fmt.Errorf("%w: the peer has no address", limit.ErrInvalidArgument)
	}
	return p.Addr.String(), nil
}

// addressOf returns the IP address of a peer. An IPv4 address inside of IPv6 is IPv4.
func addressOf(addr net.Addr) (address netip.Addr, ok bool) {
	if tcp, isTCP := addr.(*net.TCPAddr); isTCP {
		return tcp.AddrPort().Addr().Unmap(), tcp.AddrPort().Addr().IsValid()
	}
	if both, err := netip.ParseAddrPort(addr.String()); err == nil {
		return both.Addr().Unmap(), true
	}
	address, err := netip.ParseAddr(addr.String())
	return address.Unmap(), err == nil
}

// ByMetadata returns the Key that has one limit for each value of the metadata called
// name, for servers. A call without a value, or with several, is an ErrInvalidArgument:
// of several nobody knows which one the handler goes by.
//
// The client chooses what it sends, and may send another value with each call. So put
// the interceptor behind one that has checked the value.
func ByMetadata(name string) Key {
	return func(ctx context.Context, _ string) (string, error) {
		values := metadata.ValueFromIncomingContext(ctx, name)
		if len(values) != 1 || values[0] == "" {
			return "", fmt.Errorf("%w: %d values of metadata %q, must be one that is not empty",
				limit.ErrInvalidArgument, len(values), name)
		}
		return values[0], nil
	}
}
