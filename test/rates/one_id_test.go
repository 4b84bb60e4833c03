package rates_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A pod is an exact model of what Clients with one ID share of a PER_CLIENT limit.
type pod struct {
	*Bench
	random   *rand.Rand
	name     string
	clients  []*rratelimiter.Client
	other    *rratelimiter.Client // of another ID
	rate     int64
	interval int64 // ms
	grants   []*podGrant
	log      []string
}

// A podGrant is what a Client was granted, and has not given back.
type podGrant struct {
	client      int
	at, n       int64
	reservation *rratelimiter.Reservation // whose record no release takes
	settled     bool
}

// Two Clients with one ID share a pair of keys, also while the rate changes behind the back of either: a
// request is granted if, and only if, the permits of the last interval leave room for it.
func TestClientsWithOneIDShareALimit(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		for range redistest.Rounds(t, 60) {
			seed := rand.Uint64()
			p := newPod(b, seed)
			for range 60 {
				p.step()
			}
			if b.Failed() {
				b.Fatalf("seed %d: %q", seed, p.log)
			}
		}
	})
}

// A Client does not trust a value that another one wrote for the rate between two changes.
func TestTwoChangesOfTheRateWithOneID(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		p := newPod(b, 0)
		one, two := p.clients[0].RateLimiter(p.name), p.clients[1].RateLimiter(p.name)
		set := func(rate int64) { b.Want(b.Look.HSet(b.Context(), p.name, "rate", rate).Err()) } // as Java
		b.Want(Yes(one.TryAcquire(b.Context(), 8, 0)))
		set(20)
		b.Want(Yes(two.TryAcquire(b.Context(), 1, 0)))
		set(10)
		if ok, err := one.TryAcquire(b.Context(), 10, 0); ok || err != nil {
			t.Errorf("19 of 10 permits were granted: %v, %v", ok, err)
		}
		b.Want(Yes(one.TryAcquire(b.Context(), 1, 0)))
	})
}

func newPod(b *Bench, seed uint64) *pod {
	b.Helper()
	p := &pod{Bench: b, random: rand.New(rand.NewPCG(seed, 0)), name: redistest.Name(b.T), rate: 10,
		interval: 1000}
	clock := rratelimiter.WithClock(func() time.Time { return time.UnixMilli(b.Now) })
	for range 2 {
		p.clients = append(p.clients, rratelimiter.New(b.RDB, clock, rratelimiter.WithID("pod")))
	}
	p.other = rratelimiter.New(b.RDB, clock)
	for _, c := range append(p.clients, p.other) {
		b.Cleanup(func() { _ = c.Close() })
	}
	b.Want(p.other.RateLimiter(p.name).SetRate(b.Context(), PerClient, p.rate, time.Second))
	b.Want(p.other.RateLimiter(p.name+"2").SetRate(b.Context(), PerClient, 1<<30, time.Second))
	return p
}

func (p *pod) step() {
	p.Now += 1 + p.random.Int64N(150)
	i := p.random.IntN(len(p.clients))
	l := p.clients[i].RateLimiter(p.name)
	n := 1 + p.random.Int64N(4)
	switch kind := p.random.IntN(16); {
	case kind < 5:
		ok, err := l.TryAcquire(p.Context(), n, 0)
		p.judges(podCall{"acquire", i, n, nil}, ok, err)
	case kind < 7:
		second := p.clients[i].RateLimiter(p.name + "2")
		ok, err := p.clients[i].All(l, second).TryAcquire(p.Context(), n, 0)
		p.judges(podCall{"group", i, n, nil}, ok, err)
	case kind < 9:
		r, _, err := l.TryReserve(p.Context(), n)
		p.judges(podCall{"reserve", i, n, r}, r != nil, err)
	case kind < 11:
		p.settles(i)
	case kind < 13:
		p.releases(i, l)
	case kind < 15:
		p.changes()
	default:
		p.Now += p.random.Int64N(1500)
	}
}

// A podCall is a call that asks for permits.
type podCall struct {
	name        string
	client      int
	n           int64
	reservation *rratelimiter.Reservation // of a call that reserves
}

// judges compares what a call got with the model.
func (p *pod) judges(c podCall, ok bool, err error) {
	p.log = append(p.log, fmt.Sprintf("%d: %s %d by %d: %v %v", p.Now, c.name, c.n, c.client, ok, err))
	want := p.out()+c.n <= p.rate
	if c.n > p.rate {
		want, err = false, nil
	}
	if ok != want || err != nil {
		p.Errorf("%s of %d: %v, %v with %d of %d out", c.name, c.n, ok, err, p.out(), p.rate)
	}
	if ok {
		p.grants = append(p.grants, &podGrant{c.client, p.Now, c.n, c.reservation, false})
	}
}

// out returns the permits of the last interval.
func (p *pod) out() (sum int64) {
	for _, g := range p.grants {
		if g.at > p.Now-p.interval {
			sum += g.n
		}
	}
	return sum
}

// settles settles a reservation of a Client for fewer permits, by either Client.
func (p *pod) settles(i int) {
	for _, g := range p.grants {
		if g.reservation == nil || g.settled || g.at <= p.Now-p.interval {
			continue
		}
		r, err := p.clients[i].Reservation(g.reservation.ID())
		p.Want(err)
		used := p.random.Int64N(g.n + 1)
		p.log = append(p.log, fmt.Sprintf("%d: settle %d of %d by %d", p.Now, used, g.n, i))
		p.Want(r.Settle(p.Context(), used))
		g.n, g.settled = used, true
		return
	}
}

// releases gives back what a Client was granted last.
func (p *pod) releases(i int, l *rratelimiter.RateLimiter) {
	for j := len(p.grants) - 1; j >= 0; j-- {
		g := p.grants[j]
		if g.client == i && g.reservation == nil && g.n > 0 && g.at > p.Now-p.interval {
			n := 1 + p.random.Int64N(g.n)
			p.log = append(p.log, fmt.Sprintf("%d: release %d by %d", p.Now, n, i))
			p.Want(l.Release(p.Context(), n))
			g.n -= n
			return
		}
	}
}

// changes changes the rate: as Java does, by a Client of another ID, or by one of this ID.
func (p *pod) changes() {
	p.rate = []int64{5, 10, 20}[p.random.IntN(3)]
	how := p.random.IntN(3)
	p.log = append(p.log, fmt.Sprintf("%d: rate %d, way %d", p.Now, p.rate, how))
	by := p.other
	switch how {
	case 0:
		p.Want(p.Look.HSet(p.Context(), p.name, "rate", p.rate).Err())
		return
	case 1:
		by = p.clients[p.random.IntN(len(p.clients))]
	}
	p.Want(by.RateLimiter(p.name).SetRate(p.Context(), PerClient, p.rate, time.Second,
		rratelimiter.WithKeepState()))
}
