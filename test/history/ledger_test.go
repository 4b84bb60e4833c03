package history_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// The specs here keep a ledger of all that callers get, while the network does its worst and callers leave.
// In the end the ledger must agree with the records: each permit that is out has a holder. The interval is so
// long that nothing expires and hides a loss.
//
// A release may take the record of a request whose reply was lost: if another Client has granted what it
// gives back, or if records have no mark of a Client. Then the withdrawal finds fewer permits, and the rest
// comes back an interval later (scripts/release.lua). So all that callers hold is out, and more may be.

// The books are the ledger of limiters that many callers use.
type books struct {
	*Bench
	accounts []*account
	ops      atomic.Int64 // acquires and releases that are still to come

	granted, refused, failed, released, doubtful atomic.Int64
}

// A way is how the callers of a ledger behave.
type way struct {
	leave    bool          // callers of Release also leave
	calm     bool          // the network does nothing: the end of its context is the only error of a caller
	reserves bool          // callers also reserve
	others   bool          // some callers give back by a Client that has not granted it
	unmarked bool          // records have no mark of a Client
	slow     time.Duration // the factor by which everything is slower, for a busy machine
}

// Nothing is lost over a bad network, on which replies are lost, late or doubled and connections break, and
// where callers leave. Releases are repeated until they are known to be done. Where callers that
// give back leave, each such release was done, or it was not, but no other permits are lost. Where Clients
// also give back what other Clients were granted, releases take the records of lost replies, and no
// withdrawal gives back what a caller holds.
//
// Of reservations nothing is lost either. Only a Client that gives back what another one has taken may take
// it out of a reservation (scripts/parts/find.lua), which then has nothing to give back. Records without
// the mark of a Client are no better.
func TestNothingIsLost(t *testing.T) {
	for _, format := range []struct {
		name     string
		typ      rratelimiter.RateType
		unmarked bool
		opts     []rratelimiter.Option
	}{
		{"default", Overall, false, nil},
		{"fI", Overall, true, []rratelimiter.Option{rratelimiter.WithRedisson(FI)}},
		{"LC0I", Overall, false, []rratelimiter.Option{rratelimiter.WithRedisson(LC0I)}},
		{"PerClient", PerClient, false, nil},
	} {
		for name, w := range map[string]way{
			"bad network":                {},
			"releases are left":          {leave: true},
			"calm, callers leave":        {calm: true},
			"others give back":           {others: true},
			"reserved":                   {reserves: true},
			"reserved, leaving":          {reserves: true, leave: true},
			"reserved on a calm network": {reserves: true, calm: true},
		} {
			if w.reserves && format.opts != nil {
				continue
			}
			w.unmarked = format.unmarked
			t.Run(format.name+"/"+name, func(t *testing.T) { keepLedger(t, w, format.typ, format.opts...) })
		}
	}
}

// keepLedger keeps a ledger of clients and callers that behave in a way. Where the machine is so
// busy that hardly a reply is in time, it keeps another one in which all goes slower. So it does
// after a ledger that took most of a minute: then a limiter may have forgotten a session, and its
// permits come back with their interval.
func keepLedger(t *testing.T, w way, typ rratelimiter.RateType, opts ...rratelimiter.Option) {
	t.Helper()
	const few, sessionLife = 10, 45 * time.Second // granted or given back; less than a minute
	for w.slow = 1; ; w.slow *= 4 {
		start := time.Now()
		g := keepOne(t, w, typ, opts...)
		granted, released, failed := g.granted.Load(), g.released.Load()+g.doubtful.Load(), g.failed.Load()
		if min(granted, released) >= few && failed > 0 && time.Since(start) < sessionLife {
			g.agrees()
			return
		}
		if w.slow > 64 {
			t.Errorf("the spec has tried too little: %d granted, %d given back, %d failed", granted, released,
				failed)
			return
		}
	}
}

