package rratelimiter_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// The specs here record who asked what, when, and what he was told, while many
// ask at once. Porcupine then looks for an order of all these calls, each at
// some moment between its start and its end, in which one limiter, asked one by
// one, would have told everybody the same.

// slots is how many steps of the clock an interval takes.
const slots = 4

// held is all that a limiter knows, asked one by one.
type held struct {
	rate  int64
	taken [slots]int64 // by the steps of the clock since then
	lost  int64        // of those taken now, what nobody was told of: it may come back at any time
}

func (s held) free() int64 {
	free := s.rate
	for _, n := range s.taken {
		free -= n
	}
	return free
}

// shown is what a limiter says is free.
func (s held) shown() int64 { return min(max(0, s.free()), s.rate) }

func (s held) takes(permits int64) held {
	s.taken[0] += permits
	return s
}

// gives returns what is left after a release, out of the newest first. It may
// be permits that nobody was told of.
func (s held) gives(permits int64) (after []held) {
	now := min(permits, s.taken[0])
	lost := s.lost
	for i := range s.taken {
		n := min(permits, s.taken[i])
		s.taken[i] -= n
		permits -= n
	}
	for s.lost = max(0, lost-now); s.lost <= min(lost, s.taken[0]); s.lost++ {
		after = append(after, s)
	}
	return after
}

type kind string

const (
	acquires  kind = "TryAcquire"
	allows    kind = "Allow"
	releases  kind = "Release"
	sets      kind = "SetRate"
	keeps     kind = "SetRate, keep state"
	available kind = "AvailablePermits"
	steps     kind = "the clock goes on"
)

// An asked is one call.
type asked struct {
	kind    kind
	client  int
	n       int64 // permits, or the rate
	timeout time.Duration
	ahead   int64 // the most that somebody wants who may stand ahead of it in line
}

// A told is what the call has answered.
type told struct {
	ok      bool
	left    int64 // -1: did not say
	limit   int64
	exceeds bool // ErrPermitsExceedRate
	unknown bool // another error: nobody knows whether it was done
}

// model is the limiter asked one by one.
var model = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{held{}} },
	Step: func(state, input, output any) (after []any) {
		s, was := state.(held), state.(held)
		for s.lost = was.lost; s.lost >= 0; s.lost-- {
			for _, next := range s.after(input.(asked), output.(told)) {
				after = append(after, next)
			}
			s.taken[0]--
		}
		return after
	},
	Hash: func(state any) uint64 {
		s := state.(held)
		hash := uint64(s.rate)<<8 ^ uint64(s.lost)
		for _, n := range s.taken {
			hash = hash*0x9E3779B97F4A7C15 + uint64(n)
		}
		return hash * 0xFF51AFD7ED558CCD
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}).ToModel()

// after returns what a call may leave behind; nothing if it cannot have been
// told that.
func (s held) after(a asked, t told) []held {
	var done []held
	switch a.kind {
	case acquires, allows:
		done = s.acquired(a, t)
	case releases:
		done = s.gives(a.n)
	case sets:
		done = []held{{rate: a.n}}
	case keeps:
		s.rate = a.n
		done = []held{s}
	case available:
		if t.left == s.shown() {
			done = []held{s}
		}
	case steps:
		copy(s.taken[1:], s.taken[:slots-1])
		s.taken[0] = 0
		done = []held{s}
	}
	if t.unknown {
		done = append(done, s)
	}
	return done
}

func (s held) acquired(a asked, t told) []held {
	fits, next := a.n <= s.free(), s
	switch {
	case t.unknown:
		if next = s.takes(a.n); !fits {
			return nil
		}
		next.lost += a.n
		return []held{next}
	case t.exceeds:
		fits = a.n > s.rate
	case t.ok:
		next = s.takes(a.n)
	default: // refused for itself, or with somebody ahead of it
		fits = a.n <= s.rate && !fits || a.ahead > s.free()
	}
	if !fits || t.left >= 0 && (t.left != next.shown() || t.limit != s.rate) {
		return nil
	}
	return []held{next}
}

// A history is what many have asked and were told.
type history struct {
	*testing.T
	seed    uint64
	ticks   atomic.Int64
	clock   *sharedClock
	steps   bool // the clock goes on meanwhile
	leaves  bool // callers do not always wait for their answer
	vague   bool // answers are lost: the numbers that come with the second one are later ones
	limiter []*rratelimiter.RateLimiter

	mu  sync.Mutex
	ops []porcupine.Operation // guarded by mu
}

