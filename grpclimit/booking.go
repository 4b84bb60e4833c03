package grpclimit

import (
	"context"
	"io"
	"math"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/redisson-go/rratelimiter/internal/admission"
	"github.com/redisson-go/rratelimiter/limit"
)

// A booking is the reservation of one call.
type booking struct {
	admission.Held
	gate    *gate
	ctx     context.Context // of the call
	key     string
	permits int64
	several bool // limits were asked, each with its own estimate

	once    sync.Once  // guards the settlement by WithActual
	mu      sync.Mutex // a message may be received while another is sent
	outcome Outcome    // guarded by mu
}

func (g *gate) newBooking(ctx context.Context, fullMethod string) *booking {
	b := &booking{gate: g, ctx: ctx, outcome: Outcome{FullMethod: fullMethod}}
	b.Timeout = g.timeout
	if g.hook != nil {
		b.OnError = func(err error) {
			g.hook(ctx, Decision{
				FullMethod: fullMethod, Key: b.key, Permits: b.permits, Err: err, Passed: true,
			})
		}
	}
	return b
}

// allow makes one attempt within the timeout.
func (b *booking) allow(ctx context.Context, key string, permits int64) (result limit.Result, err error) {
	ctx, cancel := b.gate.within(ctx)
	defer cancel()
	b.key, b.permits = key, permits
	b.Reservation, result, err = b.gate.reserver.TryReserve(ctx, key, permits)
	b.several = result.Each != nil
	return result, err
}

// wait waits for the permits of a client in the line of the limiter.
func (b *booking) wait(ctx context.Context, key string, permits int64) (result limit.Result, err error) {
	timeout := b.gate.maxWait
	switch {
	case b.gate.shadow || b.gate.bounded && timeout <= 0:
		return b.allow(ctx, key, permits)
	case !b.gate.bounded:
		timeout = math.MaxInt64
	}
	b.key, b.permits = key, permits
	b.Reservation, err = b.gate.reserver.Reserve(ctx, key, permits, timeout)
	return limit.Result{Allowed: b.Reservation != nil}, err
}

// in returns the context of the handler of a server.
func (b *booking) in() context.Context {
	if !b.gate.settles {
		return b.ctx
	}
	return b.In(b.ctx, place)
}

// end settles the call once, as WithActual says. After a panic nothing comes back; with rules or a Group,
// all their estimates count.
func (b *booking) end(panicked bool, err error) {
	least := int64(0)
	if panicked {
		least = b.permits
	}
	if b.gate.actual == nil || b.Reservation == nil || panicked && (b.several || b.gate.reserver == nil) {
		return
	}
	b.once.Do(func() {
		b.mu.Lock()
		o := b.outcome
		b.mu.Unlock()
		o.Err = err
		if actual := b.gate.actual(b.ctx, o); actual >= 0 {
			_ = b.Settle(b.ctx, max(least, actual)) // the hook has the error
		}
	})
}

// requested notes a message of the client, unless err is not nil.
func (b *booking) requested(message any, err error) {
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.outcome.Request = message
		b.outcome.Requests++
	}
}

// replied notes a message of the server, unless err is not nil.
func (b *booking) replied(message any, err error) {
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.outcome.Reply = message
		b.outcome.Replies++
	}
}

// pass decides whether the call goes on, and returns nil or its refusal.
func (b *booking) pass(message any, ask ask) *refusal {
	return b.gate.pass(b.ctx, b.outcome.FullMethod, message, ask)
}

// serveUnary serves a call on a server.
func (b *booking) serveUnary(req any, handler grpc.UnaryHandler, ask ask) (reply any, err error) {
	if r := b.pass(req, ask); r != nil {
		return nil, r.to(b.ctx)
	}
	panicked := true
	defer func() {
		b.outcome.Request, b.outcome.Reply = req, reply
		b.end(panicked, err)
	}()
	reply, err = handler(b.in(), req)
	panicked = false
	return reply, err
}

// serveStream serves a stream on a server.
func (b *booking) serveStream(
	srv any, stream grpc.ServerStream, handler grpc.StreamHandler, ask ask,
) (err error) {
	if r := b.pass(nil, ask); r != nil {
		stream.SetTrailer(r.trailer())
		return r.err()
	}
	panicked := true
	defer func() { b.end(panicked, err) }()
	err = handler(srv, &bookedStream{stream, b, b.in()})
	panicked = false
	return err
}

// A bookedStream counts the messages of a stream on a server.
type bookedStream struct {
	grpc.ServerStream
	booking *booking
	ctx     context.Context
}

// Context returns the context of the stream, for Settle.
func (s *bookedStream) Context() context.Context { return s.ctx }

// RecvMsg receives a message.
func (s *bookedStream) RecvMsg(message any) error {
	err := s.ServerStream.RecvMsg(message)
	s.booking.requested(message, err)
	return err
}

// SendMsg sends a message.
func (s *bookedStream) SendMsg(message any) error {
	err := s.ServerStream.SendMsg(message)
	s.booking.replied(message, err)
	return err
}

// call sends a call of a client.
func (b *booking) call(req, reply any, invoke func() error) error {
	if r := b.pass(req, b.wait); r != nil {
		return r.err()
	}
	b.outcome.Request, b.outcome.Reply = req, reply
	err := invoke()
	b.end(false, err)
	return err
}

// openStream opens a stream of a client.
func (b *booking) openStream(
	desc *grpc.StreamDesc, open func(context.Context) (grpc.ClientStream, error),
) (grpc.ClientStream, error) {
	if r := b.pass(nil, b.wait); r != nil {
		return nil, r.err()
	}
	ctx := b.ctx
	if b.gate.settles {
		ctx = b.Alone(ctx, place)
	}
	stream, err := open(ctx)
	if err != nil {
		b.end(false, err)
		return nil, err
	}
	if b.gate.actual == nil || b.Reservation == nil {
		return stream, nil
	}
	abandoned := func() { b.end(false, status.FromContextError(ctx.Err()).Err()) }
	return &bookedClientStream{stream, b, context.AfterFunc(ctx, abandoned), desc.ServerStreams}, nil
}

// A bookedClientStream counts the messages of a stream of a client, and settles at its end.
type bookedClientStream struct {
	grpc.ClientStream
	booking *booking
	stop    func() bool // of the function that settles when the context ends
	many    bool        // the server sends more than one message
}

// SendMsg sends a message.
func (s *bookedClientStream) SendMsg(message any) error {
	err := s.ClientStream.SendMsg(message)
	s.booking.requested(message, err)
	return err
}

// RecvMsg receives a message.
func (s *bookedClientStream) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	s.booking.replied(message, err)
	if err != nil || !s.many { // the stream is over
		s.stop()
		ended := err
		if ended == io.EOF {
			ended = nil
		}
		s.booking.end(false, ended)
	}
	return err
}
