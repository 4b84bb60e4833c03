package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

const (
	modelRate     = 10
	modelInterval = 1000 // ms
	modelLease    = modelInterval / partsOfInterval
)

// modelLeases are the permits of each lease, those of one use, and a random byte of its record. The
// second one can be used up. Of the records of one time, a search for the newest finds its one last.
var modelLeases = [3]struct {
	permits, use int8
	name         byte
}{{4, 2, 9}, {3, 3, 0}, {3, 2, 5}}

// A leaseModel delivers the calls of leases of two Clients, and acquires of other callers, in every order,
// with copies that come late, while permits of the leases are used and time passes. The leases themselves and
// the scripts are the real ones.
//
// A Client that crashes is one of which nothing follows any more. So every state is also the one after a
// crash: of the orders that go on from it, some have no further step of that Client.
type leaseModel struct {
	smallModel
	leases           int // how many of modelLeases
	states           map[leaseState]bool
	redis            []snapshot     // what the keys may hold
	places           map[string]int // in redis, by text
	effects          map[callOf]effect
	complete         map[int]bool // places from which all permits were seen to come back
	trail            []string
	taking           [len(modelLeases)]*groupCall
	takes, withdraws [len(modelLeases)]func(resent bool) error
	settles          map[Part]func(resent bool) error
	acquires         []*request
}

// A leaseState is a state of the model. Times are in ms since it began.
type leaseState struct {
	redis                           int // the place of what the keys hold
	now                             int16
	leases                          [len(modelLeases)]modelled
	uses                            [10]use // of the last interval and lease, the latest first
	copies, whiles, ends, intervals int8    // that may still come
	acquired                        int8    // acquires that came
	unseen                          int8    // leases, as bits, of the last steps, which Redis did not see
}

// modelled is how often the calls of a lease came, and what its Client knows of it.
type modelled struct {
	took, settled, withdrawn int8
	granted, ended           bool
	began, lastUse           int16
	left, used               int8
	idle                     int16
}

// A use is permits that were used at a time.
type use struct {
	at      int16
	permits int8
}

// A callOf is a call that finds something in the keys, and an effect what comes of it.
type callOf struct {
	redis int
	now   int16
	last  bool // no copies come after it
	name  string
}
type effect struct {
	redis   int
	granted int64
}

// explore takes each step that may come next. Steps that Redis does not see come as late as possible: before
// time passes, or before the settlement of their lease; those of several leases in the order of these. For
// nothing else tells the orders of these steps apart.
func (m *leaseModel) explore(s leaseState) {
	for i := range s.leases {
		if l := &s.leases[i]; s.copies == 0 && l.settled > 0 { // nothing depends on the rest any more
			*l = modelled{took: 1, settled: 1, ended: true}
		}
	}
	if m.states[s] || m.Failed() {
		return
	}
	m.states[s] = true
	if s.unseen == 0 {
		m.holds(s)
	}
	next := func(name string, next leaseState) {
		m.trail = append(m.trail, name)
		m.explore(next)
		m.trail = m.trail[:len(m.trail)-1]
	}
	for i := range m.leases {
		if s.unseen>>(i+1) == 0 {
			m.inMemory(s, i, next)
		}
		if s.unseen == 0 || s.unseen == 1<<i {
			m.settle(s, i, next)
		}
		if s.unseen == 0 {
			m.take(s, i, next)
			m.withdraw(s, i, next)
		}
	}
	if s.unseen == 0 && int(s.acquired) < len(m.acquires) {
		m.acquire(s, next)
	}
	m.time(s, next)
}

func (m *leaseModel) fails(s leaseState, format string, args ...any) {
	m.Errorf("%s: %s; records %q, %+v", strings.Join(m.trail, ", "), fmt.Sprintf(format, args...),
		fmt.Sprint(m.redis[s.redis].records), s)
}

// carryOut makes Redis carry out a call, and returns the permits that it grants.
func (m *leaseModel) carryOut(s *leaseState, name string, send func() (int64, error)) (granted int64) {
	call := callOf{s.redis, s.now, s.copies == 0, name}
	done, ok := m.effects[call]
	if !ok {
		m.restore(m.redis[s.redis])
		m.now = theTime + int64(s.now)
		granted, err := send()
		if err != nil {
			m.fails(*s, "%s: %v", name, err)
		}
		done = effect{m.place(m.state(), call.last), granted}
		m.effects[call] = done
	}
	s.redis = done.redis
	return done.granted
}

// place returns the place of what the keys hold. If no copies come any more, that is without the sessions
// that only copies look at.
func (m *leaseModel) place(s snapshot, last bool) int {
	for field := range s.hash {
		if last && strings.HasPrefix(field, "session:") && field != m.taking[1].session {
			delete(s.hash, field)
		}
	}
	s.text = fmt.Sprint(s.hash, s.value, s.records)
	at, ok := m.places[s.text]
	if !ok {
		at = len(m.redis)
		m.places[s.text], m.redis = at, append(m.redis, s)
	}
	return at
}