// does calls and records it.
func (h *history) does(a asked, call func() told) {
	start := h.ticks.Add(1)
	t := call()
	end := h.ticks.Add(1)
	if t.unknown {
		end = math.MaxInt64 // it may still happen
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: a.client, Input: a, Call: start, Output: t, Return: end})
}

// told makes an answer that is but an error, if any.
func (h *history) told(err error) told {
	exceeds := errors.Is(err, rratelimiter.ErrPermitsExceedRate)
	return told{ok: err == nil, left: -1, exceeds: exceeds, unknown: err != nil && !exceeds}
}

func (h *history) tries(ctx context.Context, a asked) {
	h.does(a, func() told {
		ok, err := h.limiter[a.client].TryAcquire(ctx, a.n, a.timeout)
		t := h.told(err)
		t.ok = ok
		return t
	})
}

func (h *history) allows(a asked) {
	h.does(a, func() told {
		r, err := h.limiter[a.client].Allow(context.Background(), a.n)
		t := h.told(err)
		t.ok = r.Allowed
		if err == nil && !h.vague {
			t.left, t.limit = r.Remaining, r.Limit
		}
		return t
	})
}

func (h *history) looks(a asked) {
	h.does(a, func() told {
		n, err := h.limiter[a.client].AvailablePermits(context.Background())
		t := h.told(err)
		t.left = n
		return t
	})
}

func (h *history) sets(a asked, opts ...rratelimiter.RateOption) {
	h.does(a, func() told {
		return h.told(h.limiter[a.client].SetRate(context.Background(), overall, a.n, slots*time.Hour, opts...))
	})
}

// comes makes one call at random.
func (h *history) comes(client int, random *rand.Rand) {
	a := asked{client: client, n: 1 + random.Int64N(4)}
	ctx := context.Background()
	switch p := random.IntN(100); {
	case p < 45:
		a.kind = acquires
		if p < 20 {
			a.timeout = time.Duration(1+random.IntN(4000)) * time.Microsecond
		}
		if p < 4 && h.leaves {
			ctx = timeLimit(h.T, time.Duration(random.IntN(2000))*time.Microsecond)
		}
		h.tries(ctx, a)
	case p < 60:
		a.kind = allows
		h.allows(a)
	case p < 85:
		a.kind = releases
		h.does(a, func() told { return h.told(h.limiter[client].Release(ctx, a.n)) })
	case p < 92:
		a.kind = available
		h.looks(a)
	case p < 94:
		a.kind, a.n = sets, 3+random.Int64N(8)
		h.sets(a)
	case p < 96:
		a.kind, a.n = keeps, 3+random.Int64N(8)
		h.sets(a, rratelimiter.WithKeepState())
	case h.steps:
		a.kind = steps
		h.does(a, func() told { h.clock.step(); return told{} })
	}
}

// timeLimit returns a context that ends after d.
func timeLimit(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// runs lets callers of each limiter ask at random, all at once, and checks what
// they were told. They meet from time to time: without that, Porcupine would
// have too many orders to try.
func (h *history) runs(callers int) {
	h.Helper()
	h.sets(asked{kind: sets, n: 3 + int64(h.seed%8)})
	for round := range uint64(8) {
		var all sync.WaitGroup
		for client := range h.limiter {
			for i := range callers {
				random := rand.New(rand.NewPCG(h.seed, round<<8|uint64(client*callers+i)))
				all.Go(func() {
					for range 4 {
						h.comes(client, random)
					}
				})
			}
		}
		all.Wait()
		h.looks(asked{kind: available})
	}
	h.check()
}

// check fails the spec unless there is an order that explains what was told.
func (h *history) check() {
	h.Helper()
	stand(h.ops)
	t0 := time.Now()
	result, info := porcupine.CheckOperationsVerbose(model, h.ops, 10*time.Second)
	h.Logf("seed %d check %v %v", h.seed, time.Since(t0), result)
	if result == porcupine.Ok {
		return
	}
	path := filepath.Join(h.ArtifactDir(), fmt.Sprintf("history-%d.html", h.seed))
	if err := porcupine.VisualizePath(model, info, path); err != nil {
		h.Error(err)
	}
	h.Errorf("seed %d: %s, %d calls; see %s", h.seed, result, len(h.ops), path)
}

// stand finds out who may have stood ahead of those who were refused after
// they had waited: callers of the same client who waited at the same time.
func stand(ops []porcupine.Operation) {
	for i := range ops {
		a := ops[i].Input.(asked)
		if t := ops[i].Output.(told); a.timeout == 0 || t.ok || t.exceeds || t.unknown {
			continue
		}
		for j := range ops {
			b := ops[j].Input.(asked)
			if i != j && b.timeout > 0 && b.client == a.client && ops[j].Call < ops[i].Return && ops[i].Call < ops[j].Return {
				a.ahead = max(a.ahead, b.n)
			}
		}
		ops[i].Input = a
	}
}

// A sharedClock is the clock of several Clients, which goes on in steps. A
// request that bears the time of a step has been answered before the next one.
type sharedClock struct {
	mu     sync.RWMutex
	now    time.Time
	merged atomic.Int64 // requests of more than one caller
}

func newSharedClock() *sharedClock { return &sharedClock{now: time.UnixMilli(1_700_000_000_000)} }

// read is asked when a request is made; answered follows, once.
func (c *sharedClock) read() time.Time {
	c.mu.RLock()
	return c.now
}

// step lets a slot pass.
func (c *sharedClock) step() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Hour)
}

