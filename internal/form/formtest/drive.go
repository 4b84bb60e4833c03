package formtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Mini is a miniredis and a client of it.
type Mini struct {
	*miniredis.Miniredis
	Client redis.UniversalClient
}

// NewMini starts a miniredis, which ends with the test.
func NewMini(t redistest.TB) *Mini {
	m := redistest.Mini(t)
	patient := func(o *redis.Options) { o.ReadTimeout = time.Minute } // of a busy machine
	return &Mini{m, redistest.MiniClient(t, m, patient)}
}

// A grant is permits at a real time.
type grant struct {
	at time.Duration
	n  int64
}

// A drive is a limiter under traffic, in memory and, unless mini is nil, on Redis.
type drive struct {
	t *testing.T
	Suite
	mini           *Mini
	memory, shared Limiter // shared is nil without mini
	rate           int64
	interval       time.Duration
	real, off      time.Duration // real time, and by how much the clocks are ahead of it
	called         time.Time     // the clock when miniredis was called last
	last           limit.Result
	charged        int64
	grants         []grant
	pending        []pending
	more           []grant // allowed beyond the bound: released permits, clocks set forward
}

// drives returns a drive whose limiters are unused.
func (s Suite) drives(t *testing.T, rate int64, interval time.Duration, mini *Mini) *drive {
	t.Helper()
	d := &drive{t: t, Suite: s, mini: mini, rate: rate, interval: interval}
	d.memory = redistest.Must(s.New(rate, interval).InMemory(limit.WithClock(d.now)))(t).Limiter
	if mini != nil {
		mini.FlushAll()
		d.setTime()
		d.shared = redistest.Must(s.New(rate, interval).OnRedis(mini.Client, "name"))(t).Limiter
	}
	return d
}

// ends expects that no window had more than the bound, and that all permits come back.
func (d *drive) ends() {
	d.allow(1) // so that the limiter knows how the clock was set
	d.checkWindows()
	d.real += full * d.interval
	d.real += d.interval * time.Duration(d.charged/d.rate+1)
	if r, err := d.memory.Allow(d.t.Context(), d.rate); err != nil || !r.Allowed {
		d.t.Errorf("it was unused for %d intervals, and refuses: %+v %v", full, r, err)
	}
}

// now is the time of the clocks. It is not near a score that miniredis writes without a point, as
// 2e+15: its Lua cannot read that.
func (d *drive) now() time.Time { return time.Unix(1_900_000_001, 0).Add(d.real + d.off) }

// setTime sets the clock of miniredis. Its keys expire by that clock, unless it is set back.
func (d *drive) setTime() {
	if d.mini != nil {
		d.mini.SetTime(d.now())
	}
}

// The last kinds of steps.
const (
	releases = 6
	sets     = 7
	charges  = 8
	reserves = 9
	settles  = 10
	looks    = 11
	kinds    = 12
)

// A pending is a reservation in memory, the same one on Redis, and its place in the grants.
type pending struct {
	reservations []*limit.Reservation
	place        int
}

// step performs a step of this kind. by is its size, from 0 to 255.
func (d *drive) step(kind int, by int64) {
	part := (d.interval * time.Duration(by) / 256).Truncate(d.Grain)
	some := 1 + by%d.rate
	switch kind {
	case 0:
		d.allow(1)
	case 1:
		d.allow(some)
	case 2:
		d.allow(1 + d.rate/256*by)
	case 3:
		d.real += d.Grain * time.Duration(by)
	case 4: // by a permit, or by up to two intervals
		d.real += max(2*part, (d.interval / time.Duration(d.rate)).Truncate(d.Grain))
	case 5: // until permits are back, or nearly so
		wait := []time.Duration{d.last.RetryAfter, d.last.ResetAfter}[by%2]
		d.real += max(0, wait-d.Grain*time.Duration(by/2%2))
	case releases:
		d.release(some)
	case sets:
		d.setClock(8*part, by%2 == 0)
		return
	case looks:
		d.look()
	case charges, reserves, settles:
		d.settles(kind, some, by)
	}
	d.setTime()
}

func (d *drive) release(n int64) {
	redistest.NoError(d.t, d.memory.Release(d.t.Context(), n))
	if d.shared != nil {
		redistest.NoError(d.t, d.shared.Release(d.t.Context(), n))
		d.called = d.now()
	}
	d.more = append(d.more, grant{d.real, n})
}

// setClock sets the clock. When it is set forward, all permits may come back at once.
func (d *drive) setClock(by time.Duration, forward bool) {
	if forward {
		d.off += by
		d.more = append(d.more, grant{d.real, d.rate})
		d.setTime()
		return
	}
	d.allow(1) // a key that expires now is gone, in memory as well
	d.off -= by
	d.setTime()
	if d.mini == nil {
		return
	}
	// miniredis takes time off the times to live when it is called, and adds none.
	back := max(0, d.called.Sub(d.now()))
	for _, key := range d.mini.Keys() {
		d.mini.SetTTL(key, d.mini.TTL(key)+back)
	}
	d.called = d.now()
}

func (d *drive) allow(n int64) {
	d.last = redistest.Must(d.memory.Allow(d.t.Context(), n))(d.t)
	if d.last.Allowed {
		d.grants = append(d.grants, grant{d.real, n})
	}
	if d.shared != nil {
		d.same(n, redistest.Must(d.shared.Allow(d.t.Context(), n))(d.t))
	}
}

