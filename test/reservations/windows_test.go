package reservations_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/grants"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// Whose permits are in no Client's hands.
const (
	reserved = -1
	charged  = -2 // whatever was left
)

// A booking is a reservation and what is known of it.
type booking struct {
	*rratelimiter.Reservation
	grant    int // its index
	reserved int64
	settled  bool
	silent   bool // settled without Redis, which therefore does not know it
	exceeded bool // settled to more than was reserved
}

// A desk gives permits in all ways at random, and knows what the limiter must hold.
type desk struct {
	*Limiter
	random   *rand.Rand
	typ      rratelimiter.RateType
	rate     int64
	interval int64      // ms
	clients  []*Limiter // who take and release
	out      grants.Grants
	bookings []*booking
	did      []string
}

func (d *desk) notes(what ...any) {
	d.did = append(d.did, fmt.Sprintln(append([]any{d.Now}, what...)...))
}

// counts notes permits that count from now on.
func (d *desk) counts(permits int64, of int) {
	d.out = append(d.out, grants.Grant{At: d.Now, Permits: permits, Of: of})
}

// left is what must be left.
func (d *desk) left() int64 { return d.rate - d.out.Within(d.Now, d.interval).Sum() }

// step does something at random.
func (d *desk) step() {
	d.Helper()
	by, n, fits := d.random.IntN(len(d.clients)), 1+d.random.Int64N(d.rate/2), false
	switch op := d.random.IntN(20); {
	case op < 6:
		ok, err := d.acquires(d.clients[by], n)
		d.Want(err)
		if fits = n <= d.left(); ok != fits {
			d.Errorf("acquire %d: %v", n, ok)
		} else if ok {
			d.counts(n, by)
		}
		d.notes("acquire", n, ok)
	case op < 11:
		r, err := d.clients[by].Reserve(d.Context(), n, 0)
		d.Want(err)
		if fits = n <= d.left(); (r != nil) != fits {
			d.Errorf("reserve %d: %v", n, r != nil)
		} else if fits {
			d.bookings = append(d.bookings, &booking{Reservation: r, grant: len(d.out), reserved: n})
			d.counts(n, reserved)
		}
		d.notes("reserve", n, r != nil)
	case op < 17 && len(d.bookings) > 0:
		d.settles(d.bookings[max(0, len(d.bookings)-1-d.random.IntN(6))])
	case op == 17:
		d.releases(by)
	case op == 18 && d.typ == PerClient:
		d.changes(by)
	case op == 18 && d.random.IntN(3) == 0:
		d.Want(ErrOf(d.clients[by].Charge(d.Context(), n)))
		d.counts(n, charged)
		d.notes("charge", n)
	default:
		d.Now += d.random.Int64N(d.interval / 2)
	}
}

// acquires takes permits, alone or by a Group.
func (d *desk) acquires(l *Limiter, permits int64) (bool, error) {
	if d.random.IntN(3) > 0 {
		return l.TryAcquire(d.Context(), permits, 0)
	}
	return l.Client.All(l.RateLimiter, l.Client.RateLimiter(d.Name()+"-wide").WithRate(1<<40, time.Second)).
		TryAcquire(d.Context(), permits, 0)
}

// changes changes the rate: as Java does, by a Client of another ID, or by one of this ID.
func (d *desk) changes(by int) {
	d.Helper()
	d.rate = []int64{5, 10, 20}[d.random.IntN(3)]
	how := d.random.IntN(3)
	d.notes("rate", d.rate, how)
	l := d.Limiter
	switch how {
	case 0:
		d.Want(d.Look.HSet(d.Context(), d.Name(), "rate", d.rate).Err())
		return
	case 1:
		l = d.clients[by]
	}
	interval := time.Duration(d.interval) * time.Millisecond
	d.Want(l.SetRate(d.Context(), d.typ, d.rate, interval, rratelimiter.WithKeepState()))
}