func keepOne(t *testing.T, w way, typ rratelimiter.RateType, opts ...rratelimiter.Option) *books {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := redistest.Start(t)
	g := &books{Bench: NewBench(t, s.Client(t), s.Admin())}
	g.Client = rratelimiter.New(s.Admin()) // by the clock of the server, as the others
	many, calm := 4, func() {}
	if typ == PerClient {
		many = 1 // each has permits of its own, and one is as good as four
	}
	clients := make([]*rratelimiter.Client, many)
	for i := range clients {
		var rdb *redis.Client
		if w.calm {
			rdb = s.Client(t)
		} else {
			attempts := 30 // longer than any fault lasts
			if w.leave {
				attempts = 2
			}
			network, before := newBadNetwork(t, s, attempts, w.slow, seed+uint64(i)), calm
			rdb, calm = network.rdb, func() { before(); network.clear() }
		}
		clients[i] = rratelimiter.New(rdb, opts...)
		t.Cleanup(func() { _ = clients[i].Close() })
	}
	for _, rate := range []int64{10, 50, 200} {
		g.open(typ, rate, clients, w.others || w.unmarked)
	}
	g.ops.Store(int64(redistest.Rounds(t, 2500)))
	start := time.Now()
	var all sync.WaitGroup
	for i := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, i))
		all.Go(func() {
			for g.ops.Add(-1) >= 0 {
				g.visitAny(w, random)
			}
		})
	}
	all.Wait()
	calm()
	t.Logf("%v: %d granted, %d refused, %d without a reply; %d released, %d in doubt", time.Since(start),
		g.granted.Load(), g.refused.Load(), g.failed.Load(), g.released.Load(), g.doubtful.Load())
	return g
}

// agrees expects that the ledger agrees with the records, also after the last callers have given back.
func (g *books) agrees() {
	g.Helper()
	g.settles("before the last ones give back")
	for _, a := range g.accounts {
		for _, s := range a.stakes {
			a.held.Add(-s.n)
			err := s.l.Release(context.Background(), s.n)
			for range 20 { // on a connection that was cut and has not been used since
				if err != nil {
					err = s.l.Release(context.Background(), s.n)
				}
			}
			g.Want(err)
		}
	}
	g.settles("in the end")
}

// open opens the account of a new limiter.
func (g *books) open(typ rratelimiter.RateType, rate int64, clients []*rratelimiter.Client, late bool) {
	g.Helper()
	a := &account{Limiter: g.NewLimiter(typ, rate, time.Hour), rate: rate, clients: clients, late: late}
	a.value, a.permits = a.Limiter.ValueKey(), a.Limiter.PermitsKey()
	if typ == PerClient {
		a.value, a.permits = a.value+":"+clients[0].ID(), a.permits+":"+clients[0].ID()
	}
	for _, c := range clients {
		a.shared = append(a.shared, c.RateLimiter(a.Name()))
	}
	g.accounts = append(g.accounts, a)
}

// visitAny is one caller of some limiter, or of two.
func (g *books) visitAny(w way, random *rand.Rand) {
	some := random.Perm(len(g.accounts))
	switch n := random.IntN(4); {
	case n == 0:
		g.visitAll(w, g.accounts[some[0]], g.accounts[some[1]], random)
	case w.reserves && n < 3:
		g.visitReserved(w, g.accounts[some[0]], random)
	default:
		g.visit(w, g.accounts[some[0]], random)
	}
}

// visit is one caller: it asks, and holds what it was granted for a while.
func (g *books) visit(w way, a *account, random *rand.Rand) {
	i, n := random.IntN(len(a.clients)), 1+random.Int64N(a.rate/5)
	l := a.by(i, random)
	if !g.takes(w, l, n, random) {
		return
	}
	a.hold(n)
	if random.IntN(8) == 0 && a.keep(stake{l, n}) {
		return
	}
	if random.IntN(2) == 0 {
		time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond)
	}
	if random.IntN(4) == 0 { // another RateLimiter gives back
		if w.others {
			i = random.IntN(len(a.clients))
		}
		l = a.by(i, random)
	}
	g.giveBack(w, a, stake{l, n}, random)
}

// visitAll is one caller that wants permits of two limiters at once. It gives them back one after another.
func (g *books) visitAll(w way, a, b *account, random *rand.Rand) {
	i, n, m := random.IntN(len(a.clients)), 1+random.Int64N(a.rate/5), 1+random.Int64N(b.rate/5)
	one, two := a.clients[i].RateLimiter(a.Name()), b.clients[i].RateLimiter(b.Name())
	if !g.takes(w, a.clients[i].All(one, two).Amounts(n, m), 1, random) {
		return
	}
	a.hold(n)
	b.hold(m)
	if random.IntN(2) == 0 {
		time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond)
	}
	g.giveBack(w, a, stake{one, n}, random)
	g.giveBack(w, b, stake{two, m}, random)
}

