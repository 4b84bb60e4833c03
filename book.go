package rratelimiter

import (
	"context"
	"errors"
	"time"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A bookedRecord is a record in Redis for the permits of a slot.
type bookedRecord struct {
	end     time.Time
	record  string
	permits int64
}

// A peers is what peers.lua tells.
type peers struct {
	now      int64 // ms, of the clock by which records are dated
	rate     int64
	interval time.Duration
	clients  int64
}

// rateText is how scripts are told the rate that acquires set; it is empty if they set none.
func (l *local) rateText() any {
	if given := l.givenRate.Load(); given != nil {
		return given.text
	}
	return ""
}

// askPeers asks Redis about a limiter, for a while. rate is the rate that its acquires set, as
// scripts are told it.
func (k *limiterKeys) askPeers(ctx context.Context, rate any) (peers, error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	return within(ctx, k, func(ctx context.Context) (peers, error) {
		args := argumentsOf(k.client.session)
		args.put(argPermits, rate)
		args.put(argNow, k.client.now())
		reply, _, err := k.run(ctx, operation{peersScript, time.Now(), args, nil})
		return peers{reply.At(0), reply.At(1), milliseconds(reply.At(2)), reply.At(3)}, err
	})
}

// learn finds out about the limiter.
func (l *local) learn(ctx context.Context) {
	p, err := l.keys.askPeers(ctx, l.rateText())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.learning = false
	switch {
	case errors.Is(err, ErrNotInitialized) || err == nil && (p.rate <= 0 || p.interval <= 0):
		l.rate, l.learnt = 0, time.Now()
	case err == nil:
		l.rate, l.interval, l.learnt = p.rate, p.interval, time.Now()
		l.share = l.circuit.guard.shareOf(l.keys.believed(), p.clients)
	}
}

// book books what was granted without Redis.
func (l *local) book(ctx context.Context) error {
	asked := time.Now()
	p, err := l.keys.askPeers(ctx, l.rateText())
	l.unset.Store(errors.Is(err, ErrNotInitialized))
	if err != nil {
		return err
	}
	args := argumentsOf(l.keys.client.session)
	number, records := l.toBook()
	args.put(argNumber, wire.Number(number))
	args.put(argPermits, l.rateText())
	args.put(argNow, l.keys.client.now())
	at := argSlot
	for _, r := range records {
		// A grant is dated by the end of its slot, and no later than now.
		age := max(0, asked.Sub(r.end)).Milliseconds()
		args.put(at, p.now-age)
		args.put(at+1, r.record)
		at += 2
	}
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	again, err := within(ctx, l.keys, func(ctx context.Context) (bool, error) {
		reply, _, err := l.keys.run(ctx, operation{bookScript, time.Now(), args, nil})
		return reply.At(0) != 0, err
	})
	if err == nil && !again {
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
	l.bookingNumber = l.keys.client.requests.Add(1)
	layout := l.keys.client.layout
	const most = 1000 // records: the rest goes with the next call
	now := time.Now()
	for _, s := range l.slots {
		for left := s.own; left > 0 && len(l.booking) < most && now.Before(s.end.Add(l.interval)); {
			n := min(left, wire.MaxPermits)
			record := layout.Append(make([]byte, 0, wire.RecordSpace), uint32(n), false)
			l.booking = append(l.booking, bookedRecord{s.end, string(record), n})
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
