package request

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// MaxMembers is the most limiters that a Group has. The text and the time of its script grow with
// each member (scripts.go).
const MaxMembers = 8

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

// A Group is a request about several limiters that all.lua decides together, or that settle.lua settles.
type Group struct {
	identity
	targets  []*Target
	Permits  []int64       // of one caller, by limiter
	Times    int64         // callers that it asks for: all of them, or none
	Numbers  bool          // a caller wants more than yes or no
	reserved []string      // the records of a reservation that it makes, by limiter; nil if it makes none
	lease    time.Duration // how far these are dated ahead; 0 for no lease
	settles  []Part        // what it settles, by limiter; nil if it takes permits
	single   bool          // the script was that of a single limiter
	healed   string        // the numbers of the limiters for which heal.lua was called
	replaced bool          // a reply said that it has replaced a rate
}

// Take returns the request that takes permits of each limiter.
func Take(targets []*Target, permits []int64) Group {
	return Group{targets: targets, Permits: permits, Times: 1}
}

// Reserve makes the request take records of its own, which are settled later, and for a lease are dated that
// far ahead.
func (g *Group) Reserve(lease time.Duration) {
	g.lease = lease
	g.reserved = g.newRecords()
}

// Settle returns the request that settles parts of the limiters.
func Settle(targets []*Target, parts []Part, numbers bool) Group {
	return Group{targets: targets, settles: parts, Numbers: numbers}
}

// NewSession returns a session that no other request has used.
func (s *Source) NewSession() any {
	return s.session.name + "." + strconv.FormatInt(s.groupSessions.Add(1), 10)
}

// Identify gives the request its session, which no other request uses before this one has ended.
func (g *Group) Identify(session any) {
	g.session, g.number, g.start = session, g.targets[0].source.requests.Add(1), time.Now()
}

// Repeats makes the request another attempt of one that may have been carried out.
func (g *Group) Repeats(first *Group) {
	g.identity = first.identity
	g.ambiguous = true
}

// Session returns what Identify has set; nil before.
func (g *Group) Session() any { return g.session }

// Start returns when the request was identified.
func (g *Group) Start() time.Time { return g.start }

// Withdrawals returns what takes the permits of the request back from each limiter, but for those of some
// callers. After an error it takes back all, because the request may still be carried out.
func (g *Group) Withdrawals(callers int64, err error) (all []*Withdrawal) {
	for i, t := range g.targets {
		w := &Withdrawal{
			session: g.session, after: g.number - 1, kept: keptAll, Since: g.start, creates: t.Given != nil,
		}
		if callers > 0 && err == nil {
			w.after, w.kept = g.number, g.Permits[i]*callers
		}
		if g.reserved != nil {
			for record := range slices.Chunk([]byte(g.reserved[i]), t.source.Plain.Size()) {
				w.reserved = append(w.reserved, string(record))
			}
		}
		all = append(all, w)
	}
	return all
}

// newRecords returns new records of a reservation or lease, by limiter.
func (g *Group) newRecords() (records []string) {
	plain := g.targets[0].source.Plain
	for _, n := range g.Permits {
		if g.lease > 0 {
			records = append(records, string(plain.AppendLease(nil, uint32(n))))
		} else {
			records = append(records, string(plain.AppendReserved(nil, n)))
		}
	}
	return records
}

