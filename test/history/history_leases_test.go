package history_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

const (
	leaseRate  = 600
	leaseSlots = 40 // steps of the clock in an interval
	leaseLasts = 2  // of them
	leaseStep  = 500 * time.Millisecond
)

// lent is all that a limiter knows that some Clients lease.
type lent struct {
	taken  [leaseSlots + leaseLasts]int64 // by the steps of the clock since they were used
	leased [owners]int64                  // what the leases of each Client have left
	leases [owners]int64                  // how many these are
}

// out returns the permits that were used in the last steps, and those that are leased.
func (s lent) out(steps int) (sum int64) {
	for _, n := range s.taken[:steps] {
		sum += n
	}
	for _, n := range s.leased {
		sum += n
	}
	return sum
}

// after returns what a call may leave behind.
func (s lent) after(a asked, t told) (after []lent) {
	// Used permits of a lease may count for an interval from the end of the lease on.
	left, atLeast := leaseRate-s.out(leaseSlots), leaseRate-s.out(leaseSlots+leaseLasts)
	switch a.kind {
	case acquires:
		if !t.ok && a.n > atLeast {
			return []lent{s}
		}
		if t.ok {
			return s.granted(a, left)
		}
	case leases, settles:
		if !t.ok {
			return []lent{s}
		}
		return s.lends(a, left)
	case releases:
		return s.released(a)
	case available:
		if t.left <= left && t.left >= atLeast {
			return []lent{s}
		}
	case steps:
		next := s
		next.taken = [leaseSlots + leaseLasts]int64{}
		copy(next.taken[min(a.n, leaseSlots+leaseLasts):], s.taken[:])
		return []lent{next}
	}
	return nil
}

// granted returns what a grant may leave behind: it is of those that are left, or of a lease.
func (s lent) granted(a asked, left int64) (after []lent) {
	s.taken[0] += a.n
	if a.n <= left {
		after = append(after, s)
	}
	if s.leased[a.client] -= a.n; s.leased[a.client] >= 0 {
		after = append(after, s)
	}
	return after
}

// lends returns what is left behind when a lease is taken or settled.
func (s lent) lends(a asked, left int64) (after []lent) {
	client := a.client
	if a.kind == leases {
		s.leases[client]++
		if s.leased[client] += a.n; a.n <= left {
			return []lent{s}
		}
		return nil
	}
	s.leases[client]--
	s.leased[client] -= a.n - a.used
	if n := s.leased[client]; n == 0 || n > 0 && s.leases[client] > 0 {
		return []lent{s}
	}
	return nil
}

// released returns what a release may leave behind: its permits go to the lease, or to Redis.
func (s lent) released(a asked) (after []lent) {
	next := s
	for i := range next.taken {
		next.taken[i] -= out(&a.n, next.taken[i])
	}
	for returned := s.out(leaseSlots) - next.out(leaseSlots); returned >= 0; returned-- {
		after = append(after, next)
		if s.leases[a.client] == 0 {
			break
		}
		next.leased[a.client]++
	}
	return after
}

// leaseModel is the limiter that is asked one request after another, by Clients that lease permits.
var leaseModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{lent{}} },
	Step: func(state, input, output any) (after []any) {
		for _, next := range state.(lent).after(input.(asked), output.(told)) {
			after = append(after, next)
		}
		return after
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}).ToModel()

// A noter records when the leases of a Client are taken and settled: the scripts say so by their records.
type noter struct {
	*history
	mini   *miniredis.Miniredis
	client int
}

// DialHook implements redis.Hook.
func (noter) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (n noter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return n.notes(cmd, func() error {
			err := next(ctx, cmd)
			cmd.SetErr(err) // as go-redis does, but later
			return err
		})
	}
}

// ProcessPipelineHook implements redis.Hook.
func (n noter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		run := func() error { return next(ctx, cmds) }
		for _, cmd := range cmds {
			inner := run
			run = func() error { return n.notes(cmd, inner) }
		}
		return run()
	}
}

// notes runs a command, and records it if it takes or settles a lease. A server that does not know the script
// yet does neither.
func (n noter) notes(cmd redis.Cmder, run func() error) (err error) {
	const permits, records, settled = 3, 4, 9 // of ARGV: acquire.lua, and settle.lua
	argv := argvOf(cmd)
	is := func(i int) bool { return i < len(argv) && strings.Contains(argv[i], "\xd2GoRLease") }
	number := func(i int) int64 { return redistest.Must(strconv.ParseInt(argv[i], 10, 64))(n) }
	a := asked{client: n.client}
	switch {
	case is(records):
		a.kind, a.n = leases, number(permits)
	case is(settled):
		a.kind, a.n = settles, number(settled+1)
		a.used = a.n - number(settled+2)
	default:
		return run()
	}
	n.does(a, func() told {
		if err = run(); cmd.Err() != nil || a.kind == settles {
			return told{ok: cmd.Err() == nil}
		}
		score, _ := n.mini.ZScore("{l}:permits", argv[records])
		return told{ok: score > 0}
	})
	return err
}

