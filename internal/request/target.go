package request

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A Target is one limiter as a Source sees it: its name and its keys. It is a cheap handle.
type Target struct {
	source *Source
	name   string     // as the caller gave it, before the name mapper
	Hash   string     // the key of the hash
	Err    error      // why it cannot be used, nil if it can
	Given  *GivenRate // the rate that acquires set; nil if they set none

	// first are the keys of the type that the limiter had when this Target was
	// made, and other those of the other type, which few Targets need. Keys and
	// boxes are made once, because making them is a third of the allocations of a
	// call.
	firstType int
	first     boxedKeys
	other     atomic.Pointer[boxedKeys]

	// typ is the believed type of the limiter. Each script checks it, so a wrong type
	// costs only a round trip.
	typ atomic.Int32
}

// boxedKeys are hash, value and permits of one type, as go-redis wants its
// arguments.
type boxedKeys [3]any

// Init makes t the limiter called name. argument is the caller's word for the name in
// errors. given is the rate that acquires set, nil if they set none.
func (t *Target) Init(s *Source, argument, name string, given *GivenRate) {
	t.source, t.name, t.Given = s, name, given
	t.Err = failure.Of(name, t.setKeys(argument))
}

// InitRenamed makes t another limiter under a new name, or returns why the name cannot be used.
func (t *Target) InitRenamed(other *Target, newName string) error {
	t.source, t.name, t.Given = other.source, newName, other.Given
	return t.setKeys("newName")
}

// InitBeside makes t a limiter called name whose keys are in the slot of {name}, whatever braces the name
// has.
func (t *Target) InitBeside(s *Source, name string) {
	t.source, t.name = s, name
	t.setHash("{" + name + "}")
}

// InitUnusable makes t a limiter whose calls all return err.
func (t *Target) InitUnusable(s *Source, name string, err error) {
	t.source, t.name, t.Err = s, name, failure.Of(name, err)
}

// InitWith makes t another limiter with a rate that its acquires set.
func (t *Target) InitWith(other *Target, given *GivenRate) {
	t.source, t.Err, t.name, t.Hash, t.Given = other.source, other.Err, other.name, other.Hash, given
	t.firstType, t.first = other.firstType, other.first
	// Atomics must not be copied with the struct: another goroutine may store to
	// them meanwhile.
	t.typ.Store(other.typ.Load())
	t.other.Store(other.other.Load())
}

// setKeys sets the keys, or returns why they cannot be used. For a cluster it checks that
// all keys are in one slot: otherwise each call would fail with CROSSSLOT.
func (t *Target) setKeys(argument string) error {
	config := &t.source.Config
	if config.Err != nil {
		return config.Err
	}
	if t.name == "" {
		return failure.Invalid(argument, `""`, "not be empty")
	}
	hash := config.MapName(t.name)
	if hash == "" {
		return failure.Invalid(argument, t.Described(), "not be mapped to an empty name")
	}
	t.setHash(hash)
	if config.Runner.Sharded && !wire.OneSlot(hash) {
		return failure.Invalid(argument, t.Described(),
			"be without braces, or with one non-empty {tag}, on a cluster: "+
				"its keys would be in different slots")
	}
	return nil
}

func (t *Target) setHash(hash string) {
	t.Hash, t.firstType = hash, t.source.types.of(hash)
	t.typ.Store(int32(t.firstType))
	t.first = t.box(t.firstType)
}

// Keys returns all keys of the limiter.
func (t *Target) Keys() wire.Keys { return wire.KeysOf(t.Hash, t.source.ID) }

// box returns the keys of one type.
func (t *Target) box(typ int) boxedKeys {
	pair := wire.PairOf(t.Hash, t.source.ID, typ)
	return boxedKeys{t.Hash, pair.Value, pair.Permits}
}

// keysOf returns the keys of one type.
func (t *Target) keysOf(typ int) []any {
	if typ == t.firstType {
		return t.first[:]
	}
	keys := t.other.Load()
	if keys == nil {
		keys = new(t.box(typ))
		t.other.Store(keys)
	}
	return keys[:]
}

// Name returns the name as it was given, before any mapping.
func (t *Target) Name() string { return t.name }

// Described returns the name, quoted, and the name that it is mapped to if that
// differs.
func (t *Target) Described() string {
	if t.Hash == t.name {
		return strconv.Quote(t.name)
	}
	return fmt.Sprintf("%q, mapped to %q", t.name, t.Hash)
}

// Together reports whether one script can name the keys of two limiters.
func (t *Target) Together(other *Target) bool {
	return !t.source.Runner.Sharded || wire.SameSlot(t.Hash, other.Hash)
}

// Named returns err as an error of this limiter (failure.Of).
func (t *Target) Named(err error) error { return failure.Of(t.name, err) }

// Server returns the number of the limiter's server, less than Servers.
func (t *Target) Server() int {
	runner := &t.source.Runner
	if shard := runner.Shard(t.Hash); shard != "" {
		return t.source.shards.number(shard)
	}
	if runner.Sharded {
		return wire.Slot(t.Hash) * Servers / wire.Slots
	}
	return 0
}

// MaxPermits bounds the permits of one call. More permits would need more than 257
// records, too many for a script to write at once.
const MaxPermits = 1 << 40

// CheckPermits checks the permits of an acquire (least 1) or a release (least 0).
func CheckPermits(permits, least int64) error {
	if permits < least || permits > MaxPermits {
		bound := fmt.Sprintf("be between %d and %d (2^40)", least, int64(MaxPermits))
		return failure.Invalid("permits", permits, bound)
	}
	return nil
}

// Type returns the type that the limiter is believed to have.
func (t *Target) Type() int { return int(t.typ.Load()) }

// noteType records the type that was found, also for later Targets of the name.
func (t *Target) noteType(typ int) {
	t.typ.Store(int32(typ))
	t.source.types.note(t.Hash, typ)
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
func (t *Target) run(ctx context.Context, call *redisx.Call) (
	reply redisx.Reply, ambiguous bool, err error,
) {
	const changes = 3 // the type may change meanwhile, but not all the time
	for range changes {
		typ := int(t.typ.Load())
		var lost bool
		reply, lost, err = t.runOn(ctx, typ, call)
		ambiguous = ambiguous || lost
		if err == nil || !redis.HasErrorPrefix(err, "OTHERTYPE ") {
			break
		}
		t.noteType(1 - typ)
	}
	return reply, ambiguous, err
}

// SessionLife is how long an unused session is remembered at least
// (scripts/parts/sessions.lua). A copy that is sent later could be charged twice.
const SessionLife = time.Minute

// runOn runs a call on the keys of one type.
func (t *Target) runOn(ctx context.Context, typ int, call *redisx.Call) (redisx.Reply, bool, error) {
	call.Args[argType-1], call.Keys = typ, t.keysOf(typ)
	call.Resent, call.Before = argResent, call.Start.Add(SessionLife-time.Second)
	reply, ambiguous, err := t.source.Runner.Run(ctx, call)
	if err != nil {
		err = translated(t, typ, err)
	}
	return reply, ambiguous, err
}
