package clusters_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// masters is how many masters a cluster has; its replicas come after them.
const masters = 3

// moveOn begins to move the slot of a key to the next master.
func moveOn(t *testing.T, c *redistest.Cluster, key string) *redistest.Move {
	t.Helper()
	return c.Move(t, key, c.Servers[(c.Node(t, key)+1)%masters])
}

// A watched is a cluster, and a client of it whose replies are counted.
type watched struct {
	*redistest.Cluster
	rdb     *redis.ClusterClient
	replies *atomic.Int64 // to scripts, whatever they said
}

func watch(t *testing.T) watched {
	t.Helper()
	w := watched{redistest.StartCluster(t), nil, &atomic.Int64{}}
	w.rdb = w.Client(t, func(o *redis.ClusterOptions) {
		o.MaxRedirects, o.MinRetryBackoff, o.MaxRetryBackoff = 60, time.Millisecond, 20*time.Millisecond
	})
	w.rdb.OnNewNode(func(node *redis.Client) {
		node.AddHook(Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			err := next(ctx, cmd)
			if strings.HasPrefix(cmd.Name(), "eval") {
				w.replies.Add(1)
			}
			return err
		}))
	})
	return w
}

// moves moves the slot of keys to another node, key by key in an order, while use is called again and again.
// Each key moves when nodes have replied to two more scripts: the first of them may have been sent before.
func (w watched) moves(t *testing.T, keys []string, order []int, use func()) {
	t.Helper()
	m := moveOn(t, w.Cluster, keys[0])
	var user sync.WaitGroup
	var ended atomic.Bool
	defer user.Wait() // also where the move fails
	defer ended.Store(true)
	user.Go(func() {
		for !ended.Load() {
			use()
		}
	})
	meanwhile := func() {
		before := w.replies.Load()
		Until(t, func() bool { return w.replies.Load() >= before+2 || t.Failed() })
	}
	meanwhile()
	for _, i := range order {
		m.Key(keys[i])
		meanwhile()
	}
	for _, key := range keys { // it may have been created again
		m.Key(key)
	}
	m.End()
	meanwhile()
}

