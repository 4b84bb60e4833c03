package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// The twins are two servers, miniredis and Redis. Both get the same requests.
type twins struct {
	*testing.T
	random   *rand.Rand
	rdbs     [2]*redis.Client
	name     string
	typ      int
	rate     int64
	interval time.Duration
	now      int64         // Unix ms
	limiters [2][]*Limiter // of each server, by Engine
	before   []pair        // requests that were sent
	done     []string      // what was done, printed with a fault
}

// A pair is one request, for each server.
type pair struct {
	of  int // the Engine
	two [2]*request
}

// Random requests are sent to miniredis and to Redis, in any order, some of them again.
// Both reply alike and keep the same hash, records and value.
func TestServersAnswerAlike(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rdbs := [2]*redis.Client{redistest.MiniClient(t, redistest.Mini(t)), redistest.Start(t).Client(t)}
	random := rand.New(rand.NewPCG(seed, 1))
	for start, n := time.Now(), 0; time.Since(start) < 2*time.Second && !t.Failed(); n++ {
		w := &twins{T: t, random: random, rdbs: rdbs, name: fmt.Sprint("l", n), now: 1_700_000_000_000}
		w.round()
	}
}

// round uses one limiter with several Engines.
func (w *twins) round() {
	w.typ, w.rate = w.random.IntN(2), 1+w.random.Int64N(30)
	w.interval = time.Duration(1+w.random.IntN(300)) * time.Millisecond
	changes := []func(*Config){func(c *Config) { c.ID = "me" }, withClock(&w.now)}
	if w.random.IntN(3) == 0 {
		d := time.Duration(1+w.random.IntN(50)) * time.Millisecond
		changes = append(changes, func(c *Config) { c.Resolution = d })
	} else {
		format := w.random.IntN(len(wire.Layouts))
		changes = append(changes, func(c *Config) { c.Plain = &wire.Layouts[format] })
	}
	var engines []*Engine
	defer func() {
		for _, e := range engines {
			e.Close()
		}
	}()
	for j, rdb := range w.rdbs {
		for i := range 12 { // more than may stay without being swept
			e := newEngine(w.T, rdb, changes...)
			engines = append(engines, e)
			e.session.boxed = fmt.Sprintf("session:%016d", i)
			w.limiters[j] = append(w.limiters[j], e.limiter(w.name))
			first := w.limiters[0][i].engine
			// Both know the same records as their own.
			e.config.Layout, e.mark = first.config.Layout, first.mark
		}
	}
	w.sets(0)
	for range 60 {
		if !w.step() {
			return
		}
	}
}

// step does something at random, and reports whether the servers are alike after it.
func (w *twins) step() bool {
	of := w.random.IntN(1 + w.random.IntN(len(w.limiters[0])))
	switch op := w.random.IntN(14); {
	case op < 6:
		return w.send(w.acquire(of))
	case op < 9:
		n, d := w.random.Int64N(w.rate+2), w.withdrawal(of)
		w.notes("release", n, d)
		a, b := newRelease(w.limiters[0][of], n, d), newRelease(w.limiters[1][of], n, d)
		return w.send(pair{of, [2]*request{a, b}})
	case op < 11 && len(w.before) > 0:
		return w.send(w.again())
	case op < 12:
		w.now += w.random.Int64N(w.interval.Milliseconds() + 2)
		if w.random.IntN(10) == 0 {
			w.now += 60_000
		}
		w.notes("now", w.now)
	case op < 13:
		w.rate = 1 + w.random.Int64N(30)
		w.sets(w.random.IntN(3))
	default:
		w.spoils(of)
	}
	return true
}

func (w *twins) notes(what ...any) { w.done = append(w.done, fmt.Sprintln(what...)) }

// acquire returns a request of up to three runs, in line or not.
func (w *twins) acquire(of int) pair {
	var runs []run
	for range 1 + w.random.IntN(3) {
		runs = append(runs, run{1 + w.random.Int64N(w.rate+1), 1 + w.random.Int64N(4)})
		if w.random.IntN(2) == 0 {
			runs[len(runs)-1].many *= -1
		}
	}
	if w.random.IntN(2) == 0 {
		runs = []run{{runs[0].permits, 1}}
	}
	d := w.withdrawal(of)
	a, b := newAcquire(w.limiters[0][of], runs, d), newAcquire(w.limiters[1][of], runs, d)
	b.records = a.records // their names are random
	a.numbers = w.random.IntN(2) == 0
	b.numbers = a.numbers
	w.notes("acquire", runs, d)
	return pair{of, [2]*request{a, b}}
}

