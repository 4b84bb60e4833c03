package concurrency

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/host"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// A store keeps leases: memory or Redis. A limit without keys has the empty key.
type store interface {
	// take takes permits for a lease. It returns nil permits if they are not there.
	take(ctx context.Context, key string, n int64) (permits, form.Decision, error)
}

// permits are the permits of one lease.
type permits interface {
	// keep restarts their lease, or gives them back (ends). found reports whether they were still
	// out, unsure whether an earlier try of this call may have given them back.
	keep(ctx context.Context, ends bool) (found, unsure bool, err error)
}

// A memory keeps leases in this process.
type memory struct {
	bound
	form.Opened[state]
}

func (m memory) take(ctx context.Context, key string, n int64) (p permits, d form.Decision, err error) {
	err = m.Do(ctx, key, func(s *state, now int64) {
		var g *grant
		if g, d = m.bound.take(s, now, n, 0, true); g != nil {
			p = inMemory{m, key, g}
		}
	})
	return p, d, err
}

type inMemory struct {
	memory
	key   string
	grant *grant
}

func (p inMemory) keep(ctx context.Context, ends bool) (found, unsure bool, err error) {
	err = p.Do(ctx, p.key, func(s *state, now int64) { found = p.bound.keep(s, now, p.grant, ends) })
	return found, false, err
}

// A remote keeps the leases of a limiter on Redis.
type remote struct {
	form.Numbers
	form.Conn
	name   string
	serial *serial
}

// taken is the reply of take.lua.
type taken struct {
	permits  permits
	decision form.Decision
}

func (r *remote) take(ctx context.Context, key string, n int64) (permits, form.Decision, error) {
	id, name, lease := r.serial.next(), form.NameOf(r.name, key), r.Interval.Microseconds()
	call := redisx.Call{
		Script: scriptTake, Keys: []any{form.Key(name, r.Algorithm)},
		Args: []any{n, r.Limit, lease, id},
	}
	held := &onRedis{r, name, fmt.Sprintf("%s:%d:%d", id, n, lease)}
	out, err := form.Within(ctx, r.Conn, name, func(ctx context.Context) (taken, error) {
		reply, unsure, err := r.Runner.Run(ctx, &call)
		if err != nil {
			if unsure { // the permits may have been granted
				r.Later(func() { _, _, _ = held.ask(context.WithoutCancel(ctx), true) })
			}
			return taken{}, fmt.Errorf("rratelimiter: %s: %w", name, err)
		}
		t := taken{nil, form.DecisionOf(reply)}
		if t.decision.Allowed {
			t.permits = held
		}
		return t, nil
	}, func(ctx context.Context, t taken) {
		if t.decision.Allowed {
			_, _, _ = held.ask(ctx, true)
		}
	})
	return out.permits, out.decision, err
}

// A hosted keeps leases on the Redis of a Client, and decides as the Client does when Redis has failed.
type hosted struct {
	*remote
	memory
}

func (h hosted) take(ctx context.Context, key string, n int64) (p permits, d form.Decision, err error) {
	instead, err := h.Ask(ctx, form.NameOf(h.name, key), func(ctx context.Context) (err error) {
		p, d, err = h.remote.take(ctx, key, n)
		return err
	})
	switch instead {
	case host.Local:
		p, d, err = h.memory.take(ctx, key, n)
		d.By = form.Memory
		return p, d, err
	case host.Allow:
		return free{}, form.Decision{Allowed: true, By: form.Fallback}, nil
	default: // an Acquire cannot be denied
		return p, d, err
	}
}

// observe reports a call of a Leases to the Observer: once, however often the call asks Redis.
func (h hosted) observe(ctx context.Context, key string, d form.Decision, call host.Call) {
	if call.Err == nil {
		call.Result = limit.Result{Allowed: d.Allowed, Degraded: d.By != form.Redis}
	}
	h.Observe(ctx, h.name, key, call)
}

// free are permits that nothing counts.
type free struct{}

func (free) keep(context.Context, bool) (found, unsure bool, err error) { return true, false, nil }

// onRedis are permits taken on Redis.
type onRedis struct {
	*remote
	name   string
	member string // of the sorted set
}

func (p *onRedis) keep(ctx context.Context, ends bool) (found, unsure bool, err error) {
	err = p.Tell(ctx, p.name, func(ctx context.Context) (err error) {
		found, unsure, err = p.ask(ctx, ends)
		return err
	})
	return found, unsure, err
}

// kept is the reply of keep.lua.
type kept struct{ found, unsure bool }

// ask is keep without the Client.
func (p *onRedis) ask(ctx context.Context, ends bool) (found, unsure bool, err error) {
	lease := p.Interval.Microseconds()
	if ends {
		lease = 0
	}
	call := redisx.Call{
		Script: scriptKeep, Keys: []any{form.Key(p.name, p.Algorithm)}, Args: []any{p.member, lease},
	}
	out, err := form.Within(ctx, p.Conn, p.name, func(ctx context.Context) (kept, error) {
		reply, unsure, err := p.Runner.Run(ctx, &call)
		if err != nil {
			return kept{}, fmt.Errorf("rratelimiter: %s: %w", p.name, err)
		}
		return kept{reply.At(0) == 1, unsure}, nil
	}, func(context.Context, kept) {})
	return out.found, out.unsure, err
}

// A serial makes the IDs of one owner: a limiter in a process.
type serial struct {
	owner  string
	number atomic.Uint64
}

// ownerChars is how long the random part of an ID is: 80 bits.
const ownerChars = 16

func newSerial(mark byte) *serial { return &serial{owner: rand.Text()[:ownerChars] + string(mark)} }

func (s *serial) next() string { return s.owner + strconv.FormatUint(s.number.Add(1), 36) }

// MarshalBinary returns the next ID, so that each command that has the serial as an argument sends another.
func (s *serial) MarshalBinary() ([]byte, error) { return []byte(s.next()), nil }
