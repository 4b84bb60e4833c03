package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
	"github.com/redisson-go/rratelimiter/limit"
)

// memberScripts are scripts by number of limiters. They are made when first needed,
// because few programs have groups.
type memberScripts [MaxMembers]func() *redisx.Script

var allScripts, settleScripts = scriptsOf("all.lua"), scriptsOf("settle.lua")

func scriptsOf(file string) (scripts memberScripts) {
	for i := range scripts {
		scripts[i] = sync.OnceValue(func() *redisx.Script { return forMembers(file, i+1) })
	}
	return scripts
}

// A groupCall is one call of all.lua or settle.lua, or several if the script asks to be
// sent again. Its caller may leave it; permits that it took then go back.
type groupCall struct {
	group      *Group
	permits    []int64       // of one caller, by member
	times      int64         // callers that it asks for: all of them, or none
	party      *party        // its callers; nil if it cannot have several
	cancel     func()        // ends the request
	reserved   []string      // the records of a reservation that it makes, by member; nil if it makes none
	lease      time.Duration // how far these are dated ahead
	settles    []Part        // what it settles, by member; nil if it takes permits
	settlement *Settlement   // whose attempt it is, nil if it takes permits
	lent       *lentSession  // of the settlement, with session
	numbers    bool
	single     bool      // the script was that of a single limiter
	healed     bool      // heal.lua was called for it
	sessions   *sessions // the pool of session
	session    any
	number     int64
	start      time.Time
	ambiguous  bool // it may have been carried out without a reply
	replaced   bool // a reply said that it has replaced a rate

	lastFailure atomic.Pointer[error] // of Redis or the network

	results []Result
	err     error
}

// newGroupCall returns a call that takes permits.
func newGroupCall(g *Group, permits []int64, wanted Want) *groupCall {
	e := g.engine
	call := &groupCall{
		group: g, permits: permits, times: 1, numbers: wanted.Numbers,
		sessions: &e.groups.sessions[g.limiters[0].Server()], lease: wanted.Lease,
	}
	if wanted.Lease > 0 || wanted.Reserve {
		call.reserved = call.newRecords()
	}
	return call
}

// newRecords returns new records of a reservation or lease, by member.
func (call *groupCall) newRecords() (records []string) {
	plain := call.group.engine.config.Plain
	for _, n := range call.permits {
		if call.lease > 0 {
			records = append(records, string(plain.AppendLease(nil, uint32(n))))
		} else {
			records = append(records, string(plain.AppendReserved(nil, n)))
		}
	}
	return records
}

// carryOut carries the call out when its turn has come, or returns an error when ctx ends first.
func (call *groupCall) carryOut(ctx context.Context, budget time.Duration) error {
	e := call.group.engine
	switch err := call.sessions.enter(ctx, e.Context()); {
	case err != nil && err == ctx.Err():
		return call.unanswered(ctx, budget)
	case err != nil:
		return err
	}
	began, left := time.Now(), false
	defer func() {
		if left {
			call.sessions.note(began, errLeft)
		} else {
			call.sessions.note(began, call.err)
		}
		<-call.sessions.underWay
		if left {
			call.noteWritten()
		}
	}()
	caller, sending := ctx, e.Context()
	if call.cancel = func() {}; ctx.Done() != nil {
		// The request does not end with ctx: its outcome says whether to withdraw. The last caller to
		// leave cancels it.
		sending, call.cancel = context.WithCancel(e.Context())
	}
	if call.party != nil && call.party.gather(call) > 1 {
		caller = e.Context() // as in batch.next
	}
	if call.settlement != nil {
		call.settlement.begin(call)
	}
	if ctx.Done() == nil { // as in Leave, without its closures
		return call.stay(requestContext{sending, caller, call})
	}
	_, left = redisx.Leave(ctx, e.Context(), e.Work, func(context.Context) struct{} {
		defer call.cancel()
		call.run(requestContext{sending, caller, call})
		return struct{}{}
	}, func(struct{}) { call.end(true) })
	switch {
	case !left:
		call.end(false)
		return call.err
	case call.party != nil:
		call.party.leave(call.party.leader)
	default:
		call.cancel()
	}
	if e.Closed() {
		return ErrClosed
	}
	return call.unanswered(ctx, budget)
}

// stay carries the call out for a leader that cannot leave.
func (call *groupCall) stay(ctx context.Context) error {
	ran := false
	defer func() {
		if !ran { // a hook of go-redis has panicked
			call.ambiguous, call.err = true, errPanicked
		}
		call.end(false)
	}()
	call.run(ctx)
	ran = true
	return call.err
}

