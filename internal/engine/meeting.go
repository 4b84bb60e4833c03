package engine

import (
	"context"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/request"
)

const (
	// meetingStripes is how many locks the meetings of an Engine share.
	meetingStripes = 16

	// maxMeeting bounds the callers of one call.
	maxMeeting = 256

	// Callers wait for a call of their Group for at most meetFor. Then the first of them makes one beside it,
	// because the server may be slow or the connection hang.
	meetFor = 10 * time.Millisecond
)

// meetings are where the callers of Groups meet: a call under way has all that arrive meanwhile as the
// callers of the next call. There is one meeting for all that want the same, while it has callers.
type meetings struct {
	seed    maphash.Seed
	stripes [meetingStripes]meetingStripe
}

// A meetingStripe has the meetings whose keys fall on it. Its mu guards them and their callers; nothing else
// is locked under it.
type meetingStripe struct {
	mu    sync.Mutex
	byKey map[meetingKey]*meeting
}

// A meetingKey is what the callers of a meeting want: the permits of some limiters, whose rates they set.
type meetingKey struct {
	members string // their hashes, each after its length unless there is only one
	rates   string // given, by member
	permits [MaxMembers]int64
}

// A meeting has callers that want the same. Guarded by the mu of its stripe.
type meeting struct {
	*meetingStripe
	key      meetingKey
	callers  int         // inside; the meeting ends with the last one
	leader   *asker      // the last one that makes a call; nil if there is none
	began    time.Time   // when it began to
	arrivals []*asker    // behind it, in their order
	timer    *time.Timer // runs while there are arrivals
	most     int         // callers that the next call asks for: few where Redis has refused
	counted  bool        // Redis has said that there are permits for these, and for no more
}

// An asker is a caller in a meeting.
type asker struct {
	numbers bool
	call    *groupCall // that asks for it; nil before
	state   askerState
	ready   chan struct{} // capacity one: it leads, or has its reply; nil if it has led from the first
	reply   groupReply
	err     error
}

// A party is the callers of one call.
type party struct {
	*meeting
	leader  *asker   // whose goroutine makes the call
	askers  []*asker // the leader, and those that arrived meanwhile; guarded by mu, as waiting
	waiting int      // of these
}

type askerState int

const (
	askerArrived askerState = iota // it waits for a leader, or leads
	askerAsked                     // it is in a call
	askerDone                      // it has its reply
	askerLeft
)

// keyOf returns the key of the meetings of some members, without permits.
func keyOf(limiters []*Limiter) meetingKey {
	if len(limiters) == 1 {
		return meetingKey{members: limiters[0].Hash, rates: limiters[0].Given.Text()}
	}
	var members, rates strings.Builder
	for _, l := range limiters {
		members.WriteString(strconv.Itoa(len(l.Hash)))
		members.WriteByte(' ')
		members.WriteString(l.Hash)
		rates.WriteString(l.Given.Text())
		rates.WriteByte(';')
	}
	return meetingKey{members: members.String(), rates: rates.String()}
}

// enter puts a caller into the meeting of a key, and reports whether it leads.
func (ms *meetings) enter(key meetingKey, a *asker) (m *meeting, leads bool) {
	s := &ms.stripes[maphash.String(ms.seed, key.members)%meetingStripes]
	s.mu.Lock()
	defer s.mu.Unlock()
	if m = s.byKey[key]; m == nil {
		if m = (&meeting{meetingStripe: s, key: key, most: maxMeeting}); s.byKey == nil {
			s.byKey = map[meetingKey]*meeting{}
		}
		s.byKey[key] = m
	}
	m.callers++
	if m.leader == nil || len(m.arrivals) == 0 && time.Since(m.began) > meetFor {
		m.leader, m.began = a, time.Now()
		return m, true
	}
	a.ready = make(chan struct{}, 1)
	m.arrivals = append(m.arrivals, a)
	m.watch()
	return m, false
}

// watch starts the timer for arrivals, unless it runs. Guarded by mu.
func (m *meeting) watch() {
	if m.timer != nil || len(m.arrivals) == 0 {
		return
	}
	m.timer = time.AfterFunc(meetFor-time.Since(m.began), func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.timer = nil; len(m.arrivals) > 0 && time.Since(m.began) >= meetFor {
			m.appoint()
		}
		m.watch()
	})
}

// appoint lets the first arrival lead. Guarded by mu.
func (m *meeting) appoint() {
	if m.leader = nil; len(m.arrivals) > 0 {
		m.leader, m.began = m.arrivals[0], time.Now()
		m.arrivals = m.arrivals[1:]
		m.leader.ready <- struct{}{}
	}
}

// exit takes a caller out of the meeting.
func (m *meeting) exit(a *asker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leader == a {
		m.appoint()
	}
	if m.callers--; m.callers == 0 {
		delete(m.byKey, m.key)
	}
}