// A slot moves to another node key by key while a limiter of one record is in
// use. No permit is lost, none is granted twice, and no caller gets an error.
func TestALimiterWhoseSlotMovesLosesNothing(t *testing.T) {
	t.Parallel() // most of the time is spent waiting
	cluster := watch(t)
	orders := [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	some := min(len(orders), redistest.Rounds(t, 12)) // of each use
	for kind, opts := range map[string][]rratelimiter.Option{
		"default": nil,
		"fI":      {rratelimiter.WithRedisson(FI)},
	} {
		c := NewClient(t, cluster.rdb, opts...)
		for what, use := range uses {
			t.Run(kind+"/"+what, func(t *testing.T) {
				for _, at := range rand.Perm(len(orders))[:some] {
					order := orders[at]
					l := c.RateLimiter(redistest.Name(t))
					keys := []string{l.Name(), "{" + l.Name() + "}:value", "{" + l.Name() + "}:permits"}
					h := &moving{T: t, l: l, rdb: cluster.rdb}
					h.want(l.SetRate(t.Context(), Overall, 10, time.Hour))
					h.acquire(5)
					cluster.moves(t, keys, order, func() { use(h) })
					use(h)
					h.agrees()
					_, err := l.Delete(t.Context()) // another name may be of this slot
					h.want(err)
					if t.Failed() {
						t.Fatalf("moved in the order %v", order)
					}
				}
			})
		}
	}
}

// moving is a limiter in use while it moves, and the permits that its callers hold.
type moving struct {
	*testing.T
	l      *rratelimiter.RateLimiter
	rdb    *redis.ClusterClient
	out    atomic.Int64
	unsure atomic.Bool // permits of callers that left may be out for some time
}

func (h *moving) want(err error) {
	h.Helper()
	if err != nil {
		h.Errorf("%v", err)
	}
}

func (h *moving) acquire(n int64) bool {
	h.Helper()
	ok, err := h.l.TryAcquire(h.Context(), n, 0)
	h.want(err)
	if ok {
		if out := h.out.Add(n); out > 10 {
			h.Errorf("%d of 10 are out", out)
		}
	}
	return ok
}

// spends reserves permits and settles what was used of them.
func (h *moving) spends(reserved, used int64) {
	h.Helper()
	r, err := h.l.Reserve(h.Context(), reserved, 0)
	h.want(err)
	if r == nil {
		h.Errorf("%d permits were refused with %d of 10 out", reserved, h.out.Load())
		return
	}
	h.want(r.Settle(h.Context(), used))
	h.out.Add(used)
}

func (h *moving) release(n int64) {
	h.Helper()
	h.want(h.l.Release(h.Context(), n))
	h.out.Add(-n)
}

// agrees expects the permits that are out to be in the records, and the rest to be left.
func (h *moving) agrees() {
	h.Helper()
	agree := func() (n, left int64, ok bool) {
		left, err := h.l.AvailablePermits(h.Context())
		h.want(err)
		n = outOf(h.T, h.rdb, h.l.Name())
		return n, left, n == h.out.Load() && left == 10-n
	}
	n, left, ok := agree()
	for start := time.Now(); !ok && h.unsure.Load() && time.Since(start) < 5*time.Second; {
		time.Sleep(20 * time.Millisecond) // the permits of callers that left go back meanwhile
		n, left, ok = agree()
	}
	if !ok {
		h.Errorf("%d permits are out, %d in records, %d left", h.out.Load(), n, left)
	}
}

// uses are calls on a limiter with 5 of 10 permits out. About as many are out after each.
var uses = map[string]func(h *moving){
	"acquire and release all": func(h *moving) {
		h.release(h.out.Load())
		for range 2 {
			h.acquire(1)
		}
		h.release(h.out.Load())
		h.acquire(5)
	},
	"refused": func(h *moving) {
		if h.acquire(6) {
			h.Error("6 of 5 were granted")
		}
	},
	"acquire": func(h *moving) { // 10 in the end
		h.acquire(1)
	},
	"release in parts": func(h *moving) {
		if h.out.Load() == 0 {
			h.acquire(5)
		}
		h.release(1)
	},
	"settle": func(h *moving) {
		for _, used := range []int64{0, 1, 3} {
			h.spends(2, used)
			h.release(used)
		}
		h.want(ErrOf(h.l.Charge(h.Context(), 1)))
		h.out.Add(1)
		h.release(1)
	},
	"settle alone": func(h *moving) {
		h.release(h.out.Load())
		h.spends(4, 0)
		h.spends(4, 6)
		h.release(6)
		h.spends(4, 1)
		h.release(1)
		h.acquire(5)
	},
	"peek and config": func(h *moving) {
		r, err := h.l.Peek(h.Context())
		h.want(err)
		if r.Remaining != 5 {
			h.Errorf("%+v", r)
		}
		_, err = h.l.Config(h.Context())
		h.want(err)
	},
	"repair": func(h *moving) {
		r, err := h.l.Repair(h.Context())
		h.want(err)
		if r.Records != 1 || r.Dropped+r.Drift != 0 {
			h.Errorf("%+v", r)
		}
	},
	"set rate and keep state": func(h *moving) {
		h.want(h.l.SetRate(h.Context(), Overall, 10, time.Hour, rratelimiter.WithKeepState()))
	},
	"set rate": func(h *moving) {
		h.want(h.l.SetRate(h.Context(), Overall, 10, time.Hour))
		h.out.Store(0)
		h.acquire(5)
	},
	"contexts that end": func(h *moving) {
		h.unsure.Store(true)
		for i := range 4 {
			ctx, cancel := context.WithTimeout(h.Context(), time.Duration(i)*100*time.Microsecond)
			ok, err := h.l.TryAcquire(ctx, 1, 0)
			cancel()
			if ok {
				h.out.Add(1)
			} else if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				h.Error(err)
			}
		}
		// The permits of calls that failed are not given back here.
		if more := h.out.Load() - 5; more > 0 {
			h.release(more)
		}
	},
}