// noteWritten tells the Upper that the call may have changed permits.
func (call *groupCall) noteWritten() {
	for _, l := range call.group.limiters {
		call.group.engine.upper.Wrote(l)
	}
}

// errPanicked is the outcome for the other callers of a call that a hook of go-redis has ended by a panic.
var errPanicked = errors.New("the request was not finished")

// noteFailure records the error of an attempt that go-redis or the Runner repeats.
func (call *groupCall) noteFailure(err error) { call.lastFailure.Store(&err) }

// unanswered returns the error of a call whose context has ended. The cause of
// the context says which bound it was (Group.Acquire, Group.ask). It accepts a nil call, which was not made.
func (call *groupCall) unanswered(ctx context.Context, budget time.Duration) error {
	var cause error
	if call != nil {
		if said := call.lastFailure.Load(); said != nil {
			cause = *said
		}
	}
	switch why := context.Cause(ctx); why {
	case errSilent:
		return Silent(budget, cause)
	case limit.ErrNoAnswer:
		return unanswered(why, cause)
	}
	return unanswered(ctx.Err(), cause)
}

// granted reports whether all members have granted.
func (call *groupCall) granted() bool { return Granted(call.results) }

// refused reports whether the call has changed nothing.
func (call *groupCall) refused() bool {
	return call.err == nil && call.settles == nil && !call.granted()
}

// run carries the call out.
func (call *groupCall) run(ctx context.Context) {
	e := call.group.engine
	if call.session == nil {
		call.session = call.sessions.take(e.session.name, &e.groups.sessionCount)
		call.number, call.start = e.requests.Add(1), time.Now()
	}
	call.results, call.err = call.send(ctx)
	if call.err != nil && e.Closed() && !redisx.Final(call.err) {
		call.err = ErrClosed
	}
}

// end withdraws permits that the call may have taken but its caller does not get, because
// the outcome is unknown or the caller has left. Only then is the session free
// (groupWithdrawal.run).
func (call *groupCall) end(left bool) {
	if !call.refused() {
		call.noteWritten()
	}
	claimed := call.times
	switch {
	case call.party != nil:
		if left {
			call.party.leave(call.party.leader) // which may not have done so yet
		}
		claimed = call.party.deliver(call)
	case left:
		claimed = 0
	}
	granted := call.err == nil && call.settles == nil && call.granted()
	switch {
	case call.settles != nil && call.err != nil: // another attempt may follow (Settlement)
	case call.settles != nil:
		call.sessions.putOnce(call.lent)
	case call.ambiguous && call.err != nil, granted && claimed < call.times:
		call.withdraw(claimed)
	default:
		call.sessions.put(call.session)
	}
}

