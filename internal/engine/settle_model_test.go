package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A small model delivers a few requests of two Clients in every order, each up to twice: a copy comes because
// the reply of the first one was lost, or late. The real scripts carry them out on one limiter of 10 permits.
type smallModel struct {
	*testing.T
	rdb      *redis.Client
	now      int64
	requests []delivery
	seen     map[string]bool
	ends     int
}

// A delivery is a request, and its effect on what must be out.
type delivery struct {
	name  string
	after string // comes only after this one, whose reply its sender knows
	send  func(resent bool) error
	does  func(m *out) // when it is carried out for the first time
}

// out is what must be out: permits, and how the reservation was settled.
type out struct {
	taken, reserved, beyond int64
	settled, exceeded       bool // exceeded: to more than it reserved
	late, unreserved        bool // withdrawn: the request takes nothing any more
	expired                 bool // the reservation is older than the interval
}

// explore delivers each request that may come next.
func (m *smallModel) explore(counts []int, want out) {
	state := m.state()
	key := fmt.Sprint(counts, want, m.now, state.text)
	if m.seen[key] || m.Failed() {
		return
	}
	m.seen[key] = true
	m.holds(counts, want, state)
	m.ends++
	for i, r := range m.requests {
		if counts[i] == 2 || r.after != "" && counts[m.index(r.after)] == 0 {
			continue
		}
		next, now := want, m.now
		if counts[i] == 0 {
			r.does(&next)
		}
		if err := r.send(counts[i] > 0); err != nil {
			m.Errorf("%s after %v: %v", r.name, m.named(counts), err)
		}
		counts[i]++
		m.explore(counts, next)
		counts[i]--
		m.now = now
		m.restore(state)
	}
}

func (m *smallModel) index(name string) int {
	for i, r := range m.requests {
		if r.name == name {
			return i
		}
	}
	panic(name)
}

func (m *smallModel) named(counts []int) (text string) {
	for i, n := range counts {
		text += fmt.Sprintf("%s: %d, ", m.requests[i].name, n)
	}
	return text
}

// A snapshot is what the keys hold.
type snapshot struct {
	hash    map[string]string
	value   string
	records []redis.Z
	text    string
}

func (m *smallModel) state() (s snapshot) {
	ctx, k := m.Context(), keysOfL
	p := m.rdb.Pipeline()
	hash, value, records := p.HGetAll(ctx, k[0]), p.Get(ctx, k[1]), p.ZRangeWithScores(ctx, k[2], 0, -1)
	_, _ = p.Exec(ctx) // its error says that there is no value
	s.hash, s.value, s.records = hash.Val(), value.Val(), records.Val()
	s.text = fmt.Sprint(s.hash, s.value, s.records)
	return s
}

func (m *smallModel) restore(s snapshot) {
	ctx, k := m.Context(), keysOfL
	_, err := m.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Del(ctx, k...)
		p.HSet(ctx, k[0], s.hash)
		if s.value != "" {
			p.Set(ctx, k[1], s.value, 0)
		}
		if len(s.records) > 0 {
			p.ZAdd(ctx, k[2], s.records...)
		}
		return nil
	})
	if err != nil {
		m.Fatal(err)
	}
}

// holds expects value + records = rate, and the records that count to hold what must be out.
func (m *smallModel) holds(counts []int, want out, s snapshot) {
	sum, living, value := int64(0), int64(0), int64(10)
	for _, z := range s.records {
		n, _ := wire.Permits(z.Member.(string))
		if sum += n; z.Score > float64(m.now-1000) {
			living += n
		}
	}
	if s.value != "" {
		_, _ = fmt.Sscan(s.value, &value)
	}
	if value+sum != 10 || living != want.taken+want.reserved+want.beyond {
		m.Errorf("%s want %+v; the value is %d, the records %v", m.named(counts), want, value, s.records)
	}
}

// once returns a delivery of one request that a groupCall makes.
func once(call *groupCall) func(resent bool) error {
	e := call.group.engine
	call.session, call.number, call.start = new(sessions).take(e), e.requests.Add(1), time.Now()
	return func(resent bool) error {
		call.ambiguous = resent
		call.results, call.err = call.send(call.group.engine.ctx)
		return call.err
	}
}

