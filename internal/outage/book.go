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
func (l *localLimiter) learn(ctx context.Context) {
	p, err := askPeers(ctx, l.limiter, l.givenRate.Load())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.learning = false
	switch {
	case errors.Is(err, engine.ErrNotInitialized) || err == nil && (p.Rate <= 0 || p.Interval <= 0):
		l.rate, l.learntAt = 0, time.Now()
	case err == nil:
		l.rate, l.interval, l.learntAt = p.Rate, p.Interval, time.Now()
		l.share = l.circuit.guard.shareOf(l.limiter.Type(), p.Clients)
	}
}

// book books what was granted without Redis.
func (l *localLimiter) book(ctx context.Context) error {
	asked := time.Now()
	p, err := askPeers(ctx, l.limiter, l.givenRate.Load())
	l.withoutRate.Store(errors.Is(err, engine.ErrNotInitialized))
	if err != nil {
		return err
	}
	number, records := l.nextBooking()
	bookings := make([]engine.Booking, 0, len(records))
	for _, r := range records {
		// A grant is dated by the end of its slot, and no later than now.
		age := max(0, asked.Sub(r.end)).Milliseconds()
		bookings = append(bookings, engine.Booking{At: p.Now - age, Record: r.record})
	}
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	all, err := l.limiter.Book(ctx, l.givenRate.Load(), number, bookings)
	if all {
		l.noteBooked(records)
	}
	return err
}

// toBook returns the records of a booking, and its number. Until Redis confirms the booking,
// toBook returns the same one.
func (l *localLimiter) nextBooking() (number int64, records []bookedRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.unconfirmed) > 0 {
		return l.bookingNumber, l.unconfirmed
	}
	l.bookingNumber = l.limiter.NextNumber()
	const most = 1000 // records: the rest goes with the next call
	now := time.Now()
	for _, s := range l.buckets {
		for left := s.unbooked; left > 0 && len(l.unconfirmed) < most && now.Before(s.end.Add(l.interval)); {
			n := min(left, wire.MaxPermits)
			l.unconfirmed = append(l.unconfirmed, bookedRecord{s.end, l.limiter.NewRecord(uint32(n)), n})
			left -= n
		}
	}
	return l.bookingNumber, l.unconfirmed
}

// booked notes that Redis knows of some records.
func (l *localLimiter) noteBooked(records []bookedRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unconfirmed = nil
	for _, r := range records {
		for i := range l.buckets {
			if s := &l.buckets[i]; s.end.Equal(r.end) {
				s.unbooked -= min(s.unbooked, r.permits)
			}
		}
	}
}
