package history_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// The specs here record what callers ask for, when, and what they get, while many ask at once. Porcupine then
// looks for an order of all these calls, each at some moment between its start and its end. In this order a
// limiter that gets one request after another must return the same to each.

// A history is what many callers have asked for, and what they got.
type history struct {
	*testing.T
	seed    uint64
	ticks   atomic.Int64
	clock   *sharedClock
	steps   bool // the clock goes on meanwhile
	fI      bool // the format of records, which do not tell Clients apart
	limiter []*rratelimiter.RateLimiter

	mu  sync.Mutex
	ops []porcupine.Operation // guarded by mu
}

// does calls and records it. Where the clock stands still, it does not matter whose records
// the permits are in.
func (h *history) does(a asked, call func() told) {
	switch {
	case h.steps && h.fI:
		a.owner = others
	case h.steps:
		a.owner = a.client
	}
	start := h.ticks.Add(1)
	t := call()
	end := h.ticks.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: a.client, Input: a, Call: start, Output: t,
		Return: end})
}

// told returns the result that an error stands for, if any.
func (h *history) told(err error) told {
	exceeds := errors.Is(err, rratelimiter.ErrPermitsExceedRate)
	if err != nil && !exceeds {
		h.Errorf("seed %d: %v", h.seed, err)
	}
	return told{ok: err == nil, left: -1, exceeds: exceeds}
}

func (h *history) tries(a asked) {
	h.does(a, func() told {
		ok, err := h.limiter[a.client].TryAcquire(context.Background(), a.n, a.timeout)
		t := h.told(err)
		t.ok = ok
		return t
	})
}

func (h *history) allows(a asked) {
	h.does(a, func() told {
		r, err := h.limiter[a.client].Allow(context.Background(), a.n)
		t := h.told(err)
		if t.ok = r.Allowed; err == nil {
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

func (h *history) comes(client int, random *rand.Rand) {
	a := asked{client: client, n: 1 + random.Int64N(4)}
	switch p := random.IntN(100); {
	case p < 45:
		a.kind = acquires
		if p < 20 {
			a.timeout = time.Duration(1+random.IntN(4000)) * time.Microsecond
		}
		h.tries(a)
	case p < 60:
		a.kind = allows
		h.allows(a)
	case p < 85:
		a.kind = releases
		h.does(a, func() told { return h.told(h.limiter[a.client].Release(context.Background(), a.n)) })
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

// runs lets callers of each limiter ask at random, all at once. They meet from time to time. Without
// that, Porcupine would have too many orders to try.
func (h *history) runs() {
	h.Helper()
	callers := 6 / len(h.limiter)
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
	h.Errorf("seed %d, %d Clients, steps %v, fI %v: %s, %d calls; see %s (-artifacts keeps it)",
		h.seed, len(h.limiter), h.steps, h.fI, result, len(h.ops), path)
	return true
}

// stand finds out why those may have been refused that waited: for callers of the same Client that waited
// at the same time, or for another Client that had waiting callers before.
func stand(ops []porcupine.Operation) {
	for i := range ops {
		a := ops[i].Input.(asked)
		if t := ops[i].Output.(told); a.timeout == 0 || t.ok || t.exceeds {
			continue
		}
		for j := range ops {
			b := ops[j].Input.(asked)
			a.yields = a.yields || b.timeout > 0 && b.client != a.client && ops[j].Call < ops[i].Return
			if i != j && b.timeout > 0 && b.client == a.client && ops[j].Call < ops[i].Return &&
				ops[i].Call < ops[j].Return {
				a.ahead = max(a.ahead, b.n)
			}
		}
		ops[i].Input = a
	}
}

// A sharedClock is the clock of several Clients, which goes on in steps. A
// request that bears the time of a step has its reply before the next one.
type sharedClock struct {
	mu     sync.RWMutex
	now    time.Time
	merged atomic.Int64 // requests of more than one caller
}

// read is asked when a request is made; answered follows, once.
func (c *sharedClock) read() time.Time {
	c.mu.RLock()
	return c.now
}

// step lets a slot pass, when each request that bears the time of the last one has its reply.
func (c *sharedClock) step() {
	// Lock would keep readers waiting, and then the time of a bubble stops.
	for tries := 0; !c.mu.TryLock(); tries++ {
		if tries == 60_000 {
			panic("a request has had no reply for a minute")
		}
		time.Sleep(time.Millisecond)
	}
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Hour)
}

func (c *sharedClock) DialHook(next redis.DialHook) redis.DialHook { return next }
func (c *sharedClock) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			c.answered(cmd, cmd.Err())
		}
		return err
	}
}
func (c *sharedClock) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		c.answered(cmd, err)
		return err
	}
}

// answered notes that a command has its reply. A script that the server does not know is sent again with its
// text, and the same time.
func (c *sharedClock) answered(cmd redis.Cmder, err error) {
	const othersArgs = 7 // words of the script that has no time: whether it is Java's turn
	args := cmd.Args()
	script := cmd.Name() == "evalsha" && !redis.HasErrorPrefix(err, "NOSCRIPT") || cmd.Name() == "eval"
	if !script || len(args) <= othersArgs {
		return
	}
	c.mu.RUnlock()
	// Only the arguments of several requests end in runs of equal ones.
	if _, runs := args[len(args)-1].(int64); runs && len(args) > 12 {
		c.merged.Add(1)
	}
}

// newHistory returns a history with a number of Clients. In every second one they write records of format fI.
func newHistory(t *testing.T, rdb *redis.Client, clock func() time.Time, clients int) *history {
	h := &history{T: t, seed: rand.Uint64()}
	// The model does not know of permits that are left to Java for a moment.
	opts := []rratelimiter.Option{rratelimiter.WithClock(clock), rratelimiter.WithGoOnly()}
	if h.fI = h.seed%2 == 0; h.fI {
		opts = append(opts, rratelimiter.WithRedisson(FI))
	}
	name := redistest.Name(t)
	for range clients {
		c := rratelimiter.New(rdb, opts...)
		t.Cleanup(func() { _ = c.Close() })
		h.limiter = append(h.limiter, c.RateLimiter(name))
	}
	return h
}

// However many callers ask at once, alone or together, each gets what it would get if they came one by
// one. The clock of the Clients stands still, or it goes on. Waiting is in fake time: no machine is so
// slow that a caller leaves without its reply.
func TestCallersAtOnceGetWhatTheyWouldOneByOne(t *testing.T) {
	merged, undecided, many := int64(0), 0, redistest.Rounds(t, 80)
	for i := range many {
		var h *history
		synctest.Test(t, func(t *testing.T) {
			clock := &sharedClock{now: time.UnixMilli(1_700_000_000_000)}
			rdb := redistest.MiniClient(t, redistest.Mini(t))
			rdb.AddHook(clock)
			h = newHistory(t, rdb, clock.read, 1+i%3)
			h.clock, h.steps = clock, i%2 == 0
			h.runs()
		})
		h.T = t
		merged += h.clock.merged.Load()
		if !h.check() {
			undecided++
		}
	}
	if merged < 7*int64(many) || undecided > many/4 {
		t.Errorf("%d requests of more than one caller, and %d of %d histories were not decided",
			merged, undecided, many)
	}
}
