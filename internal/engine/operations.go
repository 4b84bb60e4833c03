package engine

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A Change sets a rate.
type Change struct {
	Rate
	OnlyFirst bool // only if none is set
	MustExist bool // only if one is set
	KeepState bool // taken permits count against the new rate
}

// SetRate carries out a change, and reports whether it did.
func (l *Limiter) SetRate(ctx context.Context, change Change) (bool, error) {
	script := setRateScript
	if change.OnlyFirst {
		script = trySetRateScript
	}
	return changes(ctx, l, func(ctx context.Context) (bool, error) {
		given := NewGivenRate(change.Rate, true).argument
		args := argumentsOf(l.engine.session.boxed, flag(change.MustExist), given, flag(change.KeepState),
			l.engine.now())
		args.put(argChannel, wire.ChangedOf(l.Hash))
		call := newCall(script, args)
		call.Done = changedAnything
		reply, err := l.plainly(ctx, call, given, func() (redisx.Reply, bool, error) {
			return l.runOn(ctx, change.Type, call)
		})
		if err != nil || reply.At(0) == 0 {
			return false, err
		}
		// Believe the type before the other keys are cleared: from here on
		// acquires are to use the new keys.
		l.noteType(change.Type)
		err = l.clearOther(ctx, change.Type)
		return err == nil, err
	})
}

// clearOther removes the unused keys of the other type. A script names the keys of one
// type, so this takes a second script, which checks again which type is in force: another
// client may have set it meanwhile. It runs only if there are such keys. While a cluster
// slot moves, a script must not name missing keys.
func (l *Limiter) clearOther(ctx context.Context, typ int) error {
	other := l.Keys().Pairs[1-typ]
	var found int64
	for _, key := range []string{other.Value, other.Permits} {
		n, err := l.exists(ctx, key)
		if err != nil {
			return translated(l, typ, err)
		}
		found += n
	}
	if found == 0 {
		return nil
	}
	_, _, err := l.runOn(ctx, 1-typ, newCall(clearScript, argumentsOf()))
	return err
}

// Peek returns the numbers of the limiter and takes nothing. OK reports whether
// one permit is there.
func (l *Limiter) Peek(ctx context.Context) (Result, error) { return within(ctx, l, l.peek) }

func (l *Limiter) peek(ctx context.Context) (Result, error) {
	args := argumentsOf(l.engine.session.boxed)
	args.put(argPermits, 1)
	args.put(argNow, l.engine.now())
	if l.given != nil {
		args.put(argGivenRate, l.given.argument)
	}
	reply, _, err := l.run(ctx, newCall(peekScript, args))
	if err != nil {
		return Result{}, err
	}
	one := []run{{1, 1}} // a caller of one permit; OK is set below, from Left
	a, err := newAcquireReply(reply, len(one))
	if err != nil {
		return Result{}, err
	}
	v := newSplit(a, one).next()
	v.OK = v.Left >= 1
	return v, nil
}

// Rate returns the current rate. It asks a master, because a replica may not yet have a
// rate that the caller has just set.
func (l *Limiter) Rate(ctx context.Context) (Rate, error) {
	return within(ctx, l, func(ctx context.Context) (Rate, error) {
		get := func(rdb redis.Cmdable) ([]any, error) {
			return rdb.HMGet(ctx, l.Hash, wire.Rate, wire.Interval, wire.Type, wire.KeepAlive).Result()
		}
		fields, err := redisx.OnMaster(ctx, &l.engine.config.Runner, l.Hash, get)
		if err != nil {
			return Rate{}, translated(l, wire.Overall, err)
		}
		return parseRate(l.Hash, fields)
	})
}

// Exists reports whether the limiter's hash exists.
func (l *Limiter) Exists(ctx context.Context) (bool, error) {
	return within(ctx, l, func(ctx context.Context) (bool, error) {
		n, err := l.exists(ctx, l.Hash)
		return n > 0, translated(l, wire.Overall, err)
	})
}

// exists returns 1 if a key exists, otherwise 0.
func (l *Limiter) exists(ctx context.Context, key string) (int64, error) {
	return redisx.OnMaster(ctx, &l.engine.config.Runner, key, func(rdb redis.Cmdable) (int64, error) {
		return rdb.Exists(ctx, key).Result()
	})
}

// Delete removes the limiter, and reports whether there was anything to remove.
func (l *Limiter) Delete(ctx context.Context) (bool, error) {
	return changes(ctx, l, func(ctx context.Context) (bool, error) {
		keys := l.Keys()
		n, err := l.onAll(ctx, deleteScript, keys.All())
		return n > 0 && err == nil, err
	})
}

