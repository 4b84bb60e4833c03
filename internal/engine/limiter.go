package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Limiter is one limiter from a caller's view: its name, its keys, and the queue that
// it shares with all Limiters of the same name. It is a cheap handle.
type Limiter struct {
	engine *Engine
	err    error  // why it cannot be used, nil if it can
	name   string // as the caller gave it, before the name mapper
	Hash   string // the key of the hash

	// first are the keys of the type that the limiter had when this Limiter was
	// made, and other those of the other type, which few Limiters need. Keys and
	// boxes are made once, because making them is a third of the allocations of a
	// call.
	firstType int
	first     boxedKeys
	other     atomic.Pointer[boxedKeys]

	given *GivenRate // the rate that acquires set; nil if they set none

	// typ is the believed type of the limiter. Each script checks it, so a wrong type
	// costs only a round trip.
	typ   atomic.Int32
	queue atomic.Pointer[queue] // the one it used last
}

// boxedKeys are hash, value and permits of one type, as go-redis wants its
// arguments.
type boxedKeys [3]any

// givenText returns the text of the rate that acquires set, nil if they set none.
func (l *Limiter) givenText() any {
	if l.given == nil {
		return nil
	}
	return l.given.argument
}

// setKeys sets the keys, or returns why they cannot be used. For a cluster it checks that
// all keys are in one slot: otherwise each call would fail with CROSSSLOT.
func (l *Limiter) setKeys(argument string) error {
	config := &l.engine.config
	if config.Err != nil {
		return config.Err
	}
	if l.name == "" {
		return Invalid(argument, `""`, "not be empty")
	}
	hash := config.MapName(l.name)
	if hash == "" {
		return Invalid(argument, l.Described(), "not be mapped to an empty name")
	}
	l.setHash(hash)
	if config.Runner.Sharded && !wire.OneSlot(hash) {
		return Invalid(argument, l.Described(),
			"be without braces, or with one non-empty {tag}, on a cluster: "+
				"its keys would be in different slots")
	}
	return nil
}

func (l *Limiter) setHash(hash string) {
	l.Hash, l.firstType = hash, l.engine.types.of(hash)
	l.typ.Store(int32(l.firstType))
	l.first = l.box(l.firstType)
}

// Keys returns all keys of the limiter.
func (l *Limiter) Keys() wire.Keys { return wire.KeysOf(l.Hash, l.engine.config.ID) }

// box returns the keys of one type.
func (l *Limiter) box(typ int) boxedKeys {
	pair := wire.PairOf(l.Hash, l.engine.config.ID, typ)
	return boxedKeys{l.Hash, pair.Value, pair.Permits}
}

// keysOf returns the keys of one type.
func (l *Limiter) keysOf(typ int) []any {
	if typ == l.firstType {
		return l.first[:]
	}
	keys := l.other.Load()
	if keys == nil {
		keys = new(l.box(typ))
		l.other.Store(keys)
	}
	return keys[:]
}

// Name returns the name as it was given, before any mapping.
func (l *Limiter) Name() string { return l.name }

// Err returns why the limiter cannot be used, nil if it can.
func (l *Limiter) Err() error { return l.err }

// Given returns the rate that acquires set; nil if they set none.
func (l *Limiter) Given() *GivenRate { return l.given }

// With returns the limiter with a rate that its acquires set.
func (l *Limiter) With(given *GivenRate) *Limiter {
	other := &Limiter{
		engine: l.engine, err: l.err, name: l.name, Hash: l.Hash,
		firstType: l.firstType, first: l.first, given: given,
	}
	// Atomics must not be copied with the struct: another goroutine may store to
	// them meanwhile.
	other.typ.Store(l.typ.Load())
	other.other.Store(l.other.Load())
	other.queue.Store(l.queue.Load())
	return other
}

// Described returns the name, quoted, and the name that it is mapped to if that
// differs.
func (l *Limiter) Described() string {
	if l.Hash == l.name {
		return strconv.Quote(l.name)
	}
	return fmt.Sprintf("%q, mapped to %q", l.name, l.Hash)
}

// Together reports whether one script can name the keys of two limiters.
func (l *Limiter) Together(other *Limiter) bool {
	return !l.engine.config.Runner.Sharded || wire.SameSlot(l.Hash, other.Hash)
}

// Usable returns an error if a call cannot go ahead: that of the limiter, of a closed
// Engine, or of an ended ctx.
func (l *Limiter) Usable(ctx context.Context) error {
	switch {
	case l.err != nil:
		return l.err
	case l.engine.Closed():
		return ErrClosed
	}
	return ctx.Err()
}

// Named returns err as an Error with the name of the limiter. ErrClosed and the end of a
// context stay unchanged, so that callers may compare them, as does an Error with a name.
func (l *Limiter) Named(err error) error {
	err = withName(err, l.name)
	_, ours := err.(*Error)
	switch {
	case ours, err == nil, err == ErrClosed, err == context.Canceled, err == context.DeadlineExceeded:
		return err
	case redisx.Answered(err), errors.Is(err, redisx.ErrShape):
		return &Error{prefix: "rratelimiter: ", name: strconv.Quote(l.name), cause: err}
	}
	return &Error{kind: limit.ErrNoAnswer, name: strconv.Quote(l.name), cause: err}
}

