package grpclimit

import (
	"context"
	"net/http"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/redisson-go/rratelimiter/internal/admission"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/rules"
)

// UnaryServerRules is UnaryServerInterceptor with the limits of a file. The path of a call is its full
// method, so "/package.Service/Method" is a route, and "/package.Service/" the route of a whole
// service; its method is POST, its header the metadata, and its address that of ByPeer.
//
// user returns the name of an authenticated user, empty for no user; it may be nil. Its errors are
// treated like those of a Key, and WithTimeout does not bound it. The subjects of QuotaFailure are the
// names of the limits in the file. The Key of a Decision is the full method. Permits that a call holds
// while it runs come back when its handler has returned. With WithSettle or WithActual the limits that
// the file marks are settled, all by one Settle; after a panic their estimates count, whatever WithActual
// says. It panics if r is nil.
func UnaryServerRules(r *rules.Rules, user Key, opts ...ServerOption) grpc.UnaryServerInterceptor {
	g := newRulesGate(r, opts)
	return func(
		ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
	) (any, error) {
		a := asker{booking: g.newBooking(ctx, info.FullMethod), rules: r, user: user}
		defer a.done(ctx)
		return a.booking.serveUnary(req, handler, a.ask)
	}
}

// StreamServerRules is UnaryServerRules for streams, as StreamServerInterceptor is. With
// WithPerMessage a message holds its permits until the next one is received.
func StreamServerRules(r *rules.Rules, user Key, opts ...ServerOption) grpc.StreamServerInterceptor {
	g := newRulesGate(r, opts)
	return func(
		srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
	) error {
		a := asker{booking: g.newBooking(stream.Context(), info.FullMethod), rules: r, user: user}
		defer a.done(stream.Context())
		return a.booking.serveStream(srv, stream, handler, a.ask)
	}
}

func newRulesGate(r *rules.Rules, opts []ServerOption) *gate {
	if r == nil {
		panic("grpclimit: the rules are nil")
	}
	g := &gate{key: ByMethod, timeout: defaultTimeout} // an asker asks the rules
	for _, opt := range opts {
		opt.forServer(g)
	}
	g.refusePerMessage()
	return g
}

// An asker asks the rules about one call, or about each message of a stream, and keeps the permits that
// the last one holds.
type asker struct {
	booking *booking
	rules   *rules.Rules
	user    Key

	mu    sync.Mutex // a message may be received while the handler returns
	grant rules.Grant
}

// ask makes one attempt within the timeout.
func (a *asker) ask(ctx context.Context, fullMethod string, permits int64) (limit.Result, error) {
	a.done(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	call := rules.Call{
		Method: http.MethodPost, Path: fullMethod, Route: fullMethod,
		Header: func(name string) []string {
			if name == "Host" {
				name = ":authority" // the host of a call
			}
			return metadata.ValueFromIncomingContext(ctx, name)
		},
		Address: func() (string, error) { return ByPeer(ctx, fullMethod) },
		Timeout: a.booking.gate.timeout,
	}
	if a.user != nil {
		call.User = func() (string, error) {
			name, err := a.user(ctx, fullMethod)
			if err != nil {
				err = admission.KeyError{Err: err}
			}
			return name, err
		}
	}
	var err error
	a.grant, err = a.rules.Allow(ctx, call, permits)
	b := a.booking
	b.key, b.Estimate, b.Several, b.Reservation = fullMethod, permits, true, a.grant.Reservation()
	return a.grant.Result, err
}

// done gives back the permits that are held. If that fails, they come back when their lease ends.
func (a *asker) done(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.grant.Running() {
		ctx, cancel := a.booking.gate.within(context.WithoutCancel(ctx))
		defer cancel()
		_ = a.grant.Done(ctx)
	}
}
