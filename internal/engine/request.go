package engine

import (
	"context"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A request is what one script call asks for: the permits of one caller, or of
// many who came together; or that permits are given back. It is the same however
// often it is sent, and the session of the Client tells by its number whether it
// was carried out (scripts/parts/session.lua).
//
// The requests of a limiter are sent one after another, with numbers that grow,
// so that one number says what has become of all of them. Only a request that hangs
// may still be under way when the next one is sent.
type request struct {
	limiter    *Limiter
	script     *redisx.Script
	session    any // that of the Engine, or of a call of a Group
	number     int64
	runs       []run       // of an acquire
	permits    int64       // of all together
	records    any         // that hold as many, or the mark of the Client; []byte, boxed for go-redis
	withdrawal *withdrawal // taken back with it, nil if there is none
	start      time.Time
	givenRate  any  // the text of a GivenRate, nil where a rate must be set
	portion    any  // what it says of those who wait (portion.go), nil if nothing
	numbers    bool // somebody wants more than yes or no
	ambiguous  bool // a copy of it may be on its way, or have been carried out
}

// A run is a number of equal requests, one behind the other; negative where
// they stand in line (scripts/acquire.lua).
type run struct{ permits, many int64 }

func (r run) size() int64 { return max(r.many, -r.many) }

// A withdrawal is what requests of this session may have been granted and nobody
// holds: all that those after a number were granted, for their replies never came,
// and what that one was granted beyond the permits that are kept, for callers have
// left. It goes back with the next request (scripts/parts/withdraw.lua).
type withdrawal struct {
	after, kept int64
	since       time.Time
}

// keptAll is for a withdrawal that leaves what a request was granted to it.
const keptAll = 1 << 52 // far more than a request takes

// newAcquire returns the request for runs of equal ones.
func newAcquire(l *Limiter, runs []run, withdrawal *withdrawal) *request {
	e := l.engine
	req := &request{
		limiter: l, script: acquireScript, session: e.session.boxed, number: e.requests.Add(1), runs: runs,
		withdrawal: withdrawal, start: time.Now(),
	}
	for _, run := range runs {
		req.permits += run.permits * run.size()
	}
	room := make([]byte, 0, wire.RecordSpace)
	req.records = e.config.Layout.AppendAll(room, req.permits, e.config.Resolution > 0)
	return req
}

// newRelease returns the request that gives permits back. With 0 permits it only
// takes back what nobody holds.
func newRelease(l *Limiter, permits int64, withdrawal *withdrawal) *request {
	return &request{
		limiter: l, script: releaseScript, session: l.engine.session.boxed,
		number: l.engine.requests.Add(1), permits: permits, records: l.engine.mark,
		withdrawal: withdrawal, start: time.Now(),
	}
}

// gives reports whether the request gives permits back.
func (req *request) isRelease() bool { return req.script == releaseScript }

// send asks until all of the request is done, for a call of Redis handles so many
// records and no more. The reply is that of an acquire.
func (req *request) send(ctx context.Context) (acquireReply, error) {
	began := time.Now()
	for sent := 1; ; sent++ {
		reply, unsure, err := req.limiter.run(ctx, operation{req.script, req.start, req.args(), req.confirmable()})
		req.ambiguous = req.ambiguous || unsure
		var judged acquireReply
		done := err != nil
		if !done && req.isRelease() {
			done = req.releaseDone(reply)
		} else if !done {
			judged, err = newAcquireReply(reply, len(req.runs))
			done = !judged.again
		}
		if !done {
			if err = ctx.Err(); err == nil {
				err = tooManyRounds(sent, began)
			}
		}
		if done || err != nil {
			return judged, err
		}
	}
}

// done returns the function that tells from a reply whether permits were taken or
// given back, which replicas must have then (WithMinReplicas). What is only withdrawn
// need not be confirmed: it comes back in any case.
func (req *request) confirmable() func(redisx.Reply) bool {
	switch {
	case req.limiter.engine.config.Runner.Confirm.Replicas == 0, req.isRelease() && req.permits == 0:
		return nil
	case req.isRelease():
		return changedAnything
	}
	return func(reply redisx.Reply) bool {
		judged, err := newAcquireReply(reply, len(req.runs))
		return err != nil || !judged.again && judged.grants()
	}
}

// gaveBack reports whether a release is done. If not, it has become the request
// for what is left to do: how many permits went back, below 0 if what is to be
// withdrawn has not gone yet, and whether there may be more (scripts/release.lua).
func (req *request) releaseDone(reply redisx.Reply) bool {
	given, more := reply.At(0), reply.At(1) != 0
	if more && given >= 0 {
		req.permits -= given
		req.number, req.start = req.limiter.engine.requests.Add(1), time.Now()
		req.withdrawal, req.ambiguous = nil, false
	}
	return !more
}

// Where the arguments of acquire.lua and release.lua stand in ARGV. Of these, other
// scripts have argType, argNow and argChannel in the same place, and argResent
// belongs to the Runner in all that may be sent again; their headers say the rest.
const (
	argType          = 1
	argSession       = 2
	argNumber        = 3
	argPermits       = 4
	argRecords       = 5
	argNow           = 6
	argResent        = 7
	argNumbers       = 8
	argAfter         = 9
	argKept          = 10
	argChannel       = 11
	argResolution    = 12
	argGivenRate     = 13
	argPortion       = 14 // of acquire.lua, as below
	argRuns          = 15
	argClientSession = 14 // of all.lua, as below
	argMembers       = 15
)

// args returns ARGV; what is not needed stands behind.
func (req *request) args() arguments {
	e := req.limiter.engine
	args := make(arguments, argType, argPortion+2*len(req.runs))
	args.put(argSession, req.session)
	args.put(argNumber, wire.Number(req.number))
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
	if req.withdrawal != nil {
		args.put(argAfter, wire.Number(req.withdrawal.after))
		args.put(argKept, req.withdrawal.kept)
	}
	if req.withdrawal != nil || req.isRelease() {
		args.put(argChannel, req.limiter.Changed)
	}
	if e.config.Resolution > 0 && !req.isRelease() {
		args.put(argResolution, e.config.Resolution.Milliseconds())
	}
	if req.isRelease() && req.session != e.session.boxed {
		args.put(argResolution, e.session.boxed)
	}
	if req.givenRate != nil && !req.isRelease() {
		args.put(argGivenRate, req.givenRate)
	}
	if req.portion != nil {
		args.put(argPortion, req.portion)
	}
	if !req.lone() {
		args.putRuns(req.runs)
	}
	return args
}

// putRuns sets what follows all other arguments of acquire.lua.
func (args *arguments) putRuns(runs []run) {
	for i, run := range runs {
		args.put(argRuns+2*i, run.permits)
		args.put(argRuns+2*i+1, run.many)
	}
}

// lone reports whether the request is that of a single caller.
func (req *request) lone() bool {
	return len(req.runs) == 0 || len(req.runs) == 1 && req.runs[0].size() <= 1
}

// arguments are ARGV. The first one is the type, which is filled in when it is
// known what to send (Limiter.runOn).
type arguments []any

// argumentsOf returns ARGV with what follows the type.
func argumentsOf(rest ...any) arguments {
	return append(make(arguments, argType, argType+len(rest)), rest...)
}

// put sets ARGV[i]; those before it that nobody has put are empty.
func (args *arguments) put(i int, v any) {
	for len(*args) < i-1 {
		*args = append(*args, "")
	}
	*args = append(*args, v)
}

// An operation is a script with its arguments, first sent at start. done tells from
// a reply whether replicas must have what it did; nil where they need not.
type operation struct {
	script *redisx.Script
	start  time.Time
	args   arguments
	done   func(redisx.Reply) bool
}

// did is for operations that reply above 0 if they have changed anything.
func changedAnything(reply redisx.Reply) bool { return reply.At(0) > 0 }
