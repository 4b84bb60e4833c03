package grpclimit

import (
	"context"
	"fmt"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/redisson-go/rratelimiter/internal/admission"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Key returns the key of the limit of a call. fullMethod is "/package.Service/Method", and ctx is
// the context of the call. An error that wraps limit.ErrInvalidArgument refuses the call with
// INVALID_ARGUMENT. A gRPC status (package status) goes to the caller unchanged. Any other error
// refuses the call with UNAVAILABLE, even with WithFailOpen: no call bypasses a limit with a broken
// key.
type Key func(ctx context.Context, fullMethod string) (string, error)

// ByMethod is a Key that gives each method a limit. The key is its full name.
func ByMethod(_ context.Context, fullMethod string) (string, error) { return fullMethod, nil }

// ByPeer is a Key that gives each address of a peer a limit, for servers. The key is an IPv4 address,
// such as "192.0.2.1", or a /64 of IPv6, such as "2001:db8::/64", because one peer has all addresses
// of a /64. All peers of a Unix socket have the key "unix". For another transport it is the text of the
// address; if that is empty, the error is a limit.ErrInvalidArgument.
//
// Behind a proxy the peer is the proxy. Metadata such as x-forwarded-for is not read, because any
// client can send it.
func ByPeer(ctx context.Context, _ string) (string, error) {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return "", fmt.Errorf("%w: the call has no peer", limit.ErrInvalidArgument)
	}
	if p.Addr.Network() == "unix" {
		return admission.Unix, nil
	}
	text := p.Addr.String()
	if address, ok := admission.ParseAddr(text); ok {
		return admission.AddressKey(address), nil
	}
	if text == "" {
		return "", fmt.Errorf("%w: the peer has no address", limit.ErrInvalidArgument)
	}
	return text, nil
}

// ByMetadata returns a Key that gives each value of the metadata called name a limit, for servers.
// Without a value, or with several, of which the handler might use another, the error is a
// limit.ErrInvalidArgument.
//
// The client chooses the value, and may change it with each call. Put the interceptor behind one
// that checks the value.
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