// withdrawal returns one for some earlier requests of a Client, or nil.
func (w *twins) withdrawal(of int) *withdrawal {
	if w.random.IntN(2) == 0 {
		return nil
	}
	kept := []int64{keptAll, w.random.Int64N(w.rate)}[w.random.IntN(2)]
	after := max(0, w.limiters[0][of].engine.requests.Load()-w.random.Int64N(4))
	return &withdrawal{after: after, kept: kept, since: time.Now()}
}

// again returns one of the last requests: sent again, or a late copy.
func (w *twins) again() pair {
	p := w.before[max(0, len(w.before)-1-w.random.IntN(4))]
	a, b := *p.two[0], *p.two[1]
	if w.random.IntN(2) == 0 {
		far := []time.Duration{-time.Hour, time.Hour}[w.random.IntN(2)] // from the interval
		start := time.Now().Add(far)
		a.ambiguous, b.ambiguous, a.start, b.start = true, true, start, start
	}
	w.notes("again, unsure:", a.ambiguous)
	return pair{p.of, [2]*request{&a, &b}}
}

// sets sets the rate: anew, with the state kept, or by the hash alone as Java does.
func (w *twins) sets(how int) {
	w.notes("rate", w.rate, how)
	for j, rdb := range w.rdbs {
		change := Change{Rate: Rate{w.typ, w.rate, w.interval, time.Hour}, KeepState: how == 1}
		err := rdb.HSet(w.Context(), w.name, "rate", w.rate).Err()
		if how < 2 {
			_, err = w.limiters[j][0].SetRate(w.Context(), change)
		}
		if err != nil {
			w.Error(err)
		}
	}
}

// spoils writes a bad text into the value or into a session.
func (w *twins) spoils(of int) {
	bad := []string{"", "1e3", "x", "-5", "99", "1e308", "7"}[w.random.IntN(7)]
	value := w.random.IntN(2) == 0
	w.notes("spoilt, the value:", value, bad)
	for j, rdb := range w.rdbs {
		if value {
			rdb.Set(w.Context(), w.limiters[j][of].Keys().Pairs[w.typ].Value, bad, 0)
		} else {
			rdb.HSet(w.Context(), w.name, w.limiters[j][of].engine.session.boxed.(string), bad+" 1 2 3")
		}
	}
}

// send sends a request to both, once, and reports whether they are alike after it.
func (w *twins) send(p pair) bool {
	// As 1e3, which is a number for the Lua of Redis and none for that of miniredis: only
	// Redis says by how much it was wrong.
	value := w.limiters[0][p.of].Keys().Pairs[w.typ].Value
	odd := strings.Contains(w.rdbs[0].Get(w.Context(), value).Val(), "e")
	var met [2]string
	for j, r := range p.two {
		rep, _, err := r.limiter.run(w.Context(), r.next())
		met[j] = fmt.Sprint(rep, err, w.state(j))
		if odd {
			met[j] = fmt.Sprint(err, w.state(j))
		}
	}
	w.before = append(w.before, p)
	if met[0] != met[1] {
		w.Errorf("miniredis: %s\nRedis: %s\nafter\n%s", met[0], met[1], strings.Join(w.done, ""))
	}
	return met[0] == met[1]
}

// state returns the keys of a server as text.
func (w *twins) state(j int) string {
	ctx, rdb, p := context.Background(), w.rdbs[j], w.limiters[j][0].Keys().Pairs[w.typ]
	return fmt.Sprintf("%q %q %q", fmt.Sprint(rdb.HGetAll(ctx, w.name).Val()), rdb.Get(ctx, p.Value).Val(),
		fmt.Sprint(rdb.ZRangeWithScores(ctx, p.Permits, 0, -1).Val()))
}
