package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A Part is what a call settles of one limiter: a reservation, or without records what is
// charged.
type Part struct {
	Records  string // of the reservation, as Result has them
	Reserved int64  // the permits that they hold
	Used     int64

	Lease bool          // the records are dated by the end of a lease
	Idle  time.Duration // since its permits were last used
}

// size returns the bytes of one record.
func (p Part) size() int {
	records := (p.Reserved + wire.MaxPermits - 1) / wire.MaxPermits
	return len(p.Records) / max(1, int(records))
}

// beyond returns the permits that were used and not reserved, and the records for them.
func (p Part) beyond(plain *wire.Layout) (permits int64, records string) {
	permits = max(0, p.Used-p.Reserved)
	switch {
	case permits == 0:
	case p.Records == "":
		records = string(plain.AppendAll(nil, permits))
	default:
		records = wire.Beyond(p.Records, p.size(), permits)
	}
	return permits, records
}

// A Settlement is one settlement of what was reserved, or one charge. Its attempts are one
// request, which Redis carries out once. It is not safe for concurrent use.
type Settlement struct {
	group  *Group
	lent   *lentSession // nil before the first attempt
	number int64
	start  time.Time
}

// Settlement returns a settlement of the members.
func (g *Group) Settlement() *Settlement { return &Settlement{group: g} }

// Settle asks Redis to settle the members' parts, which are the same for all attempts, and returns the
// numbers of each member if numbers is true. After an error it may have settled or not, and another attempt
// finds out.
func (s *Settlement) Settle(ctx context.Context, parts []Part, numbers bool) ([]Result, error) {
	pool := &s.group.engine.groups.sessions[s.group.limiters[0].Server()]
	call := &groupCall{group: s.group, settlement: s, settles: parts, numbers: numbers, sessions: pool}
	if err := call.carryOut(ctx, 0); err != nil { // the call may still go on
		if lent := call.lent; lent != nil { // it was sent
			lent.later = time.AfterFunc(sessionLife, func() { pool.putOnce(lent) })
		}
		return nil, s.group.limiters[0].Named(err)
	}
	return call.results, nil
}

// begin gives an attempt the session and number of the first one, unless the session may have
// forgotten that: then the records tell what was settled.
func (s *Settlement) begin(call *groupCall) {
	e := s.group.engine
	call.ambiguous = s.lent != nil && time.Since(s.start) < sessionLife-time.Second && s.lent.later.Stop()
	if !call.ambiguous {
		s.lent = &lentSession{session: call.sessions.take(e.session.name, &e.groups.sessionCount)}
		s.number, s.start = e.requests.Add(1), time.Now()
	}
	call.lent, call.session, call.number, call.start = s.lent, s.lent.session, s.number, s.start
}

// The positions of the arguments of settle.lua that are not those of acquire.lua.
const (
	argHealedSettles = 5
	argSettled       = 9 // the first of the nine arguments of each limiter
	settleArgsOfEach = 9
)

// settleArgs returns ARGV of settle.lua for the keys of these types.
func (call *groupCall) settleArgs(types [MaxMembers]int) arguments {
	e, members := call.group.engine, call.group.limiters
	args := call.commonArgs(argSettled - 1 + settleArgsOfEach*len(members))
	for i, l := range members {
		part := call.settles[i]
		its := args[argSettled-1+settleArgsOfEach*i:]
		its[0], its[1], its[2] = types[i], part.Records, part.Reserved
		its[3], its[4] = max(0, part.Reserved-part.Used), wire.ChangedOf(l.Hash)
		if beyond, records := part.beyond(e.config.Plain); beyond > 0 {
			its[5], its[6] = beyond, records
			if given := call.given(i); given != nil {
				its[7] = given
			}
		}
		if part.Lease {
			its[8] = part.Idle.Milliseconds()
		}
	}
	return args.trimmed()
}

// given returns the text of the rate that the call sets of a member where none is set; nil if it
// sets none.
func (call *groupCall) given(member int) any {
	l := call.group.limiters[member]
	switch {
	case call.settles == nil || call.settles[member].Records == "" || l.given == nil:
		return l.givenText()
	case call.settles[member].Used <= call.settles[member].Reserved:
		return nil
	}
	return NewGivenRate(l.given.Rate, false).argument // another may have been set since then, and stays
}

// readSettled returns the numbers of each member.
func (call *groupCall) readSettled(reply redisx.Reply) (results []Result, err error) {
	results = make([]Result, len(call.settles))
	for i := range results {
		if results[i].OK = true; reply.Brief {
			continue
		}
		numbers := reply.From(replyJudged * i)
		if len(numbers) < replyJudged {
			return nil, fmt.Errorf("%w %d numbers for a limiter", redisx.ErrShape, len(numbers))
		}
		n := redisx.ReplyOf(numbers[:replyJudged])
		call.replaced = call.replaced || n.At(replyFlags)&flagReplaced != 0
		results[i] = Result{
			OK: true, Limit: n.At(replyRate), Left: n.At(replyLeft), Every: n.At(replyInterval),
			Reset: n.At(replyResetAfterGrant), Drift: n.At(replyDrift),
			Replaced: call.replaced,
		}
	}
	return results, nil
}
