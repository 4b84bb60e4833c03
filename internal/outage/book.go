package outage

import (
	"context"
	"errors"
	"time"

	"github.com/redisson-go/rratelimiter/internal/engine"
	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A bookedRecord is a record in Redis for the permits of a bucket.
type bookedRecord struct {
	end     time.Time
	record  string
	permits int64
}

// askPeers asks Redis about a limiter, for at most probeLimit. given is the rate
// that its acquires set.
func askPeers(ctx context.Context, limiter *engine.Limiter, given *engine.GivenRate) (engine.Peers, error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	return limiter.Peers(ctx, given)
}

// learn asks Redis for the rate and the number of Clients. After a failure the old
// rate stays: it is a better basis for a share than none.
func (l *localLimiter) learn(ctx context.Context) {
	p, err := askPeers(ctx, l.limiter, l.givenRate.Load())
	if err == nil {
		l.circuit.guard.noteClients(p.Clients, time.Now())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.learning = false
	switch {
	case errors.Is(err, failure.ErrNotInitialized) || err == nil && (p.Rate <= 0 || p.Interval <= 0):
		l.rate, l.learntAt = 0, time.Now()
	case err == nil:
		l.rate, l.interval, l.learntAt = p.Rate, p.Interval, time.Now()
		l.share = l.circuit.guard.shareOf(l.limiter.Type(), p.Clients)
	}
}

// book books in Redis the permits that were granted without Redis.
func (l *localLimiter) book(ctx context.Context) (err error) {
	defer func() { l.bookingFailed.Store(err != nil) }()
	asked := time.Now()
	p, err := askPeers(ctx, l.limiter, l.givenRate.Load())
	if err != nil {
		return err
	}
	// Peers comes first, because records are dated by the server's clock, which is known
	// only from its reply. The age of a grant is measured here, by a single clock.
	number, records := l.nextBooking()
	bookings := make([]engine.Booking, 0, len(records))
	for _, r := range records {
		// A grant is dated by the end of its bucket, and no later than now:
		// permits may come back late, but never early.
		age := max(0, asked.Sub(r.end)).Milliseconds()
		bookings = append(bookings, engine.Booking{At: p.Now - age, Record: r.record})
	}
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	if err := l.limiter.Book(ctx, l.givenRate.Load(), number, bookings); err != nil {
		return err
	}
	// Redis has the records. Only now may they leave the sum of unbooked permits:
	// a reply that is lost leads to a copy, not to a gap.
	l.noteBooked(records)
	return nil
}

// nextBooking returns the records of a booking, and its number. Until Redis
// confirms a booking, nextBooking returns the same one, so that Redis recognises
// a copy by its number.
func (l *localLimiter) nextBooking() (number int64, records []bookedRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.unconfirmed) > 0 {
		return l.bookingNumber, l.unconfirmed
	}
	l.bookingNumber = l.limiter.NextNumber()
	const most = 1000 // records per call; the rest goes with the next one
	now := time.Now()
	for _, s := range l.buckets {
		// A record holds at most wire.MaxPermits. Expired buckets need none.
		for left := s.unbooked; left > 0 && len(l.unconfirmed) < most && now.Before(s.end.Add(l.interval)); {
			n := min(left, wire.MaxPermits)
			l.unconfirmed = append(l.unconfirmed, bookedRecord{s.end, l.limiter.NewRecord(uint32(n)), n})
			left -= n
		}
	}
	return l.bookingNumber, l.unconfirmed
}

// noteBooked records that Redis has these records. Their permits still count against the
// share, but are no longer unbooked.
func (l *localLimiter) noteBooked(records []bookedRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unconfirmed = nil
	for _, r := range records {
		// Buckets are found by their end: some may have been pruned while the
		// booking was sent, so an index would name another one.
		for i := range l.buckets {
			if s := &l.buckets[i]; s.end.Equal(r.end) {
				s.unbooked -= min(s.unbooked, r.permits)
			}
		}
	}
}
