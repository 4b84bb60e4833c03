package grpclimit

import (
	"context"
	"sync"

	"github.com/redisson-go/rratelimiter/internal/admission"
	"github.com/redisson-go/rratelimiter/limit"
)

// place names the reservations of this package in a context.
const place = "grpclimit"

// Settle reports how many permits a call used, 0 or more: in a handler behind an interceptor with
// WithSettle, or, with the context of the stream, for a stream of a client with such an interceptor. For
// a limit.Shared Group there may be one amount for each limiter. If less was used than the estimate, the
// rest comes back; if more was used, the difference is charged (limit.Reservation).
//
// If several interceptors of a server have WithSettle, Settle settles the reservation of each. It takes
// effect once: a second Settle changes nothing and returns nil. If the first one failed, it tries again
// with the amounts of the first. If a call needed no permits, or went on without any, Settle does
// nothing and returns nil.
//
// Settle ignores the end of ctx, because permits are used whether or not the caller is still there;
// WithTimeout bounds it. It may be called after the call has ended. The error, which the hook also
// receives, is that of limit.Reservation.Settle. It is limit.ErrNoReservation if ctx does not come
// from an interceptor with WithSettle.
func Settle(ctx context.Context, actual ...int64) error { return admission.Settle(ctx, place, actual) }

// WithSettle reserves the cost of a call as an estimate (WithCost), which Settle corrects: in the handler
// of a server, or for a stream of a client. A client's unary call has no context in which Settle could
// find it: use WithActual. An estimate that is never settled counts. The limiter of a key must be a
// limit.Reserver, such as that of a Keyed, or a RateLimiter or Group of limit.Shared, and WithPerMessage must
// not be set: otherwise the constructor of the interceptor panics. Rules determine which limits are settled
// (UnaryServerRules).
func WithSettle() Option { return option(func(g *gate) { g.settles = true }) }

// An Outcome is the outcome of a call, for WithActual.
type Outcome struct {
	// FullMethod is "/package.Service/Method".
	FullMethod string

	// Request and Reply are the messages of a unary call, or the last messages of the client and
	// the server in a stream; nil if there was none. After an error of a unary call Reply has no
	// content.
	Request, Reply any

	// Requests and Replies count the messages of a stream that this side has received or sent.
	// They are 0 for a unary call.
	Requests, Replies int64

	// Err is the error that ended the call, nil for success.
	Err error
}

// WithActual reserves the cost of a call as an estimate (WithCost), and after the call calls actual to
// learn what it used, such as a number in the reply. If the result is negative, the estimate counts. With
// WithSettle as well, the first Settle counts. The limiter is that of WithSettle.
//
// actual also decides about a failed call: return -1 to let the estimate count, and 0 if certainly nothing
// was used. If a client does not read a stream to its end, the call ends with its context. If a handler
// panics, nothing comes back: the estimate counts, or actual if it is more; with a Group, the estimates.
func WithActual(actual func(ctx context.Context, o Outcome) int64) Option {
	return option(func(g *gate) { g.actual = actual })
}

// reserves reports whether calls reserve their cost.
func (g *gate) reserves() bool { return g.settles || g.actual != nil }

// checkReserver panics if the options ask for limiters that reserve, and these do not.
func (g *gate) checkReserver() {
	g.refusePerMessage()
	if g.reserves() && g.wrong == nil && g.limits.Reserve == nil {
		panic("grpclimit: the limiter is no limit.Reserver, must be one for WithSettle and WithActual")
	}
}

// refusePerMessage panics if calls reserve but messages are charged: no option settles a message.
func (g *gate) refusePerMessage() {
	if g.reserves() && g.perMessage {
		panic("grpclimit: WithPerMessage reserves nothing that WithSettle or WithActual could settle")
	}
}

// A booking is one call, with its reservation if calls reserve.
type booking struct {
	admission.Held
	gate *gate
	ctx  context.Context // of the call
	key  string

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
				FullMethod: fullMethod, Key: b.key, Permits: b.Estimate, Err: err, Passed: true,
			})
		}
	}
	return b
}

// allow makes one attempt within the timeout.
func (b *booking) allow(ctx context.Context, key string, permits int64) (result limit.Result, err error) {
	if !b.gate.reserves() {
		return b.gate.allow(ctx, key, permits)
	}
	ctx, cancel := b.gate.within(ctx)
	defer cancel()
	b.key, b.Estimate = key, permits
	b.Reservation, result, err = b.gate.limits.TryReserve(ctx, key, permits)
	b.Several = result.Each != nil
	return result, err
}

// in returns the context of the handler of a server.
func (b *booking) in() context.Context {
	if !b.gate.settles {
		return b.ctx
	}
	return b.In(b.ctx, place)
}

// end settles the call once, as WithActual says.
func (b *booking) end(panicked bool, err error) {
	if b.gate.actual == nil {
		return
	}
	b.once.Do(func() {
		b.mu.Lock()
		o := b.outcome
		b.mu.Unlock()
		o.Err = err
		b.Finish(b.ctx, panicked, func() int64 { return b.gate.actual(b.ctx, o) })
	})
}

// requested notes a message of the client.
func (b *booking) requested(message any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.outcome.Request = message
	b.outcome.Requests++
}

// replied notes a message of the server.
func (b *booking) replied(message any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.outcome.Reply = message
	b.outcome.Replies++
}

// pass decides whether the call goes on, and returns nil or its refusal.
func (b *booking) pass(message any, ask ask) *refusal {
	return b.gate.pass(b.ctx, b.outcome.FullMethod, message, ask)
}