// gather makes the leader and the arrivals the callers of its call, and returns their number.
func (p *party) gather(call *groupCall) int {
	m := p.meeting
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leader == p.leader {
		m.began = time.Now()
	}
	room := int64(maxMeeting)
	for _, n := range call.Permits {
		room = min(room, request.MaxPermits/n)
	}
	n := min(len(m.arrivals), int(room)-1)
	p.askers = append([]*asker{p.leader}, m.arrivals[:n]...)
	m.arrivals = slices.Delete(m.arrivals, 0, n)
	for _, a := range p.askers {
		a.call, a.state = call, askerAsked
		call.Numbers = call.Numbers || a.numbers
	}
	p.waiting = len(p.askers)
	call.Times = int64(min(m.most, len(p.askers)))
	// If Redis refuses, the numbers say how many callers to ask for.
	call.Numbers = call.Numbers || call.Times > 1
	return len(p.askers)
}

// isAsked reports whether a caller is in a call, or was.
func (m *meeting) isAsked(a *asker) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return a.state != askerArrived
}

// leave takes a caller out that no longer waits, and reports whether it could: it has no reply yet. The last
// one to leave a call ends the request.
func (m *meeting) leave(a *asker) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch a.state {
	case askerDone:
		return false
	case askerAsked:
		if a.call.party.waiting--; a.call.party.waiting == 0 {
			a.call.cancel()
		}
	case askerArrived:
		if i := slices.Index(m.arrivals, a); i >= 0 {
			m.arrivals = slices.Delete(m.arrivals, i, i+1)
		}
	}
	a.state = askerLeft
	return true
}

// deliver gives the callers of a call their replies, and returns how many were granted and are still there.
// Callers that the call has not asked for, or of which Redis may grant some, go back to the meeting. If the
// permits of a single caller were refused, so are those of all behind it: they want the same.
func (p *party) deliver(call *groupCall) (claimed int64) {
	m := p.meeting
	m.mu.Lock()
	defer m.mu.Unlock()
	granted, decided := call.err == nil && call.granted(), len(p.askers)
	switch {
	case call.err != nil:
	case granted:
		decided = int(call.Times)
		if m.most = min(2*m.most, maxMeeting); m.counted {
			m.most = 1
		}
		m.counted = false
	case call.Times > 1:
		fits := call.fitting()
		decided, m.most, m.counted = 0, max(1, fits), fits > 0
	default:
		m.most, m.counted = 1, false
	}
	var again []*asker
	for i, a := range p.askers {
		switch {
		case a.state == askerLeft:
		case i >= decided:
			a.state, a.call = askerArrived, nil
			if a != p.leader { // which asks again
				again = append(again, a)
			}
		default:
			a.state, a.reply, a.err = askerDone, call.reply(int64(i)), call.err
			if granted {
				claimed++
			}
			if a != p.leader {
				a.ready <- struct{}{}
			}
		}
	}
	m.arrivals = append(again, m.arrivals...)
	if m.leader == nil {
		m.appoint()
	}
	m.watch()
	return claimed
}

// fitting returns for how many callers there was enough when a call was refused.
func (call *groupCall) fitting() int {
	fits := int64(maxMeeting)
	for i, v := range call.results {
		fits = min(fits, max(0, v.Left)/call.Permits[i])
	}
	return int(min(fits, call.Times-1))
}

// reply returns the reply for one of the callers that the call has asked for.
func (call *groupCall) reply(caller int64) groupReply {
	r := groupReply{results: call.results, start: call.Start()}
	if len(call.party.askers) == 1 {
		return r
	}
	r.results = slices.Clone(call.results) // each caller writes to its own
	granted := call.granted()
	for i := range r.results {
		v := &r.results[i]
		if v.Batch = int(call.Times); granted {
			v.Left += call.Permits[i] * (call.Times - 1 - caller) // what those behind have taken
		}
		if caller > 0 {
			v.Drift, v.Replaced = 0, false
		}
	}
	return r
}

// meet asks together with the other callers of the Group.
func (g *Group) meet(ctx context.Context, permits []int64, wanted Want) (groupReply, error) {
	e := g.engine
	a, key := &asker{numbers: wanted.Numbers}, g.key
	copy(key.permits[:], permits)
	m, leads := e.groups.meetings.enter(key, a)
	defer m.exit(a)
	if !leads {
		if left, err := g.await(ctx, m, a, wanted.Budget); left {
			return groupReply{}, err
		}
	}
	for a.state != askerDone { // its own calls change the state of a leader
		call := newGroupCall(g, permits, wanted)
		call.party = &party{meeting: m, leader: a}
		if err := call.carryOut(ctx, wanted.Budget); err != nil {
			return groupReply{}, err
		}
	}
	return a.reply, a.err
}

// await waits until a caller leads or has its reply, or returns why it has left. While it is in no call, it
// gets the error of a call that hangs, as those that wait for room do (sessions.enter).
func (g *Group) await(
	ctx context.Context, m *meeting, a *asker, budget time.Duration,
) (left bool, err error) {
	pool := g.sessions()
	for {
		hang := pool.next()
		select {
		case <-a.ready:
			return false, nil
		case <-hang.over:
			if hang.concerns(ctx) && !m.isAsked(a) && m.leave(a) {
				return true, hang.err
			}
		case <-ctx.Done():
			if !m.leave(a) {
				return false, nil
			}
			return true, a.call.unanswered(ctx, budget)
		case <-g.engine.Context().Done():
			return m.leave(a), failure.ErrClosed
		}
	}
}