// look expects that a look has the numbers of the last call, and foretells the next one.
func (d *drive) look() {
	d.allow(1)
	called := d.last
	seen := d.peek()
	if called.Allowed {
		called.Allowed, called.RetryAfter = seen.Allowed, seen.RetryAfter
	}
	d.allow(1)
	if text(called) != text(seen) || d.last.Allowed != seen.Allowed {
		d.t.Errorf("a call, a look and a call:\n%s\n%s\n%s", text(called), text(seen), text(d.last))
	}
}

// peek looks in memory and on Redis.
func (d *drive) peek() limit.Result {
	d.last = peek(d.t, d.memory)
	if d.shared != nil {
		d.same(0, peek(d.t, d.shared))
	}
	return d.last
}

// settles charges a Ledger, or reserves n permits, or settles one of the reservations.
func (d *drive) settles(kind int, n, by int64) {
	ctx := d.t.Context()
	memory, ok := d.memory.(limit.Ledger)
	switch {
	case !ok || kind == settles && len(d.pending) == 0:
	case kind == charges:
		d.charged += n
		d.last = redistest.Must(memory.Charge(ctx, n))(d.t)
		if d.shared != nil {
			d.same(n, redistest.Must(d.shared.(limit.Ledger).Charge(ctx, n))(d.t))
		}
	case kind == reserves:
		r, result, err := memory.TryReserve(ctx, n)
		redistest.NoError(d.t, err)
		p := pending{[]*limit.Reservation{r}, len(d.grants)}
		if d.last = result; d.shared != nil {
			r, result, err := d.shared.(limit.Ledger).TryReserve(ctx, n)
			redistest.NoError(d.t, err)
			p.reservations = append(p.reservations, r)
			d.same(n, result)
		}
		if result.Allowed {
			d.grants, d.pending = append(d.grants, grant{d.real, n}), append(d.pending, p)
		}
	default:
		i := int(by) % len(d.pending)
		p := d.pending[i]
		d.pending = slices.Delete(d.pending, i, i+1)
		reserved := &d.grants[p.place].n
		actual := *reserved * by / 200 // what was used beyond the reservation is charged
		for _, r := range p.reservations {
			redistest.NoError(d.t, r.Settle(ctx, actual))
		}
		d.charged += max(0, actual-*reserved)
		*reserved = min(*reserved, actual)
		d.called = d.now()
	}
}

// same expects the last result in memory also on Redis.
func (d *drive) same(n int64, other limit.Result) {
	d.called = d.now()
	other.Name = d.last.Name
	if want, got := text(d.last), text(other); want != got {
		d.t.Errorf("at %v, clock %v ahead: a call for %d:\nin memory %s\non Redis  %s\n%s",
			d.real, d.off, n, want, got, d.mini.Dump())
	}
}

// text returns all numbers of a Result: its String leaves some out.
func text(r limit.Result) string {
	type numbers limit.Result
	return fmt.Sprintf("%+v", numbers(r))
}

// checkWindows expects that no window of real time has more than the bound.
func (d *drive) checkWindows() {
	for i, first := range d.grants {
		bound, sum := d.Worst*d.rate, int64(0)
		for _, m := range d.more {
			if m.at >= first.at && m.at < first.at+d.interval {
				bound += m.n
			}
		}
		for _, g := range d.grants[i:] {
			if g.at < first.at+d.interval {
				sum += g.n
			}
		}
		if sum > bound {
			d.t.Errorf("%d permits in the window from %v on, want at most %d", sum, first.at, bound)
			return
		}
	}
}

// Alike drives both forms by random traffic, with clocks that are set in half of the runs.
func Alike(t *testing.T, s Suite) {
	t.Helper()
	s.complete().random(t, redistest.Rounds(t, 20), 120, NewMini(t), func(seed uint64, kind int) bool {
		return kind == sets && seed%2 == 0 || kind == charges && seed%3 > 0 || kind > charges && seed%2 == 1
	})
}

// bounded drives the form in memory, which is fast, by more of it: with a clock that is right, or set.
func (s Suite) bounded(t *testing.T) {
	t.Parallel()
	s.random(t, redistest.Rounds(t, 300), 400, nil, func(seed uint64, kind int) bool {
		return kind == releases || kind == sets && seed%2 == 0 || kind == charges && seed%5 > 0 ||
			kind > charges && seed%2 == 1
	})
}

// random drives limiters by random traffic: calls, charges, time that passes, and clocks that are set. Calls
// take the place of some kinds of steps. Memory and Redis must decide alike, to the microsecond.
func (s Suite) random(t *testing.T, rounds, steps int, mini *Mini, not func(seed uint64, kind int) bool) {
	t.Helper()
	for seed := range uint64(rounds) {
		random := rand.New(rand.NewPCG(seed, 16))
		rate := []int64{1, 2, 3, 7, 10, 100, 999, 5000, 1 << 36}[random.IntN(9)]
		interval := []time.Duration{
			5 * time.Millisecond, 70 * time.Millisecond, time.Second, 61 * time.Second, 90 * time.Hour,
		}[random.IntN(5)]
		d := s.drives(t, rate, interval, mini)
		for range steps {
			kind := random.IntN(kinds)
			if not(seed, kind) {
				kind = 1
			}
			if d.step(kind, random.Int64N(256)); t.Failed() {
				break
			}
		}
		if d.ends(); t.Failed() {
			t.Fatalf("seed %d: %d in %v", seed, rate, interval)
		}
	}
}