// Server returns the number of the limiter's server, less than Servers.
func (l *Limiter) Server() int {
	runner := &l.engine.config.Runner
	if shard := runner.Shard(l.Hash); shard != "" {
		return l.engine.groups.shards.number(shard)
	}
	if runner.Sharded {
		return wire.Slot(l.Hash) * Servers / wire.Slots
	}
	return 0
}

// Check returns an error if permits is below least or above MaxPermits, or if the
// limiter is not usable (Usable).
func (l *Limiter) Check(ctx context.Context, permits, least int64) error {
	if err := CheckPermits(permits, least); err != nil {
		return l.Named(err)
	}
	return l.Usable(ctx)
}

// MaxPermits bounds the permits of one call. More permits would need more than 257
// records, too many for a script to write at once.
const MaxPermits = 1 << 40

// CheckPermits checks the permits of an acquire (least 1) or a release (least 0).
func CheckPermits(permits, least int64) error {
	if permits < least || permits > MaxPermits {
		bound := fmt.Sprintf("be between %d and %d (2^40)", least, int64(MaxPermits))
		return Invalid("permits", permits, bound)
	}
	return nil
}

// Acquire asks for permits until it gets them, the timeout passes or ctx ends.
// Check has checked its arguments.
func (l *Limiter) Acquire(ctx context.Context, wanted Want) (Result, error) {
	wanted.givenRate = l.givenText()
	v, err := l.ask(ctx, wanted)
	if err == nil && !v.OK && !wanted.Waits() && l.engine.upper.Free(ctx, &wanted, l) {
		if again, err := l.ask(ctx, wanted); err == nil { // otherwise Redis has said no
			return again, nil
		}
	}
	return v, err
}

// Release gives permits back. Check has checked its arguments.
func (l *Limiter) Release(ctx context.Context, permits int64) error {
	defer l.engine.upper.Wrote(l)
	_, err := l.ask(ctx, Want{Permits: permits, release: true})
	return err
}

// ask enters the queue and waits for the result.
func (l *Limiter) ask(ctx context.Context, wanted Want) (Result, error) {
	q := l.engine.queues.enter(l)
	w := l.engine.queues.newWaiter(ctx, wanted)
	if l.engine.config.Runner.KeepsDeadlines && !w.staysForReply {
		w.staysForReply = l.keepsDeadline(ctx, wanted)
	}
	if toLead := q.arrive(w); toLead != nil {
		q.batch.lead(w, toLead)
	}
	v, err := w.await(ctx, q)
	if err != nil {
		err = l.Named(withContextEnd(ctx, err))
	}
	return v, err
}

// Type returns the type that the limiter is believed to have.
func (l *Limiter) Type() int { return int(l.typ.Load()) }

// noteType records the type that was found, also for later Limiters of the name.
func (l *Limiter) noteType(typ int) {
	l.typ.Store(int32(typ))
	l.engine.types.note(l.Hash, typ)
}

// maxTypes is how many PerClient limiters an Engine remembers: some 1 MB of
// names.
const maxTypes = 10_000

// types remembers the limiters that are PerClient. Without it, a Limiter that is made for
// one request would ask twice each time. When there are more than maxTypes, all are
// forgotten and found again: tracking unused ones would cost more.
type types struct {
	mu        sync.RWMutex
	perClient map[string]struct{} // by hash; guarded by mu
}

func (t *types) of(hash string) int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if _, ok := t.perClient[hash]; ok {
		return wire.PerClient
	}
	return wire.Overall
}

func (t *types) note(hash string, typ int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if typ != wire.PerClient {
		delete(t.perClient, hash)
		return
	}
	if t.perClient == nil || len(t.perClient) >= maxTypes {
		t.perClient = map[string]struct{}{}
	}
	t.perClient[hash] = struct{}{}
}

// newCall returns a call of a script on the limiter's keys, with the arguments
// after the type. Run completes it.
func newCall(script *redisx.Script, args arguments) *redisx.Call {
	return &redisx.Call{Script: script, Args: args, Start: time.Now()}
}

// aloneCall is newCall for probes of a server that may be silent.
func aloneCall(script *redisx.Script, args arguments) *redisx.Call {
	call := newCall(script, args)
	call.Alone = true
	return call
}

// run runs a call on the limiter's keys. If the script finds another type than the
// one believed, run sends it once more with the keys of that type. ambiguous
// reports whether a copy may have been carried out without a reply.
func (l *Limiter) run(ctx context.Context, call *redisx.Call) (
	reply redisx.Reply, ambiguous bool, err error,
) {
	const changes = 3 // the type may change meanwhile, but not all the time
	for range changes {
		typ := l.Type()
		var lost bool
		reply, lost, err = l.runOn(ctx, typ, call)
		ambiguous = ambiguous || lost
		if err == nil || !redis.HasErrorPrefix(err, "OTHERTYPE ") {
			break
		}
		l.noteType(1 - typ)
	}
	return reply, ambiguous, err
}

// sessionLife is how long an unused session is remembered at least
// (scripts/parts/sessions.lua). A copy that is sent later could be charged twice.
const sessionLife = time.Minute

// runOn runs a call on the keys of one type.
func (l *Limiter) runOn(ctx context.Context, typ int, call *redisx.Call) (redisx.Reply, bool, error) {
	call.Args[argType-1], call.Keys = typ, l.keysOf(typ)
	call.Resent, call.Before = argResent, call.Start.Add(sessionLife-time.Second)
	reply, ambiguous, err := l.engine.config.Runner.Run(ctx, call)
	if err != nil {
		err = translated(l, typ, err)
	}
	return reply, ambiguous, err
}
