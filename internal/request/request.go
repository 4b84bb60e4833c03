package request

import (
	"context"
	"errors"
	"time"

	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// An identity is how Redis recognizes a request that it has already carried out
// (scripts/parts/sessions.lua): a resent request is the same request.
type identity struct {
	session   any // boxed for go-redis
	number    int64
	start     time.Time
	ambiguous bool // a copy may be under way, or have been carried out
}

// Ambiguous reports whether a copy may be under way, or have been carried out.
func (id *identity) Ambiguous() bool { return id.ambiguous }

// Options say how an acquire is judged.
type Options struct {
	GivenRate any  // the text of a GivenRate, boxed; nil if acquires set no rate
	Portion   any  // what turns.Portion says about waiting callers, nil if nothing
	Numbers   bool // a caller wants more than yes or no
}

// A Request is one script call: it acquires permits for one caller or for many that came
// together, or gives permits back.
//
// The requests of a limiter are sent one after another, with growing numbers, so
// that one number tells which of them were carried out. Only a hanging request may
// still be under way when the next one is sent.
type Request struct {
	identity
	target   *Target
	Releases bool  // it gives permits back
	runs     []Run // of an acquire
	permits  int64 // the sum over the runs
	records  any   // for the permits, or the mark of the Source; boxed for go-redis
	options  Options
	before   *Request    // withdraws unowned permits first; nil for a request that only does so
	back     *Withdrawal // what it withdraws itself, nil if nothing
	healed   bool        // heal.lua was called for it
	drift    int64       // by which the value was wrong then

	// room lets the request of a lone caller be one allocation.
	room room
}

// A room is for what a small request needs.
type room struct {
	call   redisx.Call
	run    [1]Run
	number any // the text of the number, boxed for go-redis
	args   [argPortion]any
}

// Acquire returns the request for some runs. Permits that are unowned go back before.
func (t *Target) Acquire(runs []Run, unowned *Withdrawal, options Options) *Request {
	req := &Request{target: t, options: options}
	if unowned != nil {
		req.before = t.Withdraw(unowned)
	}
	req.session, req.number, req.start = t.source.session.boxed, t.source.requests.Add(1), time.Now()
	// A copy, because the batch reuses its own runs while an abandoned request may
	// still need them.
	req.runs = append(req.room.run[:0], runs...)
	for _, run := range runs {
		req.permits += run.Permits * run.size()
	}
	req.makeRecords()
	return req
}

// makeRecords makes the records of an acquire. The number and the records share one string,
// because allocating is the larger part of making them.
func (r *Request) makeRecords() {
	text := wire.AppendNumber(make([]byte, 0, wire.NumberSize+wire.RecordSpace), r.number)
	all := string(r.target.source.Layout.AppendAll(text, r.permits))
	r.room.number, r.records = all[:wire.NumberSize], all[wire.NumberSize:]
}

// Release returns the request that gives permits back. Permits that are unowned go back before.
func (t *Target) Release(permits int64, unowned *Withdrawal) *Request {
	req := &Request{target: t, Releases: true, permits: permits, records: t.source.mark}
	if unowned != nil {
		req.before = t.Withdraw(unowned)
	}
	req.session = t.source.session.boxed
	req.renew()
	return req
}

// renew gives the request the next number: with the old one it would count as a resent copy.
func (r *Request) renew() {
	r.number, r.start, r.ambiguous = r.target.source.requests.Add(1), time.Now(), false
	r.room.number = wire.Number(r.number)
}

// Permits returns the permits of all callers.
func (r *Request) Permits() int64 { return r.permits }

// Withdraws reports whether the request withdraws unowned permits, alone or before it does something else.
func (r *Request) Withdraws() bool { return r.back != nil || r.before != nil }

// Send sends the request until all of it is done, because one call of Redis handles a
// bounded number of records, and judges nothing before the limiter is plain. The reply is
// that of an acquire.
func (r *Request) Send(ctx context.Context) (reply Reply, err error) {
	if r.before != nil {
		if _, err := r.before.Send(ctx); err != nil && !errors.Is(err, failure.ErrNotInitialized) {
			return Reply{}, err
		}
	}
	began := time.Now()
	for sent := 1; ; sent++ {
		numbers, ambiguous, err := r.target.run(ctx, r.call())
		if r.ambiguous = r.ambiguous || ambiguous; err != nil {
			return Reply{}, err
		}
		heals, done := asksForHeal(numbers), false
		switch {
		case heals:
			err = r.heal(ctx)
		case r.Releases:
			done = r.isDone(numbers)
		default:
			reply, err = newReply(numbers, len(r.runs))
			reply.Drift += r.drift
			done = true
		}
		if err == nil && !done {
			if err = ctx.Err(); err == nil {
				err = tooManyRounds(sent, began)
			}
		}
		if done || err != nil {
			return reply, err
		}
	}
}

// heal heals the limiter, so that the request can be sent again.
func (r *Request) heal(ctx context.Context) error {
	drift, err := r.target.heal(ctx, r.options.GivenRate)
	r.drift += drift
	// A record of the same name may be there. A copy that comes later is known by its number.
	if r.healed = true; !r.Releases {
		r.makeRecords()
	}
	return err
}

// isDone reports whether a release is done. If not, it turns the request into that for the rest. The reply
// says how many permits went back, below 0 if the withdrawal is not complete, and whether there may be more
// (scripts/release.lua).
func (r *Request) isDone(reply redisx.Reply) bool {
	given, more := reply.At(0), reply.At(1) != 0
	if more && given >= 0 {
		r.permits -= given
		r.renew()
	}
	return !more
}

// call returns the call that sends the request. Arguments that are rarely needed stand at the end, so that
// most requests are short.
func (r *Request) call() *redisx.Call {
	source := r.target.source
	args := arguments(r.room.args[:argType])
	args.put(argRecords, r.records)
	args[argSession-1], args[argNumber-1], args[argPermits-1] = r.session, r.room.number, r.permits
	if source.Clock != nil {
		args.put(argNow, source.now())
	}
	if r.ambiguous {
		args.put(argResent, time.Since(r.start).Milliseconds())
	}
	if r.options.Numbers {
		args.put(argNumbers, 1)
	}
	if r.healed {
		args.put(argHealed, 1)
	}
	script := acquireScript
	if r.Releases {
		script = releaseScript
		args.put(argChannel, wire.ChangedOf(r.target.Hash))
		r.back.put(&args)
	} else {
		r.putRates(&args)
	}
	call := &r.room.call
	call.Script, call.Args, call.Start, call.Table = script, args, r.start, r.options.Numbers
	if source.Runner.Confirm.Replicas > 0 {
		call.Done = r.confirmable()
	}
	return call
}

// putRates adds the arguments that only few acquires have.
func (r *Request) putRates(args *arguments) {
	if r.options.GivenRate != nil {
		args.put(argGivenRate, r.options.GivenRate)
	}
	if r.options.Portion != nil {
		args.put(argPortion, r.options.Portion)
	}
	if len(r.runs) == 1 && r.runs[0].size() == 1 {
		return // the script does not need the run of a single caller
	}
	for i, run := range r.runs {
		args.put(argRuns+2*i, run.Permits)
		args.put(argRuns+2*i+1, run.Many)
	}
}

// confirmable returns a function that reports whether a reply took or gave back permits,
// and so must reach replicas (WithMinReplicas). A mere withdrawal needs no confirmation:
// its permits come back anyway.
func (r *Request) confirmable() func(redisx.Reply) bool {
	switch {
	case r.back != nil:
		return nil
	case r.Releases:
		return changedAnything
	}
	return func(numbers redisx.Reply) bool {
		reply, err := newReply(numbers, len(r.runs))
		return err != nil || !asksForHeal(numbers) && reply.grants()
	}
}

// changedAnything is Call.Done of operations that reply above 0 after a change.
func changedAnything(reply redisx.Reply) bool { return reply.At(0) > 0 && !asksForHeal(reply) }

// Split returns the results of a reply to the request.
func (r *Request) Split(reply Reply) Split { return newSplit(reply, r.runs) }

// Alike reports whether all callers are granted, and want no numbers.
func (r *Request) Alike(reply Reply) bool { return reply.judged == nil && !r.options.Numbers }
