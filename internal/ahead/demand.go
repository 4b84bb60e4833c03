package ahead

import (
	"cmp"
	"fmt"
	"time"

	"github.com/redisson-go/rratelimiter/internal/engine"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

const (
	// longestLease bounds the time of a lease. Keys outlive the interval of their last record by a second,
	// so they outlive a record that is dated a lease ahead as well (scripts/parts/write.lua).
	longestLease = time.Second

	// shortestLease is far more than a round trip takes. A shorter lease would be over before it is used.
	shortestLease = 5 * time.Millisecond

	partsOfInterval = 20  // a lease lasts at most this part of the interval
	leastLeased     = 100 // a smaller rate is not leased
	worthLeasing    = 8   // permits: a lease takes two calls
	learnEvery      = 10 * time.Second
	defaultShare    = 0.5
)

// A Leasing says how a caller's permits are taken ahead. The zero value means no leases.
type Leasing struct {
	Longest time.Duration // of a lease
	Share   float64       // the largest share of the remaining permits that a lease takes
}

// Validate returns why the Leasing cannot be used, as an error made by refuse.
func (g Leasing) Validate(refuse func(argument string, value any, bound string) error) error {
	switch {
	case g.Longest != 0 && g.Longest < shortestLease:
		return refuse("Max of WithLease", g.Longest, fmt.Sprintf("be 0 or at least %v", shortestLease))
	case !(g.Share >= 0 && g.Share <= 1): // or not a number
		return refuse("Share of WithLease", g.Share, "be more than 0 and at most 1, or 0 for the default")
	}
	return nil
}

// A demand is how much one limiter is used, and what Redis has left: it says how long leases last, and how
// large the next one is. It is a value, guarded by the mu of its leased.
type demand struct {
	leasing Leasing // of the last call

	since     time.Time // when it began to count
	asked     int64     // permits that were taken from Redis since then
	used      int64     // permits that the last lease used
	exhausted bool      // it used most of them
	ended     time.Time // when it ended

	left    int64         // permits that Redis had left, by its last reply
	said    time.Time     // when it did
	clients int64         // that share them
	learnt  time.Time     // when clients and lasts were learnt
	lasts   time.Duration // how long leases last; 0 if the limiter is not leased
	scarce  time.Time     // until then no lease is taken, because Redis has refused permits
}

// noteAsked counts permits that a call has taken from Redis, and reports whether the limiter is used often
// enough for a lease.
func (d *demand) noteAsked(permits int64, now time.Time) bool {
	within := d.lasts
	if within == 0 { // not known, or not leased
		if now.Sub(d.learnt) < learnEvery {
			return false
		}
		within = min(d.leasing.Longest, longestLease)
	}
	if now.Sub(d.since) > within {
		d.since, d.asked = now, 0
	}
	d.asked += permits
	return d.asked >= worthLeasing/2
}

// noteLeft records how many permits Redis has left.
func (d *demand) noteLeft(permits int64, now time.Time) { d.left, d.said = permits, now }

// noteScarce records that Redis has refused permits. Callers compete for them, here and elsewhere, and a
// lease would take at once what Java gets permit by permit: its share was 0.12 to 0.29 of its due. Where
// callers compete, the next refusal comes within a second.
func (d *demand) noteScarce(now time.Time) { d.scarce = now.Add(longestLease) }

// noteEnded records what a lease of a size has used.
func (d *demand) noteEnded(used, size int64, now time.Time) {
	d.used, d.exhausted, d.ended = used, size-used < size/4, now
}

// notePeers records what Redis has said of a limiter and its Clients.
func (d *demand) notePeers(p engine.Peers, now time.Time) {
	d.clients, d.learnt = p.Clients, now
	d.noteLeft(p.Left, now)
	d.noteRate(p.Rate, p.Interval.Milliseconds())
}

// noteRate says how long leases last, by a rate and its interval in ms.
func (d *demand) noteRate(rate, interval int64) {
	d.lasts = min(d.leasing.Longest, wire.Milliseconds(interval)/partsOfInterval, longestLease)
	if d.lasts = d.lasts.Truncate(time.Millisecond); d.lasts < shortestLease || rate < leastLeased {
		d.lasts = 0
	}
}

// known reports whether it is known how long leases last, and what is left.
func (d *demand) known(now time.Time) bool {
	return now.Sub(d.learnt) < learnEvery && (now.Sub(d.said) < longestLease || d.lasts == 0)
}

// size returns the size of the next lease, while the current one, if size is above 0, has left permits of a
// size: twice what the last one used, if that was most of it, and otherwise a quarter more; and at most this
// Client's part of the share of what is left.
func (d *demand) size(currentSize, currentLeft int64, now time.Time) int64 {
	if now.Sub(d.ended) > d.lasts { // that use is over
		d.used, d.exhausted = 0, false
	}
	used, exhausted := max(d.used, d.asked), d.exhausted || d.asked > d.used
	if currentSize > 0 {
		left := max(0, currentLeft)
		used, exhausted = currentSize-left, left < currentSize/4
	}
	wanted := used + max(1, used/4)
	if exhausted {
		wanted = 2 * used
	}
	share := float64(d.left) * cmp.Or(d.leasing.Share, defaultShare) / float64(max(1, d.clients))
	return min(wanted, int64(share), wire.MaxPermits)
}