// A slot moves to another node key by key while a Group of two limiters is in use. No
// permit is lost, none is granted twice, and no caller gets an error.
func TestAGroupWhoseSlotMovesLosesNothing(t *testing.T) {
	t.Parallel() // most of the time is spent waiting
	cluster := watch(t)
	c := NewClient(t, cluster.rdb)
	for range 12 {
		tag := "{" + redistest.Name(t) + "}"
		var both [2]*moving
		var keys []string
		for i, name := range []string{tag + ":a", tag + ":b"} {
			l := c.RateLimiter(name)
			NoError(t, l.SetRate(t.Context(), Overall, 10, time.Hour))
			both[i] = &moving{T: t, l: l, rdb: cluster.rdb}
			keys = append(keys, name, name+":value", name+":permits")
		}
		g, order := c.All(both[0].l, both[1].l).Amounts(1, 2), rand.Perm(len(keys))
		cluster.moves(t, keys, order, func() {
			both[0].want(Yes(g.TryAcquire(t.Context(), 1, 0)))
			both[0].want(g.Release(t.Context(), 1))
		})
		for _, h := range both {
			h.agrees()
			NoError(t, ErrOf(h.l.Delete(t.Context())))
		}
		if t.Failed() {
			t.Fatalf("moved in the order %v", order)
		}
	}
}

// A leaving is a slot that can begin to move away from its node.
type leaving struct {
	*testing.T
	node, next *redistest.Server
	slot       int64
	cut        error        // what Redis said of a script that was cut short; the library would send it again
	sent       atomic.Int64 // scripts, by the client of a row
}

// elsewhere is an error instead of TRYAGAIN and ASK, after which a call would be made again for seconds.
const elsewhere = "ELSEWHERE"

// client returns a client of the node, which loses replies unless a script was sent often enough.
func (m *leaving) client(copies int64) *redis.Client {
	rdb := m.node.Client(m)
	rdb.AddHook(Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		err := next(ctx, cmd)
		_, asks := redis.IsAskError(err)
		switch {
		case asks || redis.IsTryAgainError(err):
			return RedisError(elsewhere)
		case err != nil && strings.Contains(err.Error(), "non local key"):
			m.cut = err
		case err == nil && cmd.Name() == "evalsha":
			if m.sent.Add(1)%copies > 0 {
				return io.EOF
			}
		}
		return err
	}))
	return rdb
}

func (m *leaving) moves(args ...any) {
	m.Helper()
	NoError(m, m.node.Admin().Do(m.Context(), append([]any{"CLUSTER", "SETSLOT", m.slot}, args...)...).Err())
}

// leaves returns what a row leaves, and the error of what is behind its bar.
func (m *leaving) leaves(s *server, row string, moving bool) (contents string, err error) {
	m.Helper()
	p, steps := s.starts(row)
	c := p.client(s.user)
	m.sent.Store(0) // so that the same replies are lost in both slots
	if moving {
		m.moves("MIGRATING", m.next.Admin().ClusterMyID(m.Context()).Val())
	}
	err = p.does(c, steps)
	m.moves("STABLE") // while a slot moves, a command that finds no key is sent on to the other node
	if errors.Is(err, io.EOF) {
		err = nil // it is not sent again
	}
	return p.contents(), err
}

// A script never names a key after it may have removed it. In a slot that is moving, the script would be
// cut short there, and what it had removed would be lost. So each call leaves in such a slot what it leaves
// elsewhere.
func TestNoScriptNamesAKeyItHasRemoved(t *testing.T) {
	cluster := redistest.StartCluster(t, redistest.WithArgs("--notify-keyspace-events", "KEA"))
	at := cluster.Node(t, "api")
	m := &leaving{T: t, node: cluster.Servers[at], next: cluster.Servers[(at+1)%masters]}
	m.slot = m.node.Admin().ClusterKeySlot(t.Context(), "api").Val()
	inFI := []rratelimiter.Option{rratelimiter.WithRedisson(FI)}
	for way, s := range map[string]*server{
		"a record for each call": {user: m.client(1)},
		"fI":                     {user: m.client(1), opts: inFI},
		"lost replies":           {user: m.client(2)},
	} {
		s.T, s.look, s.name = t, m.node.Admin(), "api"
		judged := 0
		for name, row := range Rows(callsTable) {
			if hasStep(row, "real") || hasStep(row, "list") {
				continue
			}
			want, err := m.leaves(s, row, false)
			if err != nil {
				continue // it is not for slots
			}
			got, err := m.leaves(s, row, true)
			if err != nil && strings.Contains(err.Error(), elsewhere) && m.cut == nil {
				continue // a key of the call is not there before it
			}
			if judged++; err != nil || m.cut != nil || got != want {
				t.Errorf("%s, %s: %v, %v; it leaves\n%s\nwant\n%s", way, name, err, m.cut, got, want)
			}
			m.cut = nil
		}
		if judged < 30 {
			t.Errorf("%s: only %d calls were judged", way, judged)
		}
	}
}
