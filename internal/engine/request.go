package engine

import (
	"context"
	"errors"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A request is one script call: it acquires permits for one caller or for many that came
// together, or gives permits back. A resent request is the same request. By its number
// the session recognises a request that was already carried out
// (scripts/parts/sessions.lua).
//
// The requests of a limiter are sent one after another, with growing numbers, so
// that one number tells which of them were carried out. Only a hanging request may
// still be under way when the next one is sent.
type request struct {
	limiter    *Limiter
	script     *redisx.Script
	session    any // that of the Engine, or of a Group call
	number     int64
	numberText any         // boxed for go-redis
	runs       []run       // of an acquire
	permits    int64       // the sum over the runs
	records    any         // for the permits, or the mark of the Client; boxed for go-redis
	withdrawal *withdrawal // taken back before the request, nil if there is none
	back       *request    // takes it back first; nil for a request that only does so
	reserved   []string    // the records that it takes back, if they are those of a reservation
	start      time.Time
	givenRate  any   // the text of a GivenRate, nil if acquires set no rate
	portion    any   // what turns.Portion says about waiting callers, nil if nothing
	healed     bool  // heal.lua was called for it
	drift      int64 // by which the value was wrong then
	numbers    bool  // a caller wants more than yes or no
	ambiguous  bool  // a copy may be under way, or have been carried out

	// call carries the request; first and space are room for its runs and
	// arguments. With them the request of a lone caller is one allocation.
	call  redisx.Call
	first [1]run
	space [argPortion]any
}

// newAcquire returns the request for some runs.
func newAcquire(l *Limiter, runs []run, withdrawal *withdrawal) *request {
	e := l.engine
	req := &request{
		limiter: l, script: acquireScript, session: e.session.boxed, number: e.requests.Add(1),
		withdrawal: withdrawal, start: time.Now(),
	}
	if withdrawal != nil {
		req.back = newRelease(l, 0, withdrawal)
		req.number = e.requests.Add(1)
	}
	// A copy, because the batch reuses its own runs while an abandoned request may
	// still need them.
	req.runs = append(req.first[:0], runs...)
	for _, run := range runs {
		req.permits += run.permits * run.size()
	}
	req.makeRecords()
	return req
}

// makeRecords makes the records of an acquire. The number and the records share one string,
// because allocating is the larger part of making them.
func (req *request) makeRecords() {
	room := wire.AppendNumber(make([]byte, 0, wire.NumberSize+wire.RecordSpace), req.number)
	text := string(req.limiter.engine.config.Layout.AppendAll(room, req.permits))
	req.numberText, req.records = text[:wire.NumberSize], text[wire.NumberSize:]
}

// newRelease returns the request that gives permits back. With 0 permits it only
// carries out the withdrawal.
func newRelease(l *Limiter, permits int64, withdrawal *withdrawal) *request {
	req := &request{
		limiter: l, script: releaseScript, session: l.engine.session.boxed,
		permits: permits, records: l.engine.mark, withdrawal: withdrawal, start: time.Now(),
	}
	if permits > 0 && withdrawal != nil {
		req.back = newRelease(l, 0, withdrawal)
	}
	req.renumber()
	return req
}

// renumber gives the request the next number.
func (req *request) renumber() {
	req.number = req.limiter.engine.requests.Add(1)
	req.numberText = wire.Number(req.number)
}

// isRelease reports whether the request gives permits back.
func (req *request) isRelease() bool { return req.script == releaseScript }

// send sends the request until all of it is done, because one call of Redis handles a
// bounded number of records, and judges nothing before the limiter is plain. The reply is
// that of an acquire.
func (req *request) send(ctx context.Context) (acquireReply, error) {
	if req.back != nil {
		if _, err := req.back.send(ctx); err != nil && !errors.Is(err, ErrNotInitialized) {
			return acquireReply{}, err
		}
	}
	began := time.Now()
	for sent := 1; ; sent++ {
		reply, ambiguous, err := req.limiter.run(ctx, req.next())
		req.ambiguous = req.ambiguous || ambiguous
		var judged acquireReply
		done, heals := err != nil, asksForHeal(reply)
		if !done && req.isRelease() {
			done = !heals && req.releaseDone(reply)
		} else if !done {
			judged, err = newAcquireReply(reply, len(req.runs))
			done = !judged.again
			judged.drift += req.drift
		}
		if !done && err == nil {
			err = req.sendAgain(ctx, heals, sent, began)
		}
		if done || err != nil {
			return judged, err
		}
	}
}

// sendAgain prepares the request, which was sent a number of times, to be sent again. heals says
// that its limiter must be healed before.
func (req *request) sendAgain(ctx context.Context, heals bool, sent int, began time.Time) error {
	if heals {
		drift, err := req.limiter.heal(ctx, req.givenRate)
		if err != nil {
			return err
		}
		req.drift += drift
		// A record of the same name may be there. A copy that comes later is known by its number.
		if req.healed = true; !req.isRelease() {
			req.makeRecords()
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return tooManyRounds(sent, began)
}

// next returns the call that sends the request.
func (req *request) next() *redisx.Call {
	call := &req.call
	call.Script, call.Args, call.Start, call.Table = req.script, req.args(), req.start, req.numbers
	if req.limiter.engine.config.Runner.Confirm.Replicas > 0 {
		call.Done = req.confirmable()
	}
	return call
}

// confirmable returns a function that reports whether a reply took or gave back permits,
// and so must reach replicas (WithMinReplicas). A mere withdrawal needs no confirmation:
// its permits come back anyway.
func (req *request) confirmable() func(redisx.Reply) bool {
	switch {
	case req.isRelease() && req.permits == 0:
		return nil
	case req.isRelease():
		return func(reply redisx.Reply) bool { return !asksForHeal(reply) && changedAnything(reply) }
	}
	return func(reply redisx.Reply) bool {
		judged, err := newAcquireReply(reply, len(req.runs))
		return err != nil || !judged.again && judged.grants()
	}
}

// releaseDone reports whether a release is done. If not, it turns req into the
// request for the rest, under a new number: with the old one it would count as a
// resent copy. The reply says how many permits went back, below 0 if the
// withdrawal is not complete, and whether there may be more
// (scripts/release.lua).
func (req *request) releaseDone(reply redisx.Reply) bool {
	given, more := reply.At(0), reply.At(1) != 0
	if more && given >= 0 {
		req.permits -= given
		req.renumber()
		req.start = time.Now()
		req.ambiguous = false
	}
	return !more
}

// The positions of the arguments of acquire.lua and release.lua in ARGV. Other
// scripts, except settle.lua, have argType, argNow and argChannel there as well, and the
// Runner sets argResent in all scripts that may be sent again. The headers of the
// scripts describe the remaining ones.
const (
	argType      = 1
	argSession   = 2
	argNumber    = 3
	argPermits   = 4
	argRecords   = 5
	argNow       = 6
	argResent    = 7
	argNumbers   = 8
	argHealed    = 9 // of all scripts that ask for heal.lua
	argGivenRate = 10
	argChannel   = 11
	argLease     = 12
	argBooked    = 12 // of book.lua
	argAfter     = 12 // of release.lua
	argKept      = 13 // of release.lua
	argReserved  = 14 // of release.lua
	argPortion   = 14 // of acquire.lua, as below
	argRuns      = 15
	argMembers   = 15 // of all.lua
)

// args returns ARGV. Arguments that are rarely needed stand at the end, so that
// most requests are short.
func (req *request) args() arguments {
	e := req.limiter.engine
	args := arguments(req.space[:argType])
	args.put(argSession, req.session)
	args.put(argNumber, req.numberText)
	args.put(argPermits, req.permits)
	args.put(argRecords, req.records)
	if e.config.Clock != nil {
		args.put(argNow, e.now())
	}
	if req.ambiguous {
		args.put(argResent, time.Since(req.start).Milliseconds())
	}
	if req.numbers {
		args.put(argNumbers, 1)
	}
	if req.healed {
		args.put(argHealed, 1)
	}
	if req.isRelease() {
		args.put(argChannel, wire.ChangedOf(req.limiter.Hash))
	}
	if req.isRelease() && req.permits == 0 {
		args.put(argAfter, wire.Number(req.withdrawal.after))
		args.put(argKept, req.withdrawal.kept)
		for i, record := range req.reserved {
			args.put(argReserved+i, record)
		}
	}
	if req.givenRate != nil && !req.isRelease() {
		args.put(argGivenRate, req.givenRate)
	}
	if req.portion != nil {
		args.put(argPortion, req.portion)
	}
	// The script does not need the run of a single caller.
	if len(req.runs) > 1 || len(req.runs) == 1 && req.runs[0].size() > 1 {
		args.putRuns(req.runs)
	}
	return args
}

// set sets ARGV[i], which exists.
func (args arguments) set(i int, v any) { args[i-1] = v }

// trimmed returns the arguments without empty ones at the end, which scripts treat as missing.
func (args arguments) trimmed() arguments {
	for args[len(args)-1] == "" {
		args = args[:len(args)-1]
	}
	return args
}

// putRuns adds the runs, which follow all other arguments of acquire.lua.
func (args *arguments) putRuns(runs []run) {
	for i, run := range runs {
		args.put(argRuns+2*i, run.permits)
		args.put(argRuns+2*i+1, run.many)
	}
}

// arguments are ARGV. Limiter.runOn fills in the first one, the type, because a
// retry may have another type.
type arguments []any

// argumentsOf returns ARGV with the arguments after the type.
func argumentsOf(rest ...any) arguments {
	return append(make(arguments, argType, argType+len(rest)), rest...)
}

// put sets ARGV[i], and leaves skipped ones before it empty.
func (args *arguments) put(i int, v any) {
	for len(*args) < i {
		*args = append(*args, "")
	}
	(*args)[i-1] = v
}

// changedAnything is Call.Done of operations that reply above 0 after a change.
func changedAnything(reply redisx.Reply) bool { return reply.At(0) > 0 && !asksForHeal(reply) }