// settles settles a booking, now for the first time or later once more, here or by its ID.
func (d *desk) settles(b *booking) {
	d.Helper()
	if b.silent {
		return
	}
	used, r := d.random.Int64N(2*b.reserved), b.Reservation
	if d.random.IntN(2) == 0 {
		elsewhere, err := d.clients[d.random.IntN(len(d.clients))].Client.Reservation(b.ID())
		d.Want(err)
		r = elsewhere
	}
	grant := &d.out[b.grant]
	if b.settled && (!b.exceeded || grant.At <= d.Now-d.interval) {
		used = min(used, b.reserved) // or it might be charged twice, as Reservation says
	}
	d.Want(r.Settle(d.Context(), used))
	d.notes("settle", b.reserved, "reserved at", grant.At, "used", used, "again",
		b.settled, r != b.Reservation)
	if b.settled {
		return
	}
	b.settled, b.silent, b.exceeded = true, used == b.reserved, used > b.reserved
	grant.Permits = min(used, b.reserved)
	if used > b.reserved {
		d.counts(used-b.reserved, charged)
	}
}

// releases gives back some of what a Client has taken, from the newest on.
func (d *desk) releases(by int) {
	d.Helper()
	n, out := 1+d.random.Int64N(4), int64(0)
	for i := len(d.out) - 1; i >= 0 && out < n; i-- {
		if g := &d.out[i]; g.Of == by && g.At > d.Now-d.interval {
			back := min(g.Permits, n-out)
			g.Permits, out = g.Permits-back, out+back
		}
	}
	d.Want(d.clients[by].Release(d.Context(), out))
	d.notes("release", out)
}

// newDesk returns a desk of three Clients.
func newDesk(b *Bench, seed uint64, typ rratelimiter.RateType, opts ...rratelimiter.Option) *desk {
	b.Helper()
	d := &desk{Limiter: b.NewLimiter(typ, 20, 100*time.Millisecond), typ: typ, rate: 20, interval: 100,
		random: rand.New(rand.NewPCG(seed, 1))}
	for range 3 {
		bench := *b
		bench.Client = b.NewClient(opts...)
		d.clients = append(d.clients, bench.Wrap(bench.Client.RateLimiter(d.Name())))
	}
	d.clients[0].Takes(1)
	d.counts(1, 0)
	return d
}

// agrees expects what must be left.
func (d *desk) agrees() {
	d.Helper()
	if d.typ == Overall {
		d.Keeps(d.rate, d.ValueKey(), d.PermitsKey())
	}
	if n, err := d.clients[0].AvailablePermits(d.Context()); n != max(0, d.left()) || err != nil {
		d.Errorf("%d, %v are left, want %d", n, err, d.left())
	}
}

// By what was settled, no interval has more than the rate, except by what was charged: reservations count
// from the time of their grant on with what was used of them. After each step exactly these permits are
// out, and value + records = rate. Clients with one ID share the keys of a PER_CLIENT limit, also while the
// rate changes behind the back of each.
func TestNoIntervalExceedsTheRateByWhatWasSettled(t *testing.T) {
	for _, desks := range []struct {
		typ    rratelimiter.RateType
		rounds int
		opt    rratelimiter.Option
	}{
		{Overall, 8, rratelimiter.WithRedisson(BC0I16)}, {Overall, 2, rratelimiter.WithRedisson(BC0I8)},
		{Overall, 2, rratelimiter.WithRedisson(LC0I)}, {PerClient, 12, rratelimiter.WithID("pod")},
	} {
		OnBoth(t, func(b *Bench) {
			for range redistest.Rounds(t, desks.rounds) {
				seed := rand.Uint64()
				d := newDesk(b, seed, desks.typ, desks.opt)
				for i := 0; i < 200 && !b.Failed(); i++ {
					d.step()
					d.agrees()
				}
				if b.Failed() {
					b.Fatalf("seed %d: %s", seed, d.did)
				}
			}
		})
	}
}
