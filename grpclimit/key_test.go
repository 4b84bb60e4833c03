package grpclimit_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/redisson-go/rratelimiter/grpclimit"
	"github.com/redisson-go/rratelimiter/limit"
)

// A text is an address of another transport.
type text string

func (text) Network() string  { return "other" }
func (a text) String() string { return string(a) }

// The key is the IPv4 address or the /64 of IPv6, whatever the port.
func TestByPeer(t *testing.T) {
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 50051} }
	for _, test := range []struct {
		addr net.Addr
		want string // empty: ErrInvalidArgument
	}{
		{tcp("192.0.2.1"), "192.0.2.1"},
		{tcp("::ffff:192.0.2.1"), "192.0.2.1"},
		{tcp("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64"},
		{text("[2001:db8::7]:1234"), "2001:db8::/64"},
		{text("bufconn"), "bufconn"},
		{text(""), ""},
		{&net.UnixAddr{Net: "unix"}, "unix"},
		{&net.TCPAddr{Port: 1}, ":1"},
		{nil, ""},
	} {
		got, err := grpclimit.ByPeer(peer.NewContext(t.Context(), &peer.Peer{Addr: test.addr}), "")
		if got != test.want || errors.Is(err, limit.ErrInvalidArgument) != (test.want == "") {
			t.Errorf("%v: %q, %v; want %q", test.addr, got, err, test.want)
		}
	}
	if _, err := grpclimit.ByPeer(t.Context(), ""); !errors.Is(err, limit.ErrInvalidArgument) {
		t.Errorf("without a peer: %v", err)
	}
}

// Metadata is a key if it has one value; its name ignores case.
func TestByMetadata(t *testing.T) {
	for _, test := range []struct {
		values []string
		want   string // empty: ErrInvalidArgument
	}{
		{[]string{"alice"}, "alice"},
		{nil, ""},
		{[]string{""}, ""},
		{[]string{"alice", "bob"}, ""},
	} {
		md := metadata.MD{}
		md.Append("x-user", test.values...)
		got, err := grpclimit.ByMetadata("X-User")(metadata.NewIncomingContext(t.Context(), md), "")
		if got != test.want || errors.Is(err, limit.ErrInvalidArgument) != (test.want == "") {
			t.Errorf("%v: %q, %v; want %q", test.values, got, err, test.want)
		}
	}
	if _, err := grpclimit.ByMetadata("x-user")(context.Background(), ""); err == nil {
		t.Error("no error without metadata")
	}
}