// used notes that permits are used now. No interval that ends now may have more than the rate. Then no other
// one has, for it has no more than one that ends with a use.
func (m *leaseModel) used(s *leaseState, permits int8) {
	if s.uses[0] == (use{}) || s.uses[0].at != s.now {
		copy(s.uses[1:], s.uses[:])
		s.uses[0] = use{at: s.now}
	}
	s.uses[0].permits += permits
	if sum := s.usedWithin(modelInterval); sum > modelRate {
		m.fails(*s, "%d permits are used within an interval", sum)
	}
}

// usedWithin returns the permits that were used within the last ms.
func (s *leaseState) usedWithin(ms int16) (sum int8) {
	for _, u := range s.uses {
		if u.at > s.now-ms {
			sum += u.permits
		}
	}
	return sum
}

// holds expects value + records = rate, that what counts was used or is leased, and that all comes back.
func (m *leaseModel) holds(s leaseState) {
	sum, living, value := int64(0), int64(0), int64(modelRate)
	for _, z := range m.redis[s.redis].records {
		n, _ := wire.Permits(z.Member.(string))
		if sum += n; z.Score > float64(theTime+int64(s.now)-modelInterval) {
			living += n
		}
	}
	if text := m.redis[s.redis].value; text != "" {
		_, _ = fmt.Sscan(text, &value)
	}
	if value+sum != modelRate {
		m.fails(s, "the value is %d", value)
	}
	// No record is dated later than the end of its lease.
	most := int64(s.usedWithin(modelInterval + modelLease))
	for i, l := range s.leases {
		if l.took > 0 && l.settled+l.withdrawn == 0 {
			most += int64(modelLeases[i].permits)
		}
	}
	if living > most {
		m.fails(s, "%d permits count, at most %d are leased or were used", living, most)
	}
	if m.complete[s.redis] {
		return
	}
	m.complete[s.redis] = true
	s.now += modelInterval + modelLease
	last := newAcquire(m.taking[0].group.limiters[0], []run{{1, modelRate}}, nil)
	if n := m.carryOut(&s, "at last", func() (int64, error) { return m.asks(last) }); n != modelRate {
		m.fails(s, "at last %d permits are back", n)
	}
}

// newLeaseModel returns a model of some leases, with some acquires.
func newLeaseModel(t *testing.T, leases, acquires int) *leaseModel {
	m := &leaseModel{smallModel: smallModel{T: t, rdb: redistest.Start(t).Client(t)}, leases: leases,
		states: map[leaseState]bool{}, places: map[string]int{}, effects: map[callOf]effect{},
		complete: map[int]bool{}, settles: map[Part]func(bool) error{}}
	here, there := newEngine(t, m.rdb, withClock(&m.now)), newEngine(t, m.rdb, withClock(&m.now))
	for i, e := range []*Engine{here, there, here} {
		permits := int64(modelLeases[i].permits)
		call := newGroupCall(e.Group(e.limiter("l")), []int64{permits},
			Want{Permits: permits, Reserve: true, Lease: wire.Milliseconds(modelLease)})
		record := []byte(call.reserved[0])
		record[1+len("\xd2GoRLease")] = modelLeases[i].name // the first byte that is left to chance
		call.reserved[0] = string(record)
		m.taking[i], m.takes[i] = call, once(call)
	}
	m.taking[2].session = m.taking[0].session // which has its reply
	lost := m.taking[1]
	back := newRelease(there.limiter("l"), 0,
		&withdrawal{after: lost.number - 1, kept: keptAll, since: time.Now()})
	back.session, back.records = lost.session, lost.reserved[0]
	m.withdraws[1] = func(resent bool) error {
		copied := *back
		copied.ambiguous = resent
		_, err := copied.send(t.Context())
		return err
	}
	for range acquires {
		m.acquires = append(m.acquires, newAcquire(there.limiter("l"), []run{{1, modelRate}}, nil))
	}
	m.rdb.HSet(t.Context(), "l", "rate", modelRate, "interval", modelInterval, "type", 0)
	return m
}

// Whatever comes in whatever order, late, twice or not at all: by when permits are used, no interval has more
// than the rate, and what was leased and not used comes back.
func TestEveryOrderOfLeasesKeepsTheRate(t *testing.T) {
	for _, tc := range []struct {
		name             string
		rounds           int // of redistest.Rounds, from which on it is played
		leases, acquires int
		start            leaseState
	}{
		{"copies", 1, 2, 1, leaseState{copies: 1, ends: 1, intervals: 1}},
		{"three leases", 2, 3, 1, leaseState{ends: 2, intervals: 1}},
		{"a while", 8, 2, 2, leaseState{whiles: 1, ends: 2, intervals: 2}},
		{"copies of three leases", 8, 3, 1, leaseState{copies: 1, ends: 1, intervals: 1}},
		{"two copies", 8, 2, 1, leaseState{copies: 2, ends: 1, intervals: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if redistest.Rounds(t, 4) < tc.rounds {
				t.Skip("ROUNDS is too small, or -short is set")
			}
			m := newLeaseModel(t, tc.leases, tc.acquires)
			if tc.start.copies == 0 { // no call is lost or late, so that all comes in time
				m.withdraws[1] = nil
			}
			tc.start.redis = m.place(m.state(), false)
			m.explore(tc.start)
			t.Logf("%d states, %d of Redis after %d calls", len(m.states), len(m.redis), len(m.effects))
		})
	}
}
