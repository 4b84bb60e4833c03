package engine

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/request"
)

// SetRate carries out a change, and reports whether it did.
func (l *Limiter) SetRate(ctx context.Context, change Change) (bool, error) {
	return changes(ctx, l, func(ctx context.Context) (bool, error) { return l.Target.SetRate(ctx, change) })
}

// Peek returns the numbers of the limiter and takes nothing. OK reports whether
// one permit is there.
func (l *Limiter) Peek(ctx context.Context) (Result, error) { return within(ctx, l, l.Target.Peek) }

// Rate returns the current rate.
func (l *Limiter) Rate(ctx context.Context) (Rate, error) { return within(ctx, l, l.CurrentRate) }

// Exists reports whether the limiter's hash exists.
func (l *Limiter) Exists(ctx context.Context) (bool, error) { return within(ctx, l, l.Target.Exists) }

// Delete removes the limiter, and reports whether there was anything to remove.
func (l *Limiter) Delete(ctx context.Context) (bool, error) { return changes(ctx, l, l.Target.Delete) }

// Rename gives the limiter another name, and then calls renamed with the limiter
// of that name. If ctx ends meanwhile, Rename returns an error and may call
// renamed later.
func (l *Limiter) Rename(ctx context.Context, newName string, renamed func(*Limiter)) error {
	if err := l.Usable(ctx); err != nil {
		return err
	}
	to := &Limiter{engine: l.engine}
	if err := to.InitRenamed(&l.Target, newName); err != nil {
		return l.Named(err)
	}
	if !l.Together(to) {
		bound := "be in the cluster slot of " + strconv.Quote(l.Hash)
		return l.Named(failure.Invalid("newName", to.Described(), bound))
	}
	_, err := changes(ctx, l, func(ctx context.Context) (bool, error) {
		done, err := l.Target.Rename(ctx, &to.Target)
		if done {
			renamed(to)
			l.engine.queues.MoveWithdrawal(&l.Target, &to.Target)
			l.engine.upper.Wrote(to.Hash)
		}
		return done, err
	})
	return err
}

// Expire runs a command that sets a time to live, with ms and a condition as
// EXPIRE takes it. It reports whether the command did.
func (l *Limiter) Expire(ctx context.Context, command string, ms int64, condition string) (bool, error) {
	return changes(ctx, l, func(ctx context.Context) (bool, error) {
		return l.Target.Expire(ctx, command, ms, condition)
	})
}

// TimeToLive returns the remaining time to live as PTTL does.
func (l *Limiter) TimeToLive(ctx context.Context) (time.Duration, error) {
	return within(ctx, l, l.Target.TimeToLive)
}

// ExpireTime returns when the limiter expires, the zero Time if it does not.
func (l *Limiter) ExpireTime(ctx context.Context) (time.Time, error) {
	return within(ctx, l, l.Target.ExpireTime)
}

// Repair heals the limiter, rewrites its records in the format of the Engine, and drops members that are no
// records.
func (l *Limiter) Repair(ctx context.Context) (request.Repaired, error) {
	return changes(ctx, l, l.Target.Repair)
}

// Peers asks for the peers of a limiter. given is the rate that its acquires set,
// nil if they set none.
func (l *Limiter) Peers(ctx context.Context, given *GivenRate) (Peers, error) {
	return within(ctx, l, func(ctx context.Context) (Peers, error) { return l.Target.Peers(ctx, given) })
}

// Book adds the records of a booking once, however often it is sent with its
// number. given is as in Peers.
func (l *Limiter) Book(ctx context.Context, given *GivenRate, number int64, bookings []Booking) error {
	_, err := changes(ctx, l, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, l.Target.Book(ctx, given, number, bookings)
	})
	return err
}

// Listen calls f with the name of the hash for each event of the limiter, until
// stop is called or the Engine is closed.
func (l *Limiter) Listen(ctx context.Context, event Event, f func(string)) (stop func(), err error) {
	e, name := l.engine, l.Hash
	if _, err := within(ctx, l, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, e.source.Notifies(ctx, event)
	}); err != nil {
		return nil, err
	}
	// The channel of the event needs no more of the server's settings than
	// Redisson does; that of the key would need K.
	channel := fmt.Sprintf("__keyevent@%d__:%s", e.source.Runner.DB, event.Name)
	events, end := e.hub.Events(channel, name)
	stopped := make(chan struct{})
	stop = sync.OnceFunc(func() {
		end()
		close(stopped)
	})
	// Wait until Redis has confirmed the subscription: an event right after
	// Listen returns must not be missed.
	if err := e.hub.Confirmed(ctx, channel); err != nil {
		stop()
		if e.Closed() {
			err = failure.ErrClosed
		}
		return nil, l.Named(err)
	}
	running := e.Go(func(ctx context.Context) {
		defer stop()
		for {
			select {
			case <-events:
				f(name)
			case <-stopped:
				return
			case <-ctx.Done():
				return
			}
		}
	})
	if !running {
		stop()
		return nil, failure.ErrClosed
	}
	return stop, nil
}