// onAll runs a script on all keys of a limiter, of both types, and perhaps on
// those of another limiter.
func (l *Limiter) onAll(ctx context.Context, sc *redisx.Script, keys []string) (int64, error) {
	boxed := make([]any, len(keys))
	for i, key := range keys {
		boxed[i] = key
	}
	call := redisx.Call{Script: sc, Keys: boxed, Args: []any{wire.ChangedOf(l.Hash)}, Done: changedAnything}
	reply, _, err := l.engine.config.Runner.Run(ctx, &call)
	return reply.At(0), translated(l, wire.Overall, err)
}

// Rename gives the limiter another name, and then calls renamed with the limiter
// of that name. If ctx ends meanwhile, Rename returns an error and may call
// renamed later.
func (l *Limiter) Rename(ctx context.Context, newName string, renamed func(*Limiter)) error {
	if err := l.Usable(ctx); err != nil {
		return err
	}
	to := &Limiter{engine: l.engine, name: newName, given: l.given}
	if err := to.setKeys("newName"); err != nil {
		return l.Named(err)
	}
	if !l.Together(to) {
		bound := "be in the cluster slot of " + strconv.Quote(l.Hash)
		return l.Named(Invalid("newName", to.Described(), bound))
	}
	_, err := changes(ctx, l, func(ctx context.Context) (int64, error) {
		old, renewed := l.Keys(), to.Keys()
		n, err := l.onAll(ctx, renameScript, append(old.All(), renewed.All()...))
		if n > 0 {
			to.noteType(l.Type())
			renamed(to)
			l.engine.moveWithdrawal(l, to)
			l.engine.upper.Wrote(to)
		} else if err == nil {
			err = notInitialized()
		}
		return n, err
	})
	return err
}

// Expire runs a command that sets a time to live, with ms and a condition as
// EXPIRE takes it. It reports whether the command did.
func (l *Limiter) Expire(ctx context.Context, command string, ms int64, condition string) (bool, error) {
	return changes(ctx, l, func(ctx context.Context) (bool, error) {
		args := argumentsOf(command, ms, condition)
		args.put(argChannel, wire.ChangedOf(l.Hash))
		call := newCall(expireScript, args)
		call.Done = changedAnything
		reply, _, err := l.run(ctx, call)
		return reply.At(0) == 1 && err == nil, err
	})
}

// TimeToLive returns the remaining time to live as PTTL does.
func (l *Limiter) TimeToLive(ctx context.Context) (time.Duration, error) {
	return within(ctx, l, func(ctx context.Context) (time.Duration, error) {
		// A master is asked, as in Rate.
		ask := func(rdb redis.Cmdable) (time.Duration, error) { return rdb.PTTL(ctx, l.Hash).Result() }
		ttl, err := redisx.OnMaster(ctx, &l.engine.config.Runner, l.Hash, ask)
		return ttl, translated(l, wire.Overall, err)
	})
}

// ExpireTime returns when the limiter expires, the zero Time if it does not.
func (l *Limiter) ExpireTime(ctx context.Context) (time.Time, error) {
	return within(ctx, l, func(ctx context.Context) (time.Time, error) {
		ask := func(rdb redis.Cmdable) (time.Duration, error) { return rdb.PExpireTime(ctx, l.Hash).Result() }
		at, err := redisx.OnMaster(ctx, &l.engine.config.Runner, l.Hash, ask)
		switch {
		case redis.HasErrorPrefix(err, "unknown command"):
			before := "rratelimiter: ExpireTime of "
			return time.Time{}, &Error{prefix: before, detail: " needs Redis 7.0", cause: err}
		case err != nil || at < 0:
			return time.Time{}, translated(l, wire.Overall, err)
		}
		return time.UnixMilli(at.Milliseconds()), nil
	})
}

