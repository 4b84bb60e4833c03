package engine

import (
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// The record of a lease counts until an interval after its end. If it is settled when its last use is more
// than an interval old, what it used is back, and no other record is taken for it.
func TestALeaseIsSettledAnIntervalAfterItsLastUse(t *testing.T) {
	m := &smallModel{T: t, rdb: redistest.MiniClient(t, redistest.Mini(t)), now: theTime}
	e := newEngine(t, m.rdb, withClock(&m.now))
	m.rdb.HSet(t.Context(), "l", "rate", 10, "interval", 1000, "type", 0)
	l, g := e.limiter("l"), e.Group(e.limiter("l"))
	lease := newGroupCall(g, []int64{4}, Want{Permits: 4, Reserve: true, Lease: 50 * time.Millisecond})
	if err := once(lease)(false); err != nil {
		t.Fatal(err)
	}
	m.now += 20
	if _, err := newAcquire(l, []run{{1, 1}}, nil).send(t.Context()); err != nil {
		t.Fatal(err)
	}
	const lastUse = 5
	m.now = theTime + 1030
	part := Part{Records: lease.reserved[0], Reserved: 4, Used: 2, Lease: true,
		Idle: time.Duration(m.now-theTime-lastUse) * time.Millisecond}
	if err := once(&groupCall{group: g, settles: []Part{part}})(false); err != nil {
		t.Fatal(err)
	}
	m.holds(nil, out{taken: 2}, m.state()) // for one ms more
	m.now++
	m.holds(nil, out{}, m.state())
}
