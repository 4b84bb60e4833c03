package request

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/failure"
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
func (t *Target) SetRate(ctx context.Context, change Change) (bool, error) {
	script := setRateScript
	if change.OnlyFirst {
		script = trySetRateScript
	}
	given := NewGivenRate(change.Rate, true).Argument
	args := argumentsOf(t.source.session.boxed, flag(change.MustExist), given, flag(change.KeepState),
		t.source.now())
	args.put(argChannel, wire.ChangedOf(t.Hash))
	call := newCall(script, args)
	call.Done = changedAnything
	reply, err := t.plainly(ctx, call, given, func() (redisx.Reply, bool, error) {
		return t.runOn(ctx, change.Type, call)
	})
	if err != nil || reply.At(0) == 0 {
		return false, err
	}
	// Believe the type before the other keys are cleared: from here on
	// acquires are to use the new keys.
	t.noteType(change.Type)
	err = t.clearOther(ctx, change.Type)
	return err == nil, err
}

// clearOther removes the unused keys of the other type. A script names the keys of one
// type, so this takes a second script, which checks again which type is in force: another
// client may have set it meanwhile. It runs only if there are such keys. While a cluster
// slot moves, a script must not name missing keys.
func (t *Target) clearOther(ctx context.Context, typ int) error {
	other := t.Keys().Pairs[1-typ]
	var found int64
	for _, key := range []string{other.Value, other.Permits} {
		n, err := t.exists(ctx, key)
		if err != nil {
			return translated(t, typ, err)
		}
		found += n
	}
	if found == 0 {
		return nil
	}
	_, _, err := t.runOn(ctx, 1-typ, newCall(clearScript, argumentsOf()))
	return err
}

// Peek returns the numbers of the limiter and takes nothing. OK reports whether
// one permit is there.
func (t *Target) Peek(ctx context.Context) (Result, error) {
	args := argumentsOf(t.source.session.boxed)
	args.put(argPermits, 1)
	args.put(argNow, t.source.now())
	if t.Given != nil {
		args.put(argGivenRate, t.Given.Argument)
	}
	reply, _, err := t.run(ctx, newCall(peekScript, args))
	if err != nil {
		return Result{}, err
	}
	one := []Run{{1, 1}} // a caller of one permit; OK is set below, from Left
	a, err := newReply(reply, len(one))
	if err != nil {
		return Result{}, err
	}
	split := newSplit(a, one)
	v := split.next()
	v.OK = v.Left >= 1
	return v, nil
}

// CurrentRate returns the current rate. It asks a master, because a replica may not yet have a
// rate that the caller has just set.
func (t *Target) CurrentRate(ctx context.Context) (Rate, error) {
	get := func(rdb redis.Cmdable) ([]any, error) {
		return rdb.HMGet(ctx, t.Hash, wire.Rate, wire.Interval, wire.Type, wire.KeepAlive).Result()
	}
	fields, err := redisx.OnMaster(ctx, &t.source.Runner, t.Hash, get)
	if err != nil {
		return Rate{}, translated(t, wire.Overall, err)
	}
	return parseRate(t.Hash, fields)
}

// Exists reports whether the limiter's hash exists.
func (t *Target) Exists(ctx context.Context) (bool, error) {
	n, err := t.exists(ctx, t.Hash)
	return n > 0, translated(t, wire.Overall, err)
}

// exists returns 1 if a key exists, otherwise 0.
func (t *Target) exists(ctx context.Context, key string) (int64, error) {
	return redisx.OnMaster(ctx, &t.source.Runner, key, func(rdb redis.Cmdable) (int64, error) {
		return rdb.Exists(ctx, key).Result()
	})
}

// Delete removes the limiter, and reports whether there was anything to remove.
func (t *Target) Delete(ctx context.Context) (bool, error) {
	keys := t.Keys()
	n, err := t.onAll(ctx, deleteScript, keys.All())
	return n > 0 && err == nil, err
}

// onAll runs a script on all keys of a limiter, of both types, and perhaps on
// those of another limiter.
func (t *Target) onAll(ctx context.Context, sc *redisx.Script, keys []string) (int64, error) {
	boxed := make([]any, len(keys))
	for i, key := range keys {
		boxed[i] = key
	}
	call := redisx.Call{Script: sc, Keys: boxed, Args: []any{wire.ChangedOf(t.Hash)}, Done: changedAnything}
	reply, _, err := t.source.Runner.Run(ctx, &call)
	return reply.At(0), translated(t, wire.Overall, err)
}

// Rename gives the limiter the name of another one, and reports whether it did: also with an error, after
// which too few replicas may have it.
func (t *Target) Rename(ctx context.Context, to *Target) (bool, error) {
	old, renewed := t.Keys(), to.Keys()
	n, err := t.onAll(ctx, renameScript, append(old.All(), renewed.All()...))
	if n > 0 {
		to.noteType(t.Type())
	} else if err == nil {
		err = failure.NotInitialized()
	}
	return n > 0, err
}

