package rratelimiter

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redisson-go/rratelimiter/internal/engine"
	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/request"
	"github.com/redisson-go/rratelimiter/internal/wire"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Reservation holds permits for a cost that is known later, such as the tokens of an answer or the
// bytes of a response. Its methods Settle, Cancel and ID are those of limit.Reservation. Settle takes
// what was used:
//
//	r, err := tokens.Reserve(ctx, estimate, time.Second)
//	if err != nil || r == nil { // failed, or refused
//		...
//	}
//	used := answer(ctx)
//	err = r.Settle(context.WithoutCancel(ctx), used)
//
// Unused permits come out of the records of the reservation alone. A settlement more than an
// interval later frees nothing, because the reserved permits are back by then. Permits beyond the
// reservation are charged (RateLimiter.Charge). So, counting settled amounts, no interval has more
// than the rate, except for charges.
//
// A reservation belongs to its original name and records. After a Delete, a Rename, or a SetRate
// without WithKeepState, nothing comes back, and Settle returns nil; permits beyond the reservation are
// charged if the name still has a rate, or the limiter is one with a rate (WithRate). Settle does not
// replace a different rate that was set meanwhile.
//
// A Release of more permits than the Client has taken without reservations may use up the
// records of a reservation, which then has nothing to give back.
//
// Another process settles a reservation by its ID (Client.Reservation). Settle each reservation in one
// process: if two settle it, permits come back at most once, but both may charge what exceeds the
// reservation.
type Reservation = limit.Reservation

var (
	_ limit.Reserver = (*RateLimiter)(nil)
	_ limit.Charger  = (*RateLimiter)(nil)
	_ limit.Reserver = (*Group)(nil)
	_ limit.Charger  = (*Group)(nil)
)

// Reserve takes permits for a cost that is known later, waiting up to timeout as TryAcquire does,
// and returns nil without an error if it is refused. Redisson has no counterpart; its clients see
// ordinary records.
//
// Each reservation is a script call and a record of its own.
// If a Fallback decides, Redis has no record of it, and Settle changes nothing: the estimate
// counts. The bounds and errors are those of TryAcquire.
func (l *RateLimiter) Reserve(
	ctx context.Context, permits int64, timeout time.Duration,
) (*Reservation, error) {
	return l.alone().Reserve(ctx, permits, timeout)
}

// TryReserve is Reserve without waiting, and returns the numbers of the attempt, as Allow does. The
// Reservation is nil if the permits are refused.
func (l *RateLimiter) TryReserve(ctx context.Context, permits int64) (*Reservation, Result, error) {
	r, result, err := l.alone().TryReserve(ctx, permits)
	result.Each = nil
	return r, result, err
}

// Charge takes what was spent, whatever is left, and is never refused. The value may become
// negative: Result.Debt is the deficit, and no client is granted permits until the debt is paid.
// Charged permits come back after an interval, like acquired ones. Redisson has no counterpart;
// its clients find a negative value and wait (docs/java.md).
//
// permits is 1 to 2^40, and may be more than the rate. The errors are those of TryAcquire; after an
// ErrNoAnswer, permits may be charged or not. No Fallback decides a Charge.
func (l *RateLimiter) Charge(ctx context.Context, permits int64) (Result, error) {
	r, err := l.alone().Charge(ctx, permits)
	r.Each = nil
	return r, err
}

// alone returns the limiter as a Group.
func (l *RateLimiter) alone() *Group {
	g := l.client.All(l)
	g.policy = l.policy
	return g
}

// Reserve takes permits from each limiter, times its amount (Amounts), for a cost that is known later, as
// RateLimiter.Reserve does. Settle takes the number of permits used of each limiter, which is not multiplied
// by its amount: after Amounts(1, 3500), Settle(ctx, 1, 1200) says that 1 request used 1,200 tokens. A single
// number holds for every limiter. If the amounts differ, a single number other than 0 is an
// ErrInvalidArgument.
func (g *Group) Reserve(ctx context.Context, permits int64, timeout time.Duration) (*Reservation, error) {
	results, err := g.acquire(ctx, engine.Want{Permits: permits, Timeout: timeout, Reserve: true})
	return g.reserved(permits, results), err
}