// send sends the call until it is decided.
func (call *groupCall) send(ctx context.Context) ([]Result, error) {
	const changes = 3 // as in Limiter.run
	for mistaken, sent := 0, 1; ; sent++ {
		reply, ambiguous, err := call.once(ctx)
		call.ambiguous = call.ambiguous || ambiguous
		switch {
		case err == nil:
			results, again, err := call.read(reply)
			if err != nil || !again {
				return results, err
			}
			if err := call.sendAgain(ctx, sent, reply); err != nil {
				return nil, err
			}
		case !ofALimiter(err) || mistaken >= changes:
			return nil, translated(call.group.limiters[0], wire.Overall, err)
		default:
			// The error does not name the limiter it is about. Reading each
			// limiter does.
			mistaken++
			if err := call.group.check(ctx); err != nil {
				return nil, err
			}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// sendAgain prepares the call, which was sent a number of times, to be sent again.
func (call *groupCall) sendAgain(ctx context.Context, sent int, reply redisx.Reply) error {
	member := int(reply.At(0)) - 1
	if member < 0 || member >= len(call.group.limiters) {
		return fmt.Errorf("%w limiter %d", redisx.ErrShape, member+1)
	}
	if _, err := call.group.limiters[member].heal(ctx, call.given(member)); err != nil {
		return err
	}
	// A record of the same name may be there. Of an ambiguous call it may be that of a copy, whose session
	// is gone if heal.lua has not helped.
	if call.reserved != nil && (!call.ambiguous || call.healed) {
		call.reserved = call.newRecords()
	}
	call.healed = true
	return tooManyRounds(sent, call.start)
}

// ofALimiter reports whether an error is about one of the limiters
// (scripts/heal.lua).
func ofALimiter(err error) bool {
	for _, code := range []string{"NOTINIT", "BADFIELD", "BADKEY", "OTHERTYPE"} {
		if redis.HasErrorPrefix(err, code+" ") {
			return true
		}
	}
	return false
}

// once sends the call once, except for repetitions by the Runner.
func (call *groupCall) once(ctx context.Context) (redisx.Reply, bool, error) {
	g := call.group
	keys := make([]any, 0, 3*len(g.limiters))
	var types [MaxMembers]int // read once: another call may change the type meanwhile
	for i, l := range g.limiters {
		types[i] = l.Type()
		keys = append(keys, l.keysOf(types[i])...)
	}
	runner := &g.engine.config.Runner
	var done func(redisx.Reply) bool
	if runner.Confirm.Replicas > 0 {
		done = func(reply redisx.Reply) bool {
			results, again, err := call.read(reply)
			return err != nil || !again && Granted(results)
		}
	}
	var script *redisx.Script
	var args arguments
	call.single = len(g.limiters) == 1 && types[0] == wire.Overall && call.settles == nil
	switch {
	case call.settles != nil:
		script, args = settleScripts[len(g.limiters)-1](), call.settleArgs(types)
	case call.single:
		// The script of a Limiter does the same in less time. It must not see the last argument.
		script, args = acquireScript, call.args(types)[:argLease].trimmed()
	default:
		script, args = allScripts[len(g.limiters)-1](), call.args(types)
	}
	return runner.Run(ctx, &redisx.Call{
		Script: script, Keys: keys, Args: args,
		Resent: argResent, Start: call.start, Before: call.start.Add(sessionLife - time.Second),
		Done: done,
	})
}

// commonArgs returns ARGV with the arguments that have the same places in both scripts.
func (call *groupCall) commonArgs(places int) arguments {
	args := make(arguments, places)
	for i := range args {
		args[i] = ""
	}
	args.set(argSession, call.session)
	args.set(argNumber, wire.Number(call.number))
	args.set(argNow, call.group.engine.now())
	if call.ambiguous {
		args.set(argResent, time.Since(call.start).Milliseconds())
	}
	if call.numbers {
		args.set(argNumbers, 1)
	}
	switch {
	case call.healed && call.settles != nil:
		args.set(argHealedSettles, 1)
	case call.healed:
		args.set(argHealed, 1)
	}
	return args
}

// args returns ARGV of all.lua for the keys of these types.
func (call *groupCall) args(types [MaxMembers]int) arguments {
	g, e := call.group, call.group.engine
	args := call.commonArgs(argMembers - 1 + len(argsOfEach)*(len(g.limiters)-1))
	if call.lease > 0 {
		args.set(argLease, -call.lease.Milliseconds())
	}
	for i, l := range g.limiters {
		args.set(argOf(argType, i), int(types[i]))
		args.set(argOf(argPermits, i), call.permits[i]*call.times)
		if call.reserved != nil {
			args.set(argOf(argRecords, i), call.reserved[i])
		} else {
			room := make([]byte, 0, wire.RecordSpace)
			args.set(argOf(argRecords, i), e.config.Layout.AppendAll(room, call.permits[i]*call.times))
		}
		if l.given != nil {
			args.set(argOf(argGivenRate, i), l.given.argument)
		}
	}
	return args
}

// read returns the result of each member, or that the call must be sent again.
func (call *groupCall) read(reply redisx.Reply) (results []Result, again bool, err error) {
	if asksForHeal(reply) {
		return nil, true, nil
	}
	if call.settles != nil {
		results, err = call.readSettled(reply)
		return results, false, err
	}
	results = make([]Result, len(call.group.limiters))
	const each = replyJudged + 2
	for i := range results {
		one, numbers := []run{{call.permits[i] * call.times, 1}}, reply
		if !call.single && !reply.Brief {
			its := reply.From(each * i)
			if len(its) < each {
				return nil, false, fmt.Errorf("%w %d numbers for a limiter", redisx.ErrShape, len(its))
			}
			numbers = redisx.ReplyOf(its[:each])
		}
		a, err := newAcquireReply(numbers, len(one))
		if err != nil {
			return nil, false, err
		}
		results[i] = newSplit(a, one).next()
		call.replaced = call.replaced || a.replaced
		results[i].Drift, results[i].Replaced = a.drift, call.replaced
		if call.reserved != nil {
			results[i].Records = call.reserved[i]
		}
	}
	return results, false, nil
}