// Listen calls f with the name of the hash for each event of the limiter, until
// stop is called or the Engine is closed.
func (l *Limiter) Listen(ctx context.Context, event Event, f func(string)) (stop func(), err error) {
	e, name := l.engine, l.Hash
	if _, err := within(ctx, l, func(ctx context.Context) (bool, error) {
		err := notifies(ctx, &e.config.Runner, event)
		return err == nil, err
	}); err != nil {
		return nil, err
	}
	// The channel of the event needs no more of the server's settings than
	// Redisson does; that of the key would need K.
	channel := fmt.Sprintf("__keyevent@%d__:%s", e.config.Runner.DB, event.Name)
	events, end := e.config.Hub.Events(channel, name)
	stopped := make(chan struct{})
	stop = sync.OnceFunc(func() {
		end()
		close(stopped)
	})
	// Wait until Redis has confirmed the subscription: an event right after
	// Listen returns must not be missed.
	if err := e.config.Hub.Confirmed(ctx, channel); err != nil {
		stop()
		if e.Closed() {
			err = ErrClosed
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
		return nil, ErrClosed
	}
	return stop, nil
}

// Repaired says what Repair has found.
type Repaired struct{ Records, Rewritten, Dropped, Drift int64 }

// Repair heals the limiter, rewrites the records in the format of Config.Plain, and drops members
// that are no records.
func (l *Limiter) Repair(ctx context.Context) (Repaired, error) { return changes(ctx, l, l.repair) }

func (l *Limiter) repair(ctx context.Context) (Repaired, error) {
	drift, err := l.heal(ctx, nil)
	all, layout := Repaired{Drift: -drift}, l.engine.config.Plain
	const first = -1 << 53 // ms; no record that counts is older
	began, last := time.Now(), false
	for sent, cursor, over := 1, int64(first), int64(0); err == nil; sent++ {
		// Each call has random bytes of its own: two records of equal bytes would
		// be one member of the sorted set.
		pattern := layout.Append(make([]byte, 0, wire.RecordSpace), 1)
		args := argumentsOf(l.engine.session.boxed, "", cursor, pattern, l.engine.now())
		args.put(argNumbers, over)
		args.put(argChannel, wire.ChangedOf(l.Hash))
		args = append(args, layout.Header)
		var reply redisx.Reply
		if reply, _, err = l.run(ctx, newCall(repairScript, args)); err != nil {
			return all, err
		}
		cursor, over, all.Records = reply.At(0), reply.At(1), reply.At(3)
		all.Rewritten += reply.At(4)
		all.Dropped += reply.At(5)
		switch {
		case last:
			return all, nil
		case reply.At(2) == 1:
			// The value has the permits of dropped records again. After that, one more call wakes waiters.
			last = true
			_, err = l.heal(ctx, nil)
		default:
			err = tooManyRounds(sent, began)
		}
	}
	return all, err
}

// Peers describes a limiter and the Clients that use it.
type Peers struct {
	Now      int64 // ms, by the clock that dates records
	Rate     int64
	Interval time.Duration
	Clients  int64 // of Go, within a minute
	Left     int64 // permits, or fewer while many records have expired
}

// Peers asks for the peers of a limiter. given is the rate that its acquires set,
// nil if they set none.
func (l *Limiter) Peers(ctx context.Context, given *GivenRate) (Peers, error) {
	return within(ctx, l, func(ctx context.Context) (Peers, error) {
		reply, _, err := l.run(ctx, aloneCall(peersScript, l.rateArgs(given)))
		return Peers{reply.At(0), reply.At(1), wire.Milliseconds(reply.At(2)), reply.At(3), reply.At(4)}, err
	})
}

// A Booking is a record for permits that were granted without Redis.
type Booking struct {
	At     int64 // ms, by the clock that dates records
	Record string
}

// NewRecord returns a record of some permits.
func (l *Limiter) NewRecord(permits uint32) string {
	return string(l.engine.config.Layout.Append(make([]byte, 0, wire.RecordSpace), permits))
}

// NextNumber returns a number for a booking. The numbers of a Client only grow.
func (l *Limiter) NextNumber() int64 { return l.engine.requests.Add(1) }

// Book adds the records of a booking once, however often it is sent with its
// number. given is as in Peers.
func (l *Limiter) Book(ctx context.Context, given *GivenRate, number int64, bookings []Booking) error {
	args := l.rateArgs(given)
	// The number makes the booking idempotent: Redis recognises a copy by it.
	args[argNumber-1] = wire.Number(number)
	for i, b := range bookings {
		args.put(argBooked+2*i, b.At)
		args.put(argBooked+2*i+1, b.Record)
	}
	_, err := changes(ctx, l, func(ctx context.Context) (redisx.Reply, error) {
		return l.runPlain(ctx, aloneCall(bookScript, args), args[argPermits-1])
	})
	return err
}

// rateArgs returns ARGV of the scripts that expect the given rate in the position
// of the permits.
func (l *Limiter) rateArgs(given *GivenRate) arguments {
	var text any = ""
	if given != nil {
		text = given.argument
	}
	args := argumentsOf(l.engine.session.boxed)
	args.put(argPermits, text)
	args.put(argNow, l.engine.now())
	return args
}
