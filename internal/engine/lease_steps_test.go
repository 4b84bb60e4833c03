package engine

import (
	"fmt"
	"time"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// comes returns the state in which a call comes once more, and whether it may.
func (s leaseState) comes(before int8) (leaseState, bool) {
	if before > 0 {
		s.copies--
	}
	return s, before < 2 && s.copies >= 0
}

// begun reports whether a lease may have begun. All leases are alike, so they begin in their order.
func (s *leaseState) begun(i int) bool {
	return i == 0 || s.leases[i-1].took+s.leases[i-1].withdrawn > 0
}

// take delivers the call that takes a lease. The first one of the second Client is late: a copy overtakes it.
func (m *leaseModel) take(s leaseState, i int, next func(string, leaseState)) {
	before := s.leases[i].took
	to, ok := s.comes(before)
	if !ok || !s.begun(i) {
		return
	}
	resent := (before > 0) != (i == 1)
	granted := m.carryOut(&to, fmt.Sprint("take ", i, resent), func() (int64, error) {
		if err := m.takes[i](resent); err != nil || !Granted(m.taking[i].results) {
			return 0, err
		}
		return int64(modelLeases[i].permits), nil
	})
	l := &to.leases[i]
	if l.took++; before == 0 {
		l.began = s.now
	}
	if granted > 0 && l.withdrawn == 0 && !l.granted {
		l.granted, l.left = true, int8(granted)
	}
	next(fmt.Sprint("take ", i), to)
}

// settle delivers the settlement of a lease.
func (m *leaseModel) settle(s leaseState, i int, next func(string, leaseState)) {
	l := s.leases[i]
	to, ok := s.comes(l.settled)
	if !ok || !l.ended {
		return
	}
	part := Part{Records: m.taking[i].reserved[0], Reserved: int64(modelLeases[i].permits),
		Used: int64(l.used), Lease: true, Idle: wire.Milliseconds(int64(l.idle))}
	if m.settles[part] == nil {
		m.settles[part] = once(&groupCall{group: m.taking[i].group, settles: []Part{part}})
	}
	m.carryOut(&to, fmt.Sprint("settle ", i, l.used, l.idle, l.settled), func() (int64, error) {
		return 0, m.settles[part](l.settled > 0)
	})
	to.leases[i].settled, to.unseen = l.settled+1, 0
	next(fmt.Sprint("settle ", i), to)
}

// withdraw delivers the withdrawal of a lease, whose Client does not know whether it was granted.
func (m *leaseModel) withdraw(s leaseState, i int, next func(string, leaseState)) {
	l := s.leases[i]
	to, ok := s.comes(l.withdrawn)
	settled := l.ended || l.granted && l.left < modelLeases[i].permits
	if m.withdraws[i] == nil || !ok || !s.begun(i) || settled {
		return
	}
	m.carryOut(&to, fmt.Sprint("withdraw ", i, l.withdrawn), func() (int64, error) {
		return 0, m.withdraws[i](l.withdrawn > 0)
	})
	to.leases[i] = modelled{took: l.took, withdrawn: l.withdrawn + 1}
	next(fmt.Sprint("withdraw ", i), to)
}

// inMemory takes the steps of a Client that Redis does not see: it uses permits of a lease, or ends it.
func (m *leaseModel) inMemory(s leaseState, i int, next func(string, leaseState)) {
	if l := s.leases[i]; !l.granted || l.ended {
		return
	}
	began, now := time.UnixMilli(theTime+int64(s.leases[i].began)), time.UnixMilli(theTime+int64(s.now))
	s.unseen |= 1 << i
	lease := func() *lease {
		l := &lease{size: int64(modelLeases[i].permits), began: began, beganWall: began.UnixNano(),
			lasts: wire.Milliseconds(modelLease)}
		l.left.Store(int64(s.leases[i].left))
		l.lastUse.Store(int64(s.leases[i].lastUse))
		return l
	}
	to, l := s, lease()
	if _, ok := l.take(int64(modelLeases[i].use), now.Sub(began), now); ok {
		to.leases[i].left, to.leases[i].lastUse = int8(l.left.Load()), int16(l.lastUse.Load())
		m.used(&to, modelLeases[i].use)
		next(fmt.Sprint("use ", i), to)
	}
	to = s
	part, lastUse, _ := lease().close()
	to.leases[i] = modelled{took: to.leases[i].took, granted: true, ended: true, used: int8(part.Used),
		idle: int16(max(0, now.Sub(lastUse)).Milliseconds())}
	if i == 0 && m.withdraws[1] != nil { // its settlement may come later
		next("end 0", to)
	} else if to.unseen == 1<<i {
		m.settle(to, i, next)
	}
}

// acquire lets another caller take all that is left.
func (m *leaseModel) acquire(s leaseState, next func(string, leaseState)) {
	r := m.acquires[s.acquired]
	granted := m.carryOut(&s, fmt.Sprint("acquire ", s.acquired), func() (int64, error) { return m.asks(r) })
	if s.acquired++; granted > 0 {
		m.used(&s, int8(granted))
	}
	next("acquire", s)
}

// asks sends an acquire, and returns the permits that it was granted.
func (m *leaseModel) asks(r *request) (int64, error) {
	reply, err := r.send(m.Context())
	if err != nil {
		return 0, err
	}
	granted, _ := newSplit(reply, r.runs).run(0)
	return granted * r.runs[0].permits, nil
}

// time lets time pass: a part of a lease, to the last ms in which a lease can be used, or to the first one in
// which a record does not count.
func (m *leaseModel) time(s leaseState, next func(string, leaseState)) {
	lastMs, expired := int16(0), int16(0)
	for _, l := range s.leases {
		at, open := l.began+modelLease-1, l.granted && !l.ended
		if open && at > s.now && (lastMs == 0 || at < lastMs) {
			lastMs = at
		}
	}
	for _, z := range m.redis[s.redis].records { // the oldest one first
		if at := int16(z.Score - theTime + modelInterval); at > s.now && expired == 0 {
			expired = at
		}
	}
	pass := func(name string, to int16, left func(s *leaseState) *int8) {
		s := s
		if to == 0 || *left(&s) == 0 {
			return
		}
		*left(&s)--
		s.now, s.unseen = to, 0
		for i, u := range s.uses {
			if u.at <= to-modelInterval-modelLease {
				s.uses[i] = use{}
			}
		}
		next(name, s)
	}
	pass("a while", s.now+modelLease*2/5, func(s *leaseState) *int8 { return &s.whiles })
	pass("the last ms of a lease", lastMs, func(s *leaseState) *int8 { return &s.ends })
	pass("a record expires", expired, func(s *leaseState) *int8 { return &s.intervals })
}
