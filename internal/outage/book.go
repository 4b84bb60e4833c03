package outage

import (
	"context"
	"errors"
	"time"

	"github.com/redisson-go/rratelimiter/internal/engine"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A bookedRecord is a record in Redis for the permits of a slot.
type bookedRecord struct {
	end     time.Time
	record  string
	permits int64
}

// askPeers asks Redis about a limiter, for a while; given is the rate that its acquires set.
func askPeers(ctx context.Context, limiter *engine.Limiter, given *engine.GivenRate) (engine.Peers, error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	return limiter.Peers(ctx, given)
}

// learn finds out about the limiter.
func (l *local) learn(ctx context.Context) {
	p, err := askPeers(ctx, l.limiter, l.given.Load())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.learning = false
	switch {
	case errors.Is(err, engine.ErrNotInitialized) || err == nil && (p.Rate <= 0 || p.Interval <= 0):
		l.rate, l.learnt = 0, time.Now()
	case err == nil:
		l.rate, l.interval, l.learnt = p.Rate, p.Interval, time.Now()
		l.share = l.circuit.guard.shareOf(l.limiter.Type(), p.Clients)
	}
}

// book books what was granted without Redis.
func (l *local) book(ctx context.Context) error {
	asked := time.Now()
	p, err := askPeers(ctx, l.limiter, l.given.Load())
	l.unset.Store(errors.Is(err, engine.ErrNotInitialized))
	if err != nil {
		return err
	}
	number, records := l.toBook()
	bookings := make([]engine.Booking, 0, len(records))
	for _, r := range records {
		// A grant is dated by the end of its slot, and no later than now.
		age := max(0, asked.Sub(r.end)).Milliseconds()
		bookings = append(bookings, engine.Booking{At: p.Now - age, Record: r.record})
	}
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	all, err := l.limiter.Book(ctx, l.given.Load(), number, bookings)
	if all {
		l.booked(records)
	}
	return err
}

// toBook returns the records of a booking, and its number. Until Redis confirms the booking,
// toBook returns the same one.
func (l *local) toBook() (number int64, records []bookedRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.booking) > 0 {
		return l.bookingNumber, l.booking
	}
	l.bookingNumber = l.limiter.NextNumber()
	const most = 1000 // records: the rest goes with the next call
	now := time.Now()
	for _, s := range l.slots {
		for left := s.own; left > 0 && len(l.booking) < most && now.Before(s.end.Add(l.interval)); {
			n := min(left, wire.MaxPermits)
			l.booking = append(l.booking, bookedRecord{s.end, l.limiter.NewRecord(uint32(n)), n})
			left -= n
		}
	}
	return l.bookingNumber, l.booking
}

// booked notes that Redis knows of some records.
func (l *local) booked(records []bookedRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.booking = nil
	for _, r := range records {
		for i := range l.slots {
			if s := &l.slots[i]; s.end.Equal(r.end) {
				s.own -= min(s.own, r.permits)
			}
		}
	}
}