func (c *sharedClock) DialHook(next redis.DialHook) redis.DialHook { return next }
func (c *sharedClock) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (c *sharedClock) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			defer c.mu.RUnlock()
			// Only those of several end in runs of equal ones.
			if args := cmd.Args(); len(args) > 12 {
				if _, runs := args[len(args)-1].(int64); runs {
					c.merged.Add(1)
				}
			}
		}
		return next(ctx, cmd)
	}
}

// newHistory returns one for as many Clients; every second one has them keep
// records with a resolution.
func newHistory(t *testing.T, rdb *redis.Client, clock func() time.Time, clients int) *history {
	h := &history{T: t, seed: rand.Uint64()}
	opts := []rratelimiter.Option{rratelimiter.WithClock(clock)}
	if h.seed%2 == 0 {
		opts = append(opts, rratelimiter.WithResolution(time.Second))
	}
	name := redistest.Name(t)
	for range clients {
		c := rratelimiter.New(rdb, opts...)
		t.Cleanup(func() { _ = c.Close() })
		h.limiter = append(h.limiter, c.RateLimiter(name))
	}
	return h
}

// However many ask at once, alone or together, each is told what he would be if
// they came one by one; while time stands still, and while it goes on.
func TestHistories(t *testing.T) {
	rdb, clock := redistest.Start(t).Client(t), newSharedClock()
	rdb.AddHook(clock)
	for i := range 40 {
		h := newHistory(t, rdb, clock.read, 1+i%3)
		h.clock, h.steps = clock, i%2 == 0
		h.runs(12/len(h.limiter))
	}
	if n := clock.merged.Load(); n < 1000 {
		t.Errorf("%d requests of more than one caller", n)
	}
}

// So it is when callers leave before they are told: what they were granted goes
// to others.
func TestHistoriesOfCallersWhoLeave(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	for i := range 20 {
		h := newHistory(t, rdb, frozen, 1+i%3)
		h.leaves = true
		h.runs(12/len(h.limiter))
	}
}

// frozen is a clock that stands still.
func frozen() time.Time { return time.UnixMilli(1_700_000_000_000) }

// So it is over a line that loses replies, for those who ask again and those who
// do not; who gets an error may have been granted permits, which come back.
func TestHistoriesOverABadLine(t *testing.T) {
	s := redistest.Start(t)
	for _, retries := range []int{20, -1} {
		p := redistest.StartProxy(t, s.Addr)
		rdb := redis.NewClient(&redis.Options{Addr: p.Addr, MaxRetries: retries, MinRetryBackoff: 1, MaxRetryBackoff: time.Millisecond})
		t.Cleanup(func() { _ = rdb.Close() })
		random := rand.New(rand.NewPCG(1, 1))
		for i := range 12 {
			h := newHistory(t, rdb, frozen, 1+i%3)
			h.vague = true
			p.SwallowReplyTo(30, func(args []string) bool { return isScript(args) && !peeks(args) && random.IntN(4*len(h.limiter)) == 0 })
			h.runs(12/len(h.limiter))
		}
		if p.Swallowed() < 50 {
			t.Errorf("%d replies were lost", p.Swallowed())
		}
	}
}

func peeks([]string) bool { return false }