// In every order of deliveries, with every one of them once or twice, nothing is given back twice and
// nothing is charged twice.
func TestEveryOrderOfSettlementsSettlesOnce(t *testing.T) {
	for _, tc := range []struct {
		name     string
		requests []string
	}{
		{"a release", []string{"acquire", "release", "reserve", "less", "more"}},
		{"a withdrawal", []string{"acquire", "withdraw", "reserve", "less", "more"}},
		{"all back", []string{"acquire", "release", "reserve", "nothing", "more"}},
		{"an interval", []string{"reserve", "less", "more", "time", "charge"}},
		{"a lost reservation", []string{"acquire", "release", "reserve", "unreserve", "charge"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := &smallModel{T: t, rdb: redistest.MiniClient(t, redistest.Mini(t)), now: theTime,
				seen: map[string]bool{}}
			all := m.all()
			for _, name := range tc.requests {
				m.requests = append(m.requests, all[name])
			}
			m.rdb.HSet(t.Context(), "l", "rate", 10, "interval", 1000, "type", 0)
			m.explore(make([]int, len(m.requests)), out{})
			t.Logf("%d states", m.ends)
		})
	}
}

// all returns the requests by name: one Client takes 2 and reserves 3, and another one settles these as well.
func (m *smallModel) all() map[string]delivery {
	here, there := newEngine(m.T, m.rdb, withClock(&m.now)), newEngine(m.T, m.rdb, withClock(&m.now))
	l, g, elsewhere := here.limiter("l"), here.Group(here.limiter("l")), there.Group(there.limiter("l"))
	take := newAcquire(l, []run{{2, 1}}, nil)
	reserve := newGroupCall(g, []int64{3}, Want{Permits: 3, Reserve: true})
	sends := func(r *request) func(bool) error {
		return func(resent bool) error {
			copied := *r
			copied.ambiguous = resent
			_, _, err := l.run(m.Context(), copied.next())
			return err
		}
	}
	settles := func(g *Group, used int64) delivery {
		part := Part{Records: reserve.reserved[0], Reserved: 3, Used: used}
		d := delivery{send: once(&groupCall{group: g, settles: []Part{part}}), after: "reserve"}
		d.does = func(m *out) {
			if !m.settled && !m.expired {
				m.reserved = min(3, used)
			}
			if m.expired || !m.exceeded { // by another process also after it was settled to less
				m.beyond += max(0, used-3)
			}
			m.settled, m.exceeded = true, m.exceeded || used > 3
		}
		return d
	}
	all := map[string]delivery{
		"acquire": {send: sends(take), does: func(m *out) {
			if !m.late {
				m.taken += 2
			}
		}},
		"release": {send: sends(newRelease(l, 2, nil)), after: "acquire",
			does: func(m *out) { m.taken -= 2 }},
		"reserve": {send: once(reserve), does: func(m *out) {
			if !m.unreserved {
				m.reserved = 3
			}
		}},
		"less": settles(g, 1), "nothing": settles(g, 0), "more": settles(elsewhere, 5),
		"charge": {send: once(&groupCall{group: elsewhere, settles: []Part{{Used: 4}}}),
			does: func(m *out) { m.beyond += 4 }},
		"time": {after: "reserve", send: func(resent bool) error {
			if !resent {
				m.now += 1000
			}
			return nil
		}, does: func(m *out) { *m = out{settled: m.settled, exceeded: m.exceeded, expired: true} }},
		"withdraw": {send: sends(newRelease(l, 0, of(take))),
			does: func(m *out) { m.taken, m.late = 0, true }},
	}
	back := newRelease(l, 0, &withdrawal{after: reserve.number - 1, kept: keptAll, since: time.Now()})
	back.session, back.records = reserve.session, reserve.reserved[0]
	all["unreserve"] = delivery{send: sends(back), does: func(m *out) { m.reserved, m.unreserved = 0, true }}
	for name, d := range all {
		d.name = name
		all[name] = d
	}
	return all
}
