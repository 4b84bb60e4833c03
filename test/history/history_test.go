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
	"testing/synctest"
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
	leaves  bool   // callers do not always wait for their result
	vague   bool   // replies are lost: the numbers that come with a second one are later ones
	spares  []kind // what is not asked for
	settles bool   // callers reserve, settle and charge, instead of giving back
	ids     atomic.Int64
	limiter []*rratelimiter.RateLimiter
	model   porcupine.Model

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
	a.resent = a.resent || h.vague
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

// soon is how long after its timeout a caller has its result, unless Redis or the machine
// stands still. Somewhat later, it leaves.
const soon = 20 * time.Millisecond

// told returns the result that an error stands for, if any.
func (h *history) told(err error) told {
	exceeds := errors.Is(err, rratelimiter.ErrPermitsExceedRate)
	switch {
	case err == nil || exceeds || h.vague || h.leaves && errors.Is(err, context.DeadlineExceeded):
	case errors.Is(err, rratelimiter.ErrNoAnswer) && h.leaves: // the machine is slow
	default:
		h.Errorf("seed %d: %v", h.seed, err)
	}
	return told{ok: err == nil, left: -1, exceeds: exceeds, unknown: err != nil && !exceeds}
}

func (h *history) tries(ctx context.Context, a asked) {
	h.does(a, func() told {
		start := time.Now()
		ok, err := h.limiter[a.client].TryAcquire(ctx, a.n, a.timeout)
		t := told{left: -1, unknown: true}
		if a.timeout == 0 || !errors.Is(err, rratelimiter.ErrNoAnswer) { // otherwise the machine is slow
			t = h.told(err)
		}
		t.ok = ok
		t.late = !ok && err == nil && a.timeout > 0 && time.Since(start) > a.timeout+soon
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
		h.gives(a, random)
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

// gives gives back, or reserves.
func (h *history) gives(a asked, random *rand.Rand) {
	if h.settles {
		h.reserves(a, random)
		return
	}
	a.kind = releases
	h.does(a, func() told { return h.told(h.limiter[a.client].Release(context.Background(), a.n)) })
}

// runs lets callers of each limiter ask at random, all at once. They meet from time to time. Without
// that, Porcupine would have too many orders to try.
//
// The model does not know what becomes of callers that leave without a reply while the clock goes on.
// So a history in which it does is played in fake time.
func (h *history) runs() {
	h.Helper()
	callers := 6 / len(h.limiter)
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
}

// check fails the spec where no order explains what callers got. It reports whether
// it could decide: for some histories there are too many orders to try.
func (h *history) check() (told bool) {
	h.Helper()
	stand(h.ops)
	result := porcupine.CheckOperationsTimeout(h.model, h.ops, 5*time.Second)
	if result != porcupine.Illegal {
		return result == porcupine.Ok
	}
	_, info := porcupine.CheckOperationsVerbose(h.model, h.ops, 10*time.Second)
	path := filepath.Join(h.ArtifactDir(), fmt.Sprintf("history-%d.html", h.seed))
	if err := porcupine.VisualizePath(h.model, info, path); err != nil {
		h.Error(err)
	}
	h.Errorf("seed %d, %d Clients, steps %v, shared records %v: %s, %d calls; see %s (-artifacts keeps it)",
		h.seed, len(h.limiter), h.steps, h.shares, result, len(h.ops), path)
	return true
}

// stand finds out why those may have been refused that waited: for callers of the same Client that waited
// at the same time, or for another Client that had waiting callers before.
func stand(ops []porcupine.Operation) {
	for i := range ops {
		a := ops[i].Input.(asked)
		if t := ops[i].Output.(told); a.timeout == 0 || t.ok || t.exceeds || t.unknown {
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

// newHistory returns a history with a number of Clients. In every second one they keep
// records with a resolution.
func newHistory(t *testing.T, rdb *redis.Client, clock func() time.Time, clients int) *history {
	h := &history{T: t, seed: rand.Uint64(), model: model}
	// The model knows no permits that are left to Java for a moment.
	opts := []rratelimiter.Option{rratelimiter.WithClock(clock), rratelimiter.WithGoOnly()}
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

// However many callers ask at once, alone or together, each gets what it would get if they came one by
// one. The clock of the Clients stands still, or it goes on. Waiting is in fake time: no machine is so
// slow that a caller leaves without its reply.
func TestCallersAtOnceGetWhatTheyWouldOneByOne(t *testing.T) {
	merged, many := int64(0), redistest.Rounds(t, 80)
	explained(t, many, func(i int) (h *history) {
		synctest.Test(t, func(t *testing.T) {
			clock := &sharedClock{now: frozen()}
			rdb := redistest.MiniClient(t, redistest.Mini(t))
			rdb.AddHook(clock)
			h = newHistory(t, rdb, clock.read, 1+i%3)
			h.clock, h.steps = clock, i%2 == 0
			h.runs()
		})
		h.T = t
		merged += h.clock.merged.Load()
		return h
	})
	if merged < 7*int64(many) {
		t.Errorf("%d requests of more than one caller", merged)
	}
}

// The same holds when callers leave before they have a result. Their permits go
// to other callers.
func TestCallersThatLeaveChangeNoResults(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	left := 0
	explained(t, redistest.Rounds(t, 40), func(i int) *history {
		h := newHistory(t, rdb, frozen, 1+i%3)
		h.leaves = true
		h.runs()
		for _, op := range h.ops {
			if op.Output.(told).unknown {
				left++
			}
		}
		return h
	})
	if left == 0 {
		t.Error("no caller has left")
	}
}

// frozen is a clock that stands still.
func frozen() time.Time { return time.UnixMilli(1_700_000_000_000) }

// The same holds over a line that loses replies, whichever they are, where requests
// are sent again and where they are not, also where callers leave. A caller that gets
// an error may have been granted permits, which come back.
//
// With a rate that is set meanwhile, permits that no caller knows of are gone. A
// request that is sent again still gets the result that it got first. Callers that reserve and settle are in
// histories without a new rate: settled twice, by whichever amount, the first settlement counts.
func TestLostRepliesChangeNoResults(t *testing.T) {
	s := redistest.Start(t)
	for name, c := range map[string]struct {
		spares           []kind
		retries          int
		settles, arrives bool // arrives: no reply is lost
	}{
		"sent again":                     {retries: 20},
		"not sent again":                 {retries: -1},
		"sent again, without a new rate": {retries: 20, spares: []kind{sets}},
		"not sent again, without one":    {retries: -1, spares: []kind{sets}},
		"reservations":                   {retries: 20, spares: []kind{sets}, settles: true},
		"reservations, all replies come": {retries: 20, spares: []kind{sets}, settles: true, arrives: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := redistest.StartProxy(t, s.Addr)
			rdb := redis.NewClient(&redis.Options{Addr: p.Addr, MaxRetries: c.retries, MinRetryBackoff: 1,
				MaxRetryBackoff: time.Millisecond})
			t.Cleanup(func() { _ = rdb.Close() })
			if !c.arrives {
				var random atomic.Uint64
				p.SwallowReplyTo(math.MaxInt, func(args []string) bool {
					return runsScript(args) && random.Add(0x9E3779B97F4A7C15)>>32%20 == 0
				})
			}
			reserved, many := int64(0), redistest.Rounds(t, 20)
			explained(t, many, func(i int) *history {
				h := newHistory(t, rdb, frozen, 1+i%3)
				h.vague, h.spares, h.settles = !c.arrives, c.spares, c.settles
				h.leaves = !c.settles && i%2 == 1
				h.runs()
				reserved += h.ids.Load()
				return h
			})
			if n := p.Swallowed(); !c.arrives && n < int64(many) || c.settles && reserved < int64(many)*10 {
				t.Errorf("%d replies were lost, %d reservations", n, reserved)
			}
		})
	}
}

// explained expects Porcupine to explain histories, and to decide about most of them.
func explained(t *testing.T, many int, play func(i int) *history) {
	t.Helper()
	untold := 0
	for i := range many {
		if !play(i).check() {
			untold++
		}
	}
	if untold > many/4 {
		t.Errorf("%d of %d histories were not decided", untold, many)
	}
}
