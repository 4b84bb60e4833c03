package history_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// The specs here record what callers ask for, when, and what they get, while many
// ask at once. Porcupine then looks for an order of all these calls, each at some
// moment between its start and its end. In this order a limiter that gets one
// request after another must return the same to each.

// A history is what many callers have asked for, and what they got.
type history struct {
	*testing.T
	seed    uint64
	ticks   atomic.Int64
	clock   *sharedClock
	steps   bool   // the clock goes on meanwhile
	shares  bool   // Clients keep their grants in the same records
	leaves  bool   // callers do not always wait for their answer
	vague   bool   // replies are lost: the numbers that come with a second one are later ones
	spares  []kind // what is not asked for
	limiter []*rratelimiter.RateLimiter
	stalled atomic.Bool // the machine stood still for longer than a caller waits

	mu  sync.Mutex
	ops []porcupine.Operation // guarded by mu
}

// does calls and records it. Where the clock stands still, it does not matter whose records
// the permits are in.
func (h *history) does(a asked, call func() told) {
	switch {
	case h.steps && h.shares:
		a.owner = nobody
	case h.steps:
		a.owner = a.client
	}
	start := h.ticks.Add(1)
	t := call()
	end := h.ticks.Add(1)
	if t.unknown {
		end = math.MaxInt64 // it may still happen
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: a.client, Input: a, Call: start, Output: t,
		Return: end})
}

// soon is how long after its timeout a caller has its answer, unless Redis or the machine
// stands still. Somewhat later, it leaves.
const soon = 20 * time.Millisecond

// told returns the answer that an error stands for, if any.
func (h *history) told(err error) told {
	exceeds := errors.Is(err, rratelimiter.ErrPermitsExceedRate)
	switch {
	case err == nil || exceeds || h.vague || h.leaves && errors.Is(err, context.DeadlineExceeded):
	case errors.Is(err, rratelimiter.ErrNoAnswer):
		h.stalled.Store(true)
	default:
		h.Errorf("seed %d: %v", h.seed, err)
	}
	return told{ok: err == nil, left: -1, exceeds: exceeds, unknown: err != nil && !exceeds}
}

func (h *history) tries(ctx context.Context, a asked) {
	h.does(a, func() told {
		start := time.Now()
		ok, err := h.limiter[a.client].TryAcquire(ctx, a.n, a.timeout)
		t := h.told(err)
		t.ok = ok
		if t.late = !ok && err == nil && a.timeout > 0 && time.Since(start) > a.timeout+soon; t.late {
			h.stalled.Store(true)
		}
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
		return h.told(h.limiter[a.client].SetRate(context.Background(), Overall, a.n, slots*time.Hour,
			opts...))
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
			ctx = TimeLimit(h.T, time.Duration(random.IntN(2000))*time.Microsecond)
		}
		h.tries(ctx, a)
	case p < 60:
		a.kind = allows
		h.allows(a)
	case p < 85 && !slices.Contains(h.spares, releases):
		a.kind = releases
		h.does(a, func() told { return h.told(h.limiter[client].Release(ctx, a.n)) })
	case p >= 85 && p < 92:
		a.kind = available
		h.looks(a)
	case p < 94 && !slices.Contains(h.spares, sets):
		a.kind, a.n = sets, 3+random.Int64N(8)
		h.sets(a)
	case p >= 94 && p < 96:
		a.kind, a.n = keeps, 3+random.Int64N(8)
		h.sets(a, rratelimiter.WithKeepState())
	case h.steps:
		a.kind = steps
		h.does(a, func() told { h.clock.step(); return told{} })
	}
}