// visitReserved plays a caller that reserves permits and settles for fewer. The used permits stay out until
// the end.
func (g *books) visitReserved(w way, a *account, random *rand.Rand) {
	l, n := a.at(random), 1+random.Int64N(a.rate/5)
	ctx, leave := context.WithTimeout(context.Background(),
		w.slow*time.Duration(random.IntN(60))*time.Millisecond)
	defer leave()
	timeout := w.slow * time.Duration(random.IntN(3)*10) * time.Millisecond
	r, err := l.Reserve(ctx, n, timeout)
	if !g.counts(w, r != nil, n, err) {
		return
	}
	a.hold(n)
	used := random.Int64N(n)
	if used > 0 && !a.keep(stake{l, used}) {
		used = 0
	}
	elsewhere, err := a.clients[random.IntN(len(a.clients))].Reservation(r.ID())
	g.Want(err)
	g.insists(w, a, n-used, random, func(ctx context.Context) error { return r.Settle(ctx, used) })
	if random.IntN(2) == 0 { // which changes nothing, unless the first settlement was not done
		_ = elsewhere.Settle(context.Background(), used)
	}
}

// takes reports whether permits were granted, and counts what has become of the call.
func (g *books) takes(w way, l acquirer, n int64, random *rand.Rand) bool {
	ok, err := acquire(w, l, n, random)
	return g.counts(w, ok, n, err)
}

// counts is takes for a call with an outcome.
func (g *books) counts(w way, ok bool, n int64, err error) bool {
	switch {
	case err != nil:
		g.failed.Add(1) // it never holds anything
		if w.calm && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, rratelimiter.ErrNoAnswer) {
			g.Errorf("acquire %d: %v", n, err)
		}
	case !ok:
		g.refused.Add(1)
	default:
		g.granted.Add(1)
	}
	return ok && err == nil
}

// An acquirer is a RateLimiter or a Group.
type acquirer interface {
	TryAcquire(ctx context.Context, permits int64, timeout time.Duration) (bool, error)
	Acquire(ctx context.Context, permits int64) error
	Allow(ctx context.Context, permits int64) (rratelimiter.Result, error)
}

// acquire asks for permits in one of the ways there are; many leave before they are answered.
func acquire(w way, l acquirer, n int64, random *rand.Rand) (bool, error) {
	short := w.slow * time.Duration(random.IntN(60_000)) * time.Microsecond
	if random.IntN(3) == 0 {
		short /= 100 // while the request is on its way
	}
	ctx, cancel := context.WithTimeout(context.Background(), short)
	defer cancel()
	switch random.IntN(6) {
	case 0:
		return l.TryAcquire(context.Background(), n, short)
	case 1:
		err := l.Acquire(ctx, n)
		return err == nil, err
	case 2:
		r, err := l.Allow(ctx, n)
		return r.Allowed, err
	case 3:
		return l.TryAcquire(ctx, n, time.Hour)
	case 4:
		return l.TryAcquire(ctx, n, 0)
	default:
		return l.TryAcquire(context.Background(), n, 0) // it does not leave
	}
}

// giveBack releases a stake. From the moment when it is asked for it is unowned.
// After an error it is unknown whether the stake is out.
func (g *books) giveBack(w way, a *account, s stake, random *rand.Rand) {
	g.insists(w, a, s.n, random, func(ctx context.Context) error { return s.l.Release(ctx, s.n) })
}

// insists is giveBack by a call that gives n permits back.
func (g *books) insists(w way, a *account, n int64, random *rand.Rand, call func(context.Context) error) {
	g.ops.Add(-1)
	ctx := context.Background()
	if w.leave {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.slow*time.Duration(100+random.IntN(20_000))*time.Microsecond)
		defer cancel()
	}
	a.unknown.Add(n)
	a.held.Add(-n)
	if err := call(ctx); err != nil {
		g.doubtful.Add(1)
		return
	}
	a.unknown.Add(-n)
	g.released.Add(1)
}

// settles expects that releases which may not have been done explain what is out
// and unowned. It waits until the background has done its work: a request that the network
// delivers late may take permits once more, which are withdrawn after that.
func (g *books) settles(when string) {
	g.Helper()
	const patience, stays = 15 * time.Second, 300 * time.Millisecond
	for start, right := time.Now(), time.Now(); ; time.Sleep(5 * time.Millisecond) {
		var wrong []string
		for _, a := range g.accounts {
			if text := a.wrong(); text != "" {
				wrong = append(wrong, text)
			}
		}
		if len(wrong) > 0 {
			right = time.Now()
		} else if time.Since(right) >= stays {
			break
		}
		if len(wrong) > 0 && time.Since(start) > patience {
			g.Errorf("%s: %q", when, wrong)
			break
		}
	}
	for _, a := range g.accounts {
		if g.Look.Exists(context.Background(), a.value).Val() == 1 { // something was granted
			a.Keeps(a.rate, a.value, a.permits)
		}
	}
}
