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

// A spell is permits that count from a time on, until an interval later.
type spell struct {
	at, permits int64
	by          int  // the Client; -1 for a reservation
	charged     bool // whatever was left
}

// A booking is a reservation and what is known of it.
type booking struct {
	*rratelimiter.Reservation
	spell    *spell
	reserved int64
	settled  bool
	silent   bool // settled without Redis, which therefore does not know it
	exceeded bool // settled to more than was reserved
}

// A desk gives permits in all ways at random, and knows what the limiter must hold.
type desk struct {
	*Limiter
	random   *rand.Rand
	rate     int64
	interval int64      // ms
	clients  []*Limiter // who take and release
	spells   []*spell
	bookings []*booking
	did      []string
}

func (d *desk) notes(what ...any) {
	d.did = append(d.did, fmt.Sprintln(append([]any{d.Now}, what...)...))
}

// counts adds a spell that begins now.
func (d *desk) counts(permits int64, by int, charged bool) *spell {
	s := &spell{d.Now, permits, by, charged}
	d.spells = append(d.spells, s)
	return s
}

// left is what must be left.
func (d *desk) left() int64 {
	left := d.rate
	for _, s := range d.spells {
		if s.at > d.Now-d.interval {
			left -= s.permits
		}
	}
	return left
}

// step does something at random.
func (d *desk) step() {
	d.Helper()
	by, n, fits := d.random.IntN(len(d.clients)), 1+d.random.Int64N(d.rate/2), false
	switch op := d.random.IntN(20); {
	case op < 6:
		ok, err := d.clients[by].TryAcquire(d.Context(), n, 0)
		d.Want(err)
		if fits = n <= d.left(); ok != fits {
			d.Errorf("acquire %d: %v", n, ok)
		} else if ok {
			d.counts(n, by, false)
		}
		d.notes("acquire", n, ok)
	case op < 11:
		r, err := d.clients[by].Reserve(d.Context(), n, 0)
		d.Want(err)
		if fits = n <= d.left(); (r != nil) != fits {
			d.Errorf("reserve %d: %v", n, r != nil)
		} else if fits {
			b := &booking{Reservation: r, spell: d.counts(n, -1, false), reserved: n}
			d.bookings = append(d.bookings, b)
		}
		d.notes("reserve", n, r != nil)
	case op < 17 && len(d.bookings) > 0:
		d.settles(d.bookings[max(0, len(d.bookings)-1-d.random.IntN(6))])
	case op == 17:
		d.releases(by)
	case op == 18 && d.random.IntN(3) == 0:
		d.Want(ErrOf(d.clients[by].Charge(d.Context(), n)))
		d.counts(n, by, true)
		d.notes("charge", n)
	default:
		d.Now += d.random.Int64N(d.interval / 2)
	}
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
	if b.settled && (!b.exceeded || b.spell.at <= d.Now-d.interval) {
		used = min(used, b.reserved) // or it might be charged twice, as Reservation says
	}
	d.Want(r.Settle(d.Context(), used))
	d.notes("settle", b.reserved, "reserved at", b.spell.at, "used", used, "again",
		b.settled, r != b.Reservation)
	if b.settled {
		return
	}
	b.settled, b.silent, b.exceeded = true, used == b.reserved, used > b.reserved
	b.spell.permits = min(used, b.reserved)
	if used > b.reserved {
		d.counts(used-b.reserved, -1, true)
	}
}

// releases gives back some of what a Client has taken, from the newest on.
func (d *desk) releases(by int) {
	d.Helper()
	n, out := 1+d.random.Int64N(4), int64(0)
	for i := len(d.spells) - 1; i >= 0 && out < n; i-- {
		if s := d.spells[i]; s.by == by && !s.charged && s.at > d.Now-d.interval {
			back := min(s.permits, n-out)
			s.permits, out = s.permits-back, out+back
		}
	}
	d.Want(d.clients[by].Release(d.Context(), out))
	d.notes("release", out)
}

// By what was settled, no interval has more than the rate, except by what was charged: reservations count
// from the time of their grant on with what was used of them. After each step exactly these permits are
// out, and value + records = rate.
func TestNoIntervalExceedsTheRateByWhatWasSettled(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		charges := int64(0)
		for range redistest.Rounds(t, 12) {
			seed := rand.Uint64()
			d := &desk{Limiter: b.NewLimiter(Overall, 20, 100*time.Millisecond), rate: 20, interval: 100,
				random: rand.New(rand.NewPCG(seed, 1))}
			for range 3 {
				d.clients = append(d.clients, d.With())
			}
			for _, l := range d.clients { // each has a Client of its own for reservations by ID
				bench := *l.Bench
				bench.Client = d.NewClient()
				l.Bench = &bench
			}
			d.Takes(1)
			d.counts(1, -1, false)
			for i := 0; i < 200 && !b.Failed(); i++ {
				d.step()
				d.Keeps(d.rate, d.ValueKey(), d.PermitsKey())
				if n, err := d.AvailablePermits(b.Context()); n != max(0, d.left()) || err != nil {
					b.Errorf("%d, %v are left, want %d", n, err, d.left())
				}
			}
			var log grants.Log
			for _, s := range d.spells {
				if at := time.UnixMilli(s.at); s.charged {
					charges += s.permits
				} else if s.permits > 0 {
					log.Add(grants.Entry{Start: at, End: at, Permits: s.permits})
				}
			}
			limit := grants.Limit{Rate: d.rate, Interval: 100 * time.Millisecond}
			if w := limit.Worst(&log, 0); w.Permits() > d.rate {
				b.Errorf("%v", w)
			}
			if b.Failed() {
				b.Fatalf("seed %d: %s", seed, d.did)
			}
		}
		if charges == 0 {
			b.Error("nothing was charged")
		}
	})
}