// Expire runs a command that sets a time to live, with ms and a condition as
// EXPIRE takes it. It reports whether the command did.
func (t *Target) Expire(ctx context.Context, command string, ms int64, condition string) (bool, error) {
	args := argumentsOf(command, ms, condition)
	args.put(argChannel, wire.ChangedOf(t.Hash))
	call := newCall(expireScript, args)
	call.Done = changedAnything
	reply, _, err := t.run(ctx, call)
	return reply.At(0) == 1 && err == nil, err
}

// TimeToLive returns the remaining time to live as PTTL does.
func (t *Target) TimeToLive(ctx context.Context) (time.Duration, error) {
	// A master is asked, as in CurrentRate.
	ask := func(rdb redis.Cmdable) (time.Duration, error) { return rdb.PTTL(ctx, t.Hash).Result() }
	ttl, err := redisx.OnMaster(ctx, &t.source.Runner, t.Hash, ask)
	return ttl, translated(t, wire.Overall, err)
}

// ExpireTime returns when the limiter expires, the zero Time if it does not.
func (t *Target) ExpireTime(ctx context.Context) (time.Time, error) {
	ask := func(rdb redis.Cmdable) (time.Duration, error) { return rdb.PExpireTime(ctx, t.Hash).Result() }
	at, err := redisx.OnMaster(ctx, &t.source.Runner, t.Hash, ask)
	switch {
	case redis.HasErrorPrefix(err, "unknown command"):
		before := "rratelimiter: ExpireTime of "
		return time.Time{}, &failure.Error{Prefix: before, Detail: " needs Redis 7.0", Cause: err}
	case err != nil || at < 0:
		return time.Time{}, translated(t, wire.Overall, err)
	}
	return time.UnixMilli(at.Milliseconds()), nil
}

// Repaired says what Repair has found.
type Repaired struct{ Records, Rewritten, Dropped, Drift int64 }

// Repair heals the limiter, rewrites the records in the format of Config.Plain, and drops members
// that are no records.
func (t *Target) Repair(ctx context.Context) (Repaired, error) {
	drift, err := t.heal(ctx, nil)
	all, layout := Repaired{Drift: -drift}, t.source.Plain
	const first = -1 << 53 // ms; no record that counts is older
	began, last := time.Now(), false
	for sent, cursor, over := 1, int64(first), int64(0); err == nil; sent++ {
		// Each call has random bytes of its own: two records of equal bytes would
		// be one member of the sorted set.
		pattern := layout.Append(make([]byte, 0, wire.RecordSpace), 1)
		args := argumentsOf(t.source.session.boxed, "", cursor, pattern, t.source.now())
		args.put(argNumbers, over)
		args.put(argChannel, wire.ChangedOf(t.Hash))
		args = append(args, layout.Header)
		var reply redisx.Reply
		if reply, _, err = t.run(ctx, newCall(repairScript, args)); err != nil {
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
			_, err = t.heal(ctx, nil)
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
func (t *Target) Peers(ctx context.Context, given *GivenRate) (Peers, error) {
	reply, _, err := t.run(ctx, aloneCall(peersScript, t.rateArgs(given)))
	return Peers{reply.At(0), reply.At(1), wire.Milliseconds(reply.At(2)), reply.At(3), reply.At(4)}, err
}

// A Booking is a record for permits that were granted without Redis.
type Booking struct {
	At     int64 // ms, by the clock that dates records
	Record string
}

// NewRecord returns a record of some permits.
func (t *Target) NewRecord(permits uint32) string {
	return string(t.source.Layout.Append(make([]byte, 0, wire.RecordSpace), permits))
}

// NextNumber returns a number for a booking. The numbers of a Source only grow.
func (t *Target) NextNumber() int64 { return t.source.requests.Add(1) }

// Book adds the records of a booking once, however often it is sent with its
// number. given is as in Peers.
func (t *Target) Book(ctx context.Context, given *GivenRate, number int64, bookings []Booking) error {
	args := t.rateArgs(given)
	// The number makes the booking idempotent: Redis recognises a copy by it.
	args[argNumber-1] = wire.Number(number)
	for i, b := range bookings {
		args.put(argBooked+2*i, b.At)
		args.put(argBooked+2*i+1, b.Record)
	}
	call := aloneCall(bookScript, args)
	_, err := t.plainly(ctx, call, args[argPermits-1], func() (redisx.Reply, bool, error) {
		return t.run(ctx, call)
	})
	return err
}

// rateArgs returns ARGV of the scripts that expect the given rate in the position
// of the permits.
func (t *Target) rateArgs(given *GivenRate) arguments {
	var text any = ""
	if given != nil {
		text = given.Argument
	}
	args := argumentsOf(t.source.session.boxed)
	args.put(argPermits, text)
	args.put(argNow, t.source.now())
	return args
}