// argvOf returns ARGV of a script, nil of another command.
func argvOf(cmd redis.Cmder) (argv []string) {
	const keys = 2 // their number; then come these, and ARGV
	args := cmd.Args()
	if n, ok := args[min(keys, len(args)-1)].(int); ok && runsScript([]string{cmd.Name()}) {
		for _, v := range args[keys+1+n:] {
			argv = append(argv, fmt.Sprint(v))
		}
	}
	return argv
}

// asksAtOnce has callers of each Client ask at random, at once. The clock stands still meanwhile.
func (h *history) asksAtOnce(round uint64, gives bool) {
	var all sync.WaitGroup
	for client := range h.limiter {
		for i := range 2 {
			random := rand.New(rand.NewPCG(h.seed, round<<8|uint64(client*2+i)))
			all.Go(func() {
				held := int64(0)
				for range 4 {
					a := asked{client: client, n: 1 + random.Int64N(4)}
					switch p := random.IntN(100); {
					case p < 5:
						a.kind = available
						h.looks(a)
					case p < 30 && gives && held > 0:
						a.n = min(a.n, held)
						held -= a.n
						a.kind = releases
						h.does(a, func() told {
							return h.told(h.limiter[client].Release(context.Background(), a.n))
						})
					default:
						if a.kind = acquires; p >= 97 {
							a.n = 100
						}
						ok := false
						h.does(a, func() (t told) {
							var err error
							ok, err = h.limiter[client].TryAcquire(context.Background(), a.n, 0)
							t = h.told(err)
							t.ok = ok
							return t
						})
						if ok {
							held += a.n
						}
					}
				}
			})
		}
	}
	all.Wait()
}

// Callers of Clients that lease permits, beside one that leases none, get what they would get one by one.
// While permits are given back, none come back by time.
func TestCallersOfLeasesAtOnceGetWhatTheyWouldOneByOne(t *testing.T) {
	for name, interval := range map[string]time.Duration{
		"permits come back": leaseSlots * leaseStep, "permits are given back": time.Hour} {
		t.Run(name, func(t *testing.T) {
			untold, taken, many := 0, 0, redistest.Rounds(t, 8)
			for range many {
				h := &history{T: t, seed: rand.Uint64(), model: leaseModel}
				synctest.Test(t, func(t *testing.T) { h.leasesAndAsks(t, interval) })
				h.T = t
				if !h.check() {
					untold++
				}
				for _, op := range h.ops {
					if op.Input.(asked).kind == leases && op.Output.(told).ok {
						taken++
					}
				}
			}
			if untold == many || taken < 5*many { // a busy machine may decide few within the time
				t.Errorf("%d of %d histories were not decided; %d leases", untold, many, taken)
			}
		})
	}
}

// leasesAndAsks plays a history, in a bubble.
func (h *history) leasesAndAsks(t *testing.T, interval time.Duration) {
	h.T = t
	mini := redistest.Mini(t)
	for client := range 3 {
		var opts []rratelimiter.Option
		rdb := redistest.MiniClient(t, mini)
		rdb.AddHook(noter{h, mini, client})
		if client < 2 {
			o := rratelimiter.LeaseOptions{Max: leaseLasts * leaseStep}
			opts = append(opts, rratelimiter.WithLease(o))
		}
		h.limiter = append(h.limiter, NewClient(t, rdb, opts...).RateLimiter("l"))
	}
	NoError(t, h.limiter[0].SetRate(t.Context(), Overall, leaseRate, interval))
	random, most := rand.New(rand.NewPCG(h.seed, 0)), int64(leaseSlots)
	if interval < time.Hour {
		most *= 2
	}
	for round, passed := uint64(1), int64(0); passed < most; round++ {
		h.asksAtOnce(round, interval == time.Hour)
		h.looks(asked{kind: available})
		n := int64(1)
		if random.IntN(4) == 0 {
			n += random.Int64N(10)
		}
		passed += n
		h.does(asked{kind: steps, n: n}, func() told {
			time.Sleep(time.Duration(n) * leaseStep)
			return told{}
		})
	}
}