// TryReserve is Reserve without waiting, and returns the numbers of the attempt, as Allow does. The
// Reservation is nil if the permits are refused.
func (g *Group) TryReserve(ctx context.Context, permits int64) (*Reservation, Result, error) {
	results, err := g.acquire(ctx, engine.Want{Permits: permits, Numbers: true, Reserve: true})
	if err != nil {
		return nil, Result{}, err
	}
	result, _ := g.result(results)
	return g.reserved(permits, results), result, nil
}

// reserved returns the Reservation of a call that has these results, nil if it was refused.
func (g *Group) reserved(permits int64, results []engine.Result) *Reservation {
	if !request.Granted(results) {
		return nil
	}
	parts := make([]engine.Part, len(results))
	for i, m := range g.members {
		parts[i] = engine.Part{Records: results[i].Records, Reserved: permits * m.amount}
	}
	return g.reservation(parts)
}

// Charge takes permits from each limiter, times its amount (Amounts), in one script call, as
// RateLimiter.Charge does. The Result is that of the limiter with the largest debt in proportion to its rate
// or, without debt, with the smallest part of its rate left.
func (g *Group) Charge(ctx context.Context, permits int64) (Result, error) {
	start := time.Now()
	results, err := g.charge(ctx, permits)
	g.observe(ctx, results, engine.Want{Permits: permits, Numbers: true}, start, err)
	if err != nil {
		return Result{}, err
	}
	r, _ := g.result(results)
	return r, nil
}

// charge is Charge with the numbers of each limiter.
func (g *Group) charge(ctx context.Context, permits int64) ([]engine.Result, error) {
	spent, err := g.wants(permits, 1)
	if err != nil {
		return nil, err
	}
	if err := g.members[0].limiter.Usable(ctx); err != nil {
		return nil, err
	}
	if g.client.guard.Off() {
		return slices.Repeat([]engine.Result{{OK: true, Degraded: true}}, len(spent)), nil
	}
	parts := make([]engine.Part, len(spent))
	for i, n := range spent {
		parts[i].Used = n
	}
	return g.group.Settlement().Settle(ctx, parts, true)
}

// reservation returns the Reservation of records that were taken. Parts without records were
// granted by a Fallback.
func (g *Group) reservation(parts []engine.Part) *Reservation {
	id := func() string { return g.reservationID(parts) }
	var s *engine.Settlement // made by the first Settle
	var beyond int64         // the most permits that are charged to a limiter
	return limit.NewReservation(id, func(ctx context.Context, actual []int64) error {
		if s == nil {
			used, err := g.used(actual)
			if err != nil {
				return err
			}
			changes := false
			beyond = 0
			for i, n := range used {
				parts[i].Used = n
				if parts[i].Records != "" {
					changes = changes || n != parts[i].Reserved
					beyond = max(beyond, n-parts[i].Reserved)
				}
			}
			if !changes {
				return nil
			}
			s = g.group.Settlement()
		}
		if err := g.members[0].limiter.Usable(ctx); err != nil {
			return err
		}
		start := time.Now()
		results, err := s.Settle(ctx, parts, false)
		if beyond > 0 {
			g.observe(ctx, results, engine.Want{Permits: beyond}, start, err)
		}
		if errors.Is(err, ErrInvalidArgument) {
			s = nil
		}
		return err
	})
}

// used returns the used permits of each member, from the arguments of Settle.
func (g *Group) used(actual []int64) ([]int64, error) {
	members := len(g.members)
	differ := slices.ContainsFunc(g.members, func(m *member) bool { return m.amount != g.members[0].amount })
	if len(actual) == 1 && (actual[0] == 0 || !differ) {
		actual = slices.Repeat(actual, members)
	}
	if len(actual) != members {
		bound := "be 1"
		switch {
		case differ: // one number would be, say, as many requests as tokens
			bound = fmt.Sprintf("be %d, one for each limiter, because their Amounts differ", members)
		case members > 1:
			bound = fmt.Sprintf("be 1 or %d (one for each limiter)", members)
		}
		name := g.members[0].limiter
		return nil, name.Named(failure.Invalid("the number of amounts", len(actual), bound))
	}
	for i, n := range actual {
		if err := request.CheckPermits(n, 0); err != nil {
			return nil, g.members[i].limiter.Named(err)
		}
	}
	return actual, nil
}

// A reservationText is the content of a Reservation's ID.
type reservationText struct {
	Client  exactText         `json:"c,omitempty"` // its ID, if a limiter is PerClient
	Members []reservationPart `json:"m"`
}