// Send sends the request until it is decided, and returns the result of each limiter.
func (g *Group) Send(ctx context.Context) ([]Result, error) {
	const changes = 3 // as in Target.run
	for mistaken, sent := 0, 1; ; sent++ {
		reply, ambiguous, err := g.once(ctx)
		g.ambiguous = g.ambiguous || ambiguous
		switch {
		case err == nil && !asksForHeal(reply):
			return g.read(reply)
		case err == nil:
			err = g.heal(ctx, int(reply.At(0))-1, sent)
		case !ofALimiter(err) || mistaken >= changes:
			return nil, translated(g.targets[0], wire.Overall, err)
		default:
			mistaken++
			err = g.check(ctx)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
	}
}

// check reads each limiter after an error that does not name the one that it is about. That determines the
// types, and returns the error of that limiter.
func (g *Group) check(ctx context.Context) error {
	for _, t := range g.targets {
		if _, err := t.Peek(ctx); err != nil {
			return t.Named(err)
		}
	}
	return nil
}

// heal heals a limiter before the request, which was sent a number of times, is sent again.
func (g *Group) heal(ctx context.Context, limiter, sent int) error {
	if limiter < 0 || limiter >= len(g.targets) {
		return fmt.Errorf("%w limiter %d", redisx.ErrShape, limiter+1)
	}
	if _, err := g.targets[limiter].heal(ctx, g.given(limiter)); err != nil {
		return err
	}
	// A record of the same name may be there. Of an ambiguous call it may be that of a copy, whose session
	// is gone if heal.lua has not helped.
	if g.reserved != nil && (!g.ambiguous || g.healed != "") {
		g.reserved = g.newRecords()
	}
	if number := strconv.Itoa(limiter + 1); !strings.Contains(g.healed, number) {
		g.healed += number
	}
	return tooManyRounds(sent, g.start)
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

// once sends the request once, except for repetitions by the Runner.
func (g *Group) once(ctx context.Context) (redisx.Reply, bool, error) {
	keys := make([]any, 0, 3*len(g.targets))
	var types [MaxMembers]int // read once: another call may change the type meanwhile
	for i, t := range g.targets {
		types[i] = t.Type()
		keys = append(keys, t.keysOf(types[i])...)
	}
	runner := &g.targets[0].source.Runner
	call := redisx.Call{
		Keys: keys, Resent: argResent, Start: g.start, Before: g.start.Add(SessionLife - time.Second),
	}
	if runner.Confirm.Replicas > 0 {
		call.Done = func(reply redisx.Reply) bool {
			if asksForHeal(reply) {
				return false
			}
			results, err := g.read(reply)
			return err != nil || Granted(results)
		}
	}
	g.single = len(g.targets) == 1 && types[0] == wire.Overall && g.settles == nil
	switch {
	case g.settles != nil:
		call.Script, call.Args = settleScripts[len(g.targets)-1](), g.settleArgs(types)
	case g.single:
		// The script of a single limiter does the same in less time. It must not see the last argument.
		call.Script, call.Args = acquireScript, g.args(types)[:argLease].trimmed()
	default:
		call.Script, call.Args = allScripts[len(g.targets)-1](), g.args(types)
	}
	return runner.Run(ctx, &call)
}

// commonArgs returns ARGV with the arguments that have the same places in both scripts.
func (g *Group) commonArgs(places int) arguments {
	args := make(arguments, places)
	for i := range args {
		args[i] = ""
	}
	args.set(argSession, g.session)
	args.set(argNumber, wire.Number(g.number))
	args.set(argNow, g.targets[0].source.now())
	if g.ambiguous {
		args.set(argResent, time.Since(g.start).Milliseconds())
	}
	if g.Numbers {
		args.set(argNumbers, 1)
	}
	healed := argHealed
	if g.settles != nil {
		healed = argHealedSettles
	}
	args.set(healed, g.healed)
	return args
}

// args returns ARGV of all.lua for the keys of these types.
func (g *Group) args(types [MaxMembers]int) arguments {
	args := g.commonArgs(argMembers - 1 + len(argsOfEach)*(len(g.targets)-1))
	if g.lease > 0 {
		args.set(argLease, -g.lease.Milliseconds())
	}
	for i, t := range g.targets {
		args.set(argOf(argType, i), types[i])
		args.set(argOf(argPermits, i), g.Permits[i]*g.Times)
		if g.reserved != nil {
			args.set(argOf(argRecords, i), g.reserved[i])
		} else {
			room := make([]byte, 0, wire.RecordSpace)
			args.set(argOf(argRecords, i), t.source.Layout.AppendAll(room, g.Permits[i]*g.Times))
		}
		if t.Given != nil {
			args.set(argOf(argGivenRate, i), t.Given.Argument)
		}
	}
	return args
}

// read returns the result of each limiter.
func (g *Group) read(reply redisx.Reply) (results []Result, err error) {
	if g.settles != nil {
		return g.readSettled(reply)
	}
	results = make([]Result, len(g.targets))
	const each = replyJudged + 2
	for i := range results {
		one, numbers := []Run{{g.Permits[i] * g.Times, 1}}, reply
		if !g.single && !reply.Brief {
			its := reply.From(each * i)
			if len(its) < each {
				return nil, fmt.Errorf("%w %d numbers for a limiter", redisx.ErrShape, len(its))
			}
			numbers = redisx.ReplyOf(its[:each])
		}
		a, err := newReply(numbers, len(one))
		if err != nil {
			return nil, err
		}
		split := newSplit(a, one)
		results[i] = split.next()
		g.replaced = g.replaced || a.Replaced
		results[i].Drift, results[i].Replaced = a.Drift, g.replaced
		if g.reserved != nil {
			results[i].Records = g.reserved[i]
		}
	}
	return results, nil
}
