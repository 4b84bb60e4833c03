package request

import (
	"fmt"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A Part is what a request settles of one limiter: a reservation, or without records what is
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

// settleArgs returns ARGV of settle.lua for the keys of these types.
func (g *Group) settleArgs(types [MaxMembers]int) arguments {
	args := g.commonArgs(argSettled - 1 + settleArgsOfEach*len(g.targets))
	for i, t := range g.targets {
		part := g.settles[i]
		its := args[argSettled-1+settleArgsOfEach*i:]
		its[0], its[1], its[2] = types[i], part.Records, part.Reserved
		its[3], its[4] = max(0, part.Reserved-part.Used), wire.ChangedOf(t.Hash)
		if beyond, records := part.beyond(t.source.Plain); beyond > 0 {
			its[5], its[6] = beyond, records
			if given := g.given(i); given != nil {
				its[7] = given
			}
		}
		if part.Lease {
			its[8] = part.Idle.Milliseconds()
		}
	}
	return args.trimmed()
}

// given returns the text of the rate that the request sets of a limiter where none is set; nil if it
// sets none.
func (g *Group) given(limiter int) any {
	rate := g.targets[limiter].Given
	switch {
	case rate == nil:
		return nil
	case g.settles == nil || g.settles[limiter].Records == "":
		return rate.Argument
	case g.settles[limiter].Used <= g.settles[limiter].Reserved:
		return nil
	}
	return NewGivenRate(rate.Rate, false).Argument // another may have been set since then, and stays
}

// readSettled returns the numbers of each limiter.
func (g *Group) readSettled(reply redisx.Reply) (results []Result, err error) {
	results = make([]Result, len(g.settles))
	for i := range results {
		if results[i].OK = true; reply.Brief {
			continue
		}
		numbers := reply.From(replyJudged * i)
		if len(numbers) < replyJudged {
			return nil, fmt.Errorf("%w %d numbers for a limiter", redisx.ErrShape, len(numbers))
		}
		n := redisx.ReplyOf(numbers[:replyJudged])
		g.replaced = g.replaced || n.At(replyFlags)&flagReplaced != 0
		results[i] = Result{
			OK: true, Limit: n.At(replyRate), Left: n.At(replyLeft), Every: n.At(replyInterval),
			Reset: n.At(replyResetAfterGrant),
			Notes: Notes{Drift: n.At(replyDrift), Replaced: g.replaced},
		}
	}
	return results, nil
}