type reservationPart struct {
	Name    exactText `json:"n"`
	Records []byte    `json:"r"`
	Amount  int64     `json:"a"`
	Given   string    `json:"g,omitempty"` // the given rate, as engine.GivenRate.Text has it
}

// An exactText keeps each byte in JSON, whose strings replace bytes that are not UTF-8: such a text is an
// array with its bytes in base64. Earlier versions refuse an ID with an array, as they should.
type exactText string

// MarshalJSON returns a string, or an array.
func (t exactText) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal([1][]byte{[]byte(t)})
}

// UnmarshalJSON reads both. It refuses a string in which an earlier version replaced bytes: encoding/json
// escapes the character that stands for them, and no other U+FFFD.
func (t *exactText) UnmarshalJSON(b []byte) error {
	if b[0] == '[' {
		var bytes [1][]byte
		err := json.Unmarshal(b, &bytes)
		*t = exactText(bytes[0])
		return err
	}
	if strings.Contains(strings.ReplaceAll(string(b), `\\`, ""), `\ufffd`) {
		return errors.New("bytes of the text were replaced")
	}
	return json.Unmarshal(b, (*string)(t))
}

// reservationID returns the ID of a Reservation, empty if Redis has no records of it.
func (g *Group) reservationID(parts []engine.Part) string {
	var text reservationText
	for i, m := range g.members {
		if parts[i].Records == "" {
			return ""
		}
		part := reservationPart{
			Name: exactText(m.limiter.Name()), Records: []byte(parts[i].Records), Amount: m.amount,
		}
		if m.givenRate != nil {
			part.Given = m.givenRate.forEngine.Text()
		}
		text.Members = append(text.Members, part)
		if m.limiter.Type() == wire.PerClient {
			text.Client = exactText(g.client.ID())
		}
	}
	b, _ := json.Marshal(text) // of strings and numbers, which cannot fail
	return base64.RawURLEncoding.EncodeToString(b)
}

// Reservation returns the reservation with an ID, so that the process that ends the work can settle it. It
// does not ask Redis. A reservation of a PerClient limiter needs a Client with the same ID (WithID). An ID
// determines which limiter changes: do not accept one from untrusted callers. If id is empty or not that of a
// reservation, the error is ErrInvalidArgument.
func (c *Client) Reservation(id string) (*Reservation, error) {
	refuse := func(bound string) error {
		return failure.InvalidOf("Reservation", "id", fmt.Sprintf("%.60q", id), bound)
	}
	var text reservationText
	b, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil || json.Unmarshal(b, &text) != nil || len(text.Members) == 0 {
		return nil, refuse("be the ID of a reservation")
	}
	if text.Client != "" && string(text.Client) != c.ID() {
		return nil, failure.InvalidOf("Reservation", "the ID of the Client", fmt.Sprintf("%q", c.ID()),
			fmt.Sprintf("be %q, which made the reservation, for a limiter is PerClient", text.Client))
	}
	var limiters []*RateLimiter
	amounts, parts := make([]int64, len(text.Members)), make([]engine.Part, len(text.Members))
	for i, m := range text.Members {
		given, err := parseGivenRate(m.Given)
		reserved := wire.Reserved(string(m.Records))
		if err != nil || reserved == 0 || reserved > request.MaxPermits {
			return nil, refuse("be the ID of a reservation")
		}
		l := c.engine.Limiter("name", string(m.Name), given.engine())
		limiters = append(limiters, newRateLimiter(c, l, c.policy, given))
		amounts[i], parts[i] = m.Amount, engine.Part{Records: string(m.Records), Reserved: reserved}
	}
	g := c.All(limiters...).Amounts(amounts...)
	if g.err != nil {
		return nil, g.err
	}
	return g.reservation(parts), nil
}

// parseGivenRate returns the given rate of an ID, nil for an empty text.
func parseGivenRate(text string) (*givenRate, error) {
	if text == "" {
		return nil, nil
	}
	var rate, interval, keep, update int64
	if _, err := fmt.Sscanf(text, "%d %d %d %d", &rate, &interval, &keep, &update); err != nil {
		return nil, err
	}
	opts := []RateOption{WithKeepAlive(wire.Milliseconds(keep))}
	if update == 0 {
		opts = append(opts, WithKeepRate())
	}
	return newGivenRate(ofWithRate, rate, wire.Milliseconds(interval), 0, opts)
}
