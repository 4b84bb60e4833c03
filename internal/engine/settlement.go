package engine

import (
	"context"
	"time"

	"github.com/redisson-go/rratelimiter/internal/request"
)

// A Settlement is one settlement of what was reserved, or one charge. Its attempts are one
// request, which Redis carries out once. It is not safe for concurrent use.
type Settlement struct {
	group *Group
	lent  *lentSession   // nil before the first attempt
	first *request.Group // the first attempt that has this session
}

// Settlement returns a settlement of the members.
func (g *Group) Settlement() *Settlement { return &Settlement{group: g} }

// Settle asks Redis to settle the members' parts, which are the same for all attempts, and returns the
// numbers of each member if numbers is true. After an error it may have settled or not, and another attempt
// finds out.
func (s *Settlement) Settle(ctx context.Context, parts []Part, numbers bool) ([]Result, error) {
	pool := s.group.sessions()
	call := &groupCall{
		Group: request.Settle(s.group.targets, parts, numbers), group: s.group, settlement: s, sessions: pool,
	}
	if err := call.carryOut(ctx, 0); err != nil { // the call may still go on
		if lent := call.lent; lent != nil { // it was sent
			lent.later = time.AfterFunc(request.SessionLife, func() { pool.putOnce(lent) })
		}
		return nil, s.group.limiters[0].Named(err)
	}
	return call.results, nil
}

// begin gives an attempt the session and number of the first one, unless the session may have
// forgotten that: then the records tell what was settled.
func (s *Settlement) begin(call *groupCall) {
	if s.lent != nil && time.Since(s.first.Start()) < request.SessionLife-time.Second && s.lent.later.Stop() {
		call.Repeats(s.first)
	} else {
		s.lent = &lentSession{session: call.sessions.take(s.group.engine.source)}
		call.Identify(s.lent.session)
		s.first = &call.Group
	}
	call.lent = s.lent
}