// runs lets callers of each limiter ask at random, all at once, and checks what
// they got. They meet from time to time. Without that, Porcupine would have too
// many orders to try.
//
// The model does not know what becomes of callers who leave without an answer while the
// clock goes on. runs returns false then, and the history is stalled.
func (h *history) runs(callers int) (told bool) {
	h.Helper()
	for round := range uint64(8) {
		if round == 0 || slices.Contains(h.spares, sets) {
			h.sets(asked{kind: sets, n: 3 + int64((h.seed+round)%8)})
		}
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
	if h.steps && h.stalled.Load() {
		return false
	}
	return h.check()
}

// check fails the spec where no order explains what callers got. It reports whether
// it could decide: for some histories there are too many orders to try.
func (h *history) check() (told bool) {
	h.Helper()
	stand(h.ops)
	result := porcupine.CheckOperationsTimeout(model, h.ops, 5*time.Second)
	if result != porcupine.Illegal {
		return result == porcupine.Ok
	}
	_, info := porcupine.CheckOperationsVerbose(model, h.ops, 10*time.Second)
	path := filepath.Join(h.ArtifactDir(), fmt.Sprintf("history-%d.html", h.seed))
	if err := porcupine.VisualizePath(model, info, path); err != nil {
		h.Error(err)
	}
	h.Errorf("seed %d: %s, %d calls; see %s (go test -artifacts keeps it)", h.seed, result, len(h.ops), path)
	return true
}

// stand finds out what may have stood ahead of those that were refused after a
// wait: callers of the same client that waited at the same time.
func stand(ops []porcupine.Operation) {
	for i := range ops {
		a := ops[i].Input.(asked)
		if t := ops[i].Output.(told); a.timeout == 0 || t.ok || t.exceeds || t.unknown {
			continue
		}
		for j := range ops {
			b := ops[j].Input.(asked)
			if i != j && b.timeout > 0 && b.client == a.client && ops[j].Call < ops[i].Return &&
				ops[i].Call < ops[j].Return {
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
		const others = 7 // words of others.lua, which has no time: whether it is Java's turn
		if args := cmd.Args(); cmd.Name() == "evalsha" && len(args) > others {
			defer c.mu.RUnlock()
			// Only those of several end in runs of equal ones.
			if len(args) > 12 {
				if _, runs := args[len(args)-1].(int64); runs {
					c.merged.Add(1)
				}
			}
		}
		return next(ctx, cmd)
	}
}

// newHistory returns a history with so many Clients. In every second one they keep
// records with a resolution.
func newHistory(t *testing.T, rdb *redis.Client, clock func() time.Time, clients int) *history {
	h := &history{T: t, seed: rand.Uint64()}
	opts := []rratelimiter.Option{rratelimiter.WithClock(clock)}
	if h.shares = h.seed%2 == 0; h.shares {
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

// However many callers ask at once, alone or together, each gets what it would get
// if they came one by one. The clock stands still, or it goes on.
func TestCallersAtOnceGetWhatTheyWouldOneByOne(t *testing.T) {
	rdb, clock := redistest.Start(t).Client(t), newSharedClock()
	rdb.AddHook(clock)
	untold := 0
	for i, stalled := 0, 0; i < 40; i++ {
		h := newHistory(t, rdb, clock.read, 1+i%3)
		h.clock, h.steps = clock, i%2 == 0
		told := h.runs(6 / len(h.limiter))
		switch {
		case h.steps && h.stalled.Load() && stalled < 200:
			stalled++
			i-- // once more
		case !told:
			untold++
		}
	}
	if untold > 10 {
		t.Errorf("nobody can tell of %d histories of 40", untold)
	}
	t.Logf("%d requests of more than one caller", clock.merged.Load())
	if n := clock.merged.Load(); n < 300 {
		t.Errorf("%d requests of more than one caller", n)
	}
}

// The same holds when callers leave before they are answered. What they were
// granted goes to others.
func TestCallersWhoLeaveChangeNoAnswers(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	untold, left := 0, 0
	for i := range 20 {
		h := newHistory(t, rdb, frozen, 1+i%3)
		h.leaves = true
		if !h.runs(6 / len(h.limiter)) {
			untold++
		}
		for _, op := range h.ops {
			if op.Output.(told).unknown {
				left++
			}
		}
	}
	if left == 0 {
		t.Error("no caller has left")
	}
	if untold > 5 {
		t.Errorf("nobody can tell of %d histories of 20", untold)
	}
}

// frozen is a clock that stands still.
func frozen() time.Time { return time.UnixMilli(1_700_000_000_000) }

// The same holds over a line that loses replies, whichever they are, where requests
// are sent again and where they are not, also where callers leave. A caller that gets
// an error may have been granted permits, which come back.
//
// With a rate that is set meanwhile, permits that no caller was told of are gone. A
// request that is sent again still gets the answer that it got first.
func TestLostRepliesChangeNoAnswers(t *testing.T) {
	s := redistest.Start(t)
	for name, spares := range map[string][]kind{"without a new rate": {sets}, "with all": nil} {
		for _, retries := range []int{20, -1} {
			t.Run(fmt.Sprint(name, ", sent again up to ", max(0, retries)), func(t *testing.T) {
				p := redistest.StartProxy(t, s.Addr)
				rdb := redis.NewClient(&redis.Options{Addr: p.Addr, MaxRetries: retries, MinRetryBackoff: 1,
					MaxRetryBackoff: time.Millisecond})
				t.Cleanup(func() { _ = rdb.Close() })
				var random atomic.Uint64
				p.SwallowReplyTo(math.MaxInt, func(args []string) bool {
					return runsScript(args) && random.Add(0x9E3779B97F4A7C15)>>32%20 == 0
				})
				untold := 0
				for i := range 20 {
					h := newHistory(t, rdb, frozen, 1+i%3)
					h.vague, h.spares, h.leaves = true, spares, i%2 == 1
					if !h.runs(6 / len(h.limiter)) {
						untold++
					}
				}
				if untold > 5 {
					t.Errorf("nobody can tell of %d histories of 20", untold)
				}
				if p.Swallowed() < 20 {
					t.Errorf("%d replies were lost", p.Swallowed())
				}
			})
		}
	}
}
