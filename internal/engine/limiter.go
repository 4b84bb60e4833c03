package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Limiter is one limiter as a caller knows it: its name, its keys, and the
// queue that it shares with all Limiters of the same name. It is a cheap handle.
type Limiter struct {
	engine *Engine
	err    error  // why it cannot be used, nil if it can
	name   string // as the caller gave it, before the name mapper
	wire.Keys

	// boxed has hash, value and permits by type, as go-redis wants its arguments.
	// Boxing them for each command would allocate.
	boxed [2][3]any

	given *GivenRate // the rate that acquires set; nil if they set none

	// typ is the type that the limiter is believed to have. Each script checks
	// it, so a wrong one costs a round trip and nothing else.
	typ   atomic.Int32
	queue atomic.Pointer[queue] // the one it used last
}

// A Rate is the configuration of a limiter.
type Rate struct {
	Type                int // wire.Overall or wire.PerClient
	Permits             int64
	Interval, KeepAlive time.Duration // whole ms
}

// A GivenRate is a rate that the program gives: acquires set it.
type GivenRate struct {
	Rate Rate
	text any // for parts/limiter.lua; a string, boxed for go-redis
}

// NewGivenRate returns a GivenRate. With update it replaces another rate that is
// set.
func NewGivenRate(rate Rate, update bool) *GivenRate {
	text := fmt.Sprintf("%d %d %d %s",
		rate.Permits, rate.Interval.Milliseconds(), rate.KeepAlive.Milliseconds(), flag(update))
	return &GivenRate{rate, text}
}

// setKeys sets the keys, or returns why they cannot be used. It checks for a
// cluster that all keys are in one slot: otherwise each call would fail with
// CROSSSLOT.
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
	l.Keys = wire.KeysOf(hash, config.ID)
	for typ, pair := range l.Pairs {
		l.boxed[typ] = [3]any{l.Hash, pair.Value, pair.Permits}
	}
	l.typ.Store(int32(l.engine.types.of(l.Hash)))
	if config.Runner.Sharded && !l.OneSlot() {
		return Invalid(argument, l.Described(),
			"be without braces, or with one non-empty {tag}, on a cluster: "+
				"its keys would be in different slots")
	}
	return nil
}

// Name returns the name as it was given, before any mapping.
func (l *Limiter) Name() string { return l.name }

// Err returns why the limiter cannot be used, nil if it can.
func (l *Limiter) Err() error { return l.err }

// Given returns the rate that acquires set; nil if they set none.
func (l *Limiter) Given() *GivenRate { return l.given }

// With returns the limiter with a rate that its acquires set.
func (l *Limiter) With(given *GivenRate) *Limiter {
	other := &Limiter{engine: l.engine, err: l.err, name: l.name, Keys: l.Keys, boxed: l.boxed, given: given}
	// Atomics must not be copied with the struct: another goroutine may store to
	// them meanwhile.
	other.typ.Store(l.typ.Load())
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

// Usable returns why a call cannot go ahead: the error the limiter was made with,
// a closed Engine, or a ctx that has ended.
func (l *Limiter) Usable(ctx context.Context) error {
	switch {
	case l.err != nil:
		return l.err
	case l.engine.closed():
		return ErrClosed
	}
	return ctx.Err()
}

// Named returns err as an Error with the name of the limiter. ErrClosed and the
// end of a context stay as they are, so that callers may compare them, and so
// does an Error that has a name.
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

// MaxPermits bounds the permits of one call. More would need more than 257
// records, which a script should not write at once.
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
func (l *Limiter) Acquire(ctx context.Context, wanted Want) (Verdict, error) {
	if l.given != nil {
		wanted.givenRate = l.given.text
	}
	q := l.engine.queues.enter(l)
	w := l.engine.queues.newWaiter(ctx, wanted)
	q.arrive(w)
	v, err := w.await(ctx, q)
	if err != nil {
		err = l.Named(withContextEnd(ctx, err))
	}
	return v, err
}

// Release gives permits back. Check has checked its arguments.
func (l *Limiter) Release(ctx context.Context, permits int64) error {
	q := l.engine.queues.enter(l)
	w := l.engine.queues.newWaiter(ctx, Want{Permits: permits, release: true})
	q.arrive(w)
	_, err := w.await(ctx, q)
	return l.Named(withContextEnd(ctx, err))
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

// types remembers the limiters that are PerClient. Without it, a Limiter that is
// made for one request would ask twice each time. When there are more than
// maxTypes, all are forgotten and found again: counting which are unused would
// cost more.
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

// run runs an operation on the limiter's keys. If the script finds another type
// than the one believed, run sends it once more with the keys of that type.
// ambiguous reports whether a copy may have been carried out without a reply.
func (l *Limiter) run(ctx context.Context, op operation) (reply redisx.Reply, ambiguous bool, err error) {
	const changes = 3 // the type may change meanwhile, but not all the time
	for range changes {
		typ := l.Type()
		var lost bool
		reply, lost, err = l.runOn(ctx, typ, op)
		ambiguous = ambiguous || lost
		if !redis.HasErrorPrefix(err, "OTHERTYPE ") {
			break
		}
		l.noteType(1 - typ)
	}
	return reply, ambiguous, err
}

// sessionLife is how long an unused session is remembered at least
// (scripts/parts/session.lua). A copy that is sent later could be charged twice.
const sessionLife = time.Minute

// runOn runs an operation on the keys of one type.
func (l *Limiter) runOn(ctx context.Context, typ int, op operation) (redisx.Reply, bool, error) {
	op.args[argType-1] = typ
	reply, ambiguous, err := l.engine.config.Runner.Run(ctx, &redisx.Call{
		Script: op.script, Keys: l.boxed[typ][:], Args: op.args,
		Resent: argResent, Start: op.start, Before: op.start.Add(sessionLife - time.Second),
		Done: op.done,
	})
	if err != nil {
		err = translated(l, typ, err)
	}
	return reply, ambiguous, err
}

// wrongKind says which key has the wrong kind of value, and which kind if Redis
// still tells. detail comes from the script: the number of the key and the kind
// that it must have.
func (l *Limiter) wrongKind(typ int, detail string) string {
	number, kind, _ := strings.Cut(detail, " ")
	key := l.Hash
	switch number {
	case "2":
		key = l.Pairs[typ].Value
	case "3":
		key = l.Pairs[typ].Permits
	}
	// Not the caller's context: it may have ended, and the error would then say
	// less.
	ctx, cancel := context.WithTimeout(l.engine.ctx, time.Second)
	defer cancel()
	switch found := l.engine.config.Runner.TypeOf(ctx, key); found {
	case "", "none", kind: // no answer, or the key has changed since
		return fmt.Sprintf("key %s must be a %s", key, kind)
	default:
		return fmt.Sprintf("key %s is a %s, must be a %s", key, found, kind)
	}
}

// tooManyRounds returns an error if a script has asked too often, or for too
// long, to be sent again. Each round handles at least 1,000 records. A key that
// fills as fast as it is read must not occupy Redis for ever.
func tooManyRounds(sent int, began time.Time) error {
	const most = 10_000
	if sent < most && time.Since(began) < sessionLife-time.Second {
		return nil
	}
	const text = ": it has too many records, and was sent %d requests for one call"
	return &Error{kind: limit.ErrNoAnswer, detail: fmt.Sprintf(text, sent)}
}
