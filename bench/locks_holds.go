package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/pause"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

type lockHold struct {
	from, to time.Time
	caller   int // noCaller: unknown
}

// noCaller is the caller of a hold in Java.
const noCaller = -1

// A handing is how holds followed one another.
type handing struct {
	gaps         []time.Duration // from the begin of an unlock until the next caller had the lock
	others       int             // of these, how many callers were not those before
	took         time.Duration   // from the first hold to the last
	callersKnown bool            // false for threads of Java
}

// add adds how the holds of a crowd followed one another.
func (h *handing) add(holds []lockHold) {
	inOrder(holds)
	for i := 1; i < len(holds); i++ {
		h.gaps = append(h.gaps, holds[i].from.Sub(holds[i-1].to))
		if holds[i].caller != holds[i-1].caller {
			h.others++
		}
	}
	if len(holds) > 0 {
		h.took += holds[len(holds)-1].from.Sub(holds[0].from)
		h.callersKnown = holds[0].caller != noCaller
	}
}

// A lockSample is what a batch showed, for each hand-over: a crowd of n holds has n-1.
type lockSample struct {
	P50, P99  num // µs from the begin of an unlock until the next caller has the lock
	PerSecond num
	Others    num // the part of them that went to another caller, NaN if it is not known
	Scripts   num // script calls
	CPU       num // µs of the process of Redis, without the work of the hold
}

func lockP50(s lockSample) num { return s.P50 }

func (h *handing) sample(used usage) lockSample {
	n := num(max(1, len(h.gaps)))
	took := spreadOf(h.gaps)
	s := lockSample{
		took.P50, took.P99, num(len(h.gaps)) / num(cmp.Or(h.took, 1).Seconds()), num(math.NaN()),
		used.scripts().calls / n, used.cpu * 1e6 / n,
	}
	if h.callersKnown {
		s.Others = num(h.others) / n
	}
	return s
}

// A lockShare is what callers of Go and threads of Java had of a lock that all want, while both wanted it.
type lockShare struct {
	Go, Java, PerSecond    num // holds
	Share                  num // the part that Java had
	Least                  num // of the side that had less: its part by what is due, a half
	Fewest, Most           num // holds of one caller of Go
	GoWithout, JavaWithout num // ms, the longest time that no caller of a side had it
}

// A lockBeside has the medians of all rounds, and the worst of them for who had less.
type lockBeside struct {
	Callers int // of each side
	lockShare
}

const besideCallers = 32

// beside lets Go and Java share a lock, as often as there are rounds: Java so many holds, which last longer
// than Go's time.
func (a *lockArena) beside(ctx context.Context) *lockBeside {
	golang := a.goRun(lockEntrants[0], 1, a.server.Addr)
	java := a.entrantRun(ctx, lockEntrants[len(lockEntrants)-1], 1, a.server.Addr)
	var all []lockShare
	least := num(1)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(a.rounds)*lockPatience)
	defer cancel()
	for range a.rounds {
		c := lockCrowd{1, besideCallers, amount(a.scope, 250, 20), redistest.Name(a), time.Time{}}
		var both sync.WaitGroup
		var ofJava []lockHold
		var err2 error
		both.Go(func() { ofJava, err2 = java(ctx, c) })
		until := time.Now().Add(amount(a.scope, 4*time.Second, 300*time.Millisecond))
		// More rounds than there is time for.
		ofGo, err := golang(ctx, lockCrowd{1, besideCallers, 1 << 20, c.name, until})
		both.Wait()
		must(errors.Join(err, err2, c.inside(ctx, a.admin, len(ofGo)+len(ofJava))))
		one := shareOf(ofGo, ofJava)
		all, least = append(all, one), min(least, one.Least)
	}
	b := &lockBeside{besideCallers, medians(all)}
	b.Least = least
	return b
}

// shareOf counts the holds while both sides wanted the lock. Neither may be without any.
func shareOf(golang, java []lockHold) (s lockShare) {
	if len(golang) == 0 || len(java) == 0 {
		return s
	}
	inOrder(golang)
	inOrder(java)
	from, to := golang[0].from, golang[len(golang)-1].from
	if other := java[0].from; other.After(from) {
		from = other
	}
	if other := java[len(java)-1].from; other.Before(to) {
		to = other
	}
	golang, java = within(golang, from, to), within(java, from, to)
	of := make([]num, besideCallers)
	for _, h := range golang {
		of[h.caller]++
	}
	s.Go, s.Java, s.Fewest, s.Most = num(len(golang)), num(len(java)), slices.Min(of), slices.Max(of)
	s.GoWithout, s.JavaWithout = without(golang, from, to), without(java, from, to)
	s.PerSecond, s.Share = (s.Go+s.Java)/num(to.Sub(from).Seconds()), s.Java/(s.Go+s.Java)
	s.Least = 2 * min(s.Share, 1-s.Share)
	return s
}

func inOrder(holds []lockHold) {
	slices.SortFunc(holds, func(a, b lockHold) int { return a.from.Compare(b.from) })
}

func within(holds []lockHold, from, to time.Time) []lockHold {
	return slices.DeleteFunc(holds, func(h lockHold) bool { return h.from.Before(from) || h.from.After(to) })
}

// without returns the ms of the longest time in a span in which no hold began.
func without(holds []lockHold, from, to time.Time) (longest num) {
	for _, h := range append(holds, lockHold{from: to}) {
		longest = max(longest, millis(h.from.Sub(from)))
		from = h.from
	}
	return longest
}

type locksHeld struct {
	Locks int
	Lease string
	Rows  []lockHeld
}

// A lockHeld is what it costs to hold many locks for long: what is asked of Redis each second.
type lockHeld struct {
	Name              string
	Scripts, Commands num // commands: with those within scripts
	CPU               num // per cent of a core
}

func heldLoad(s *scope) (locks int, lease time.Duration) {
	return amount(s, 10_000, 100), amount(s, lockLease, 3*time.Second)
}

// holdWorkers are who takes the locks. Each is a thread, in Java.
const holdWorkers = 16

type holder struct {
	name  string
	admin *redis.Client
	take  func(ctx context.Context, worker int, name string) error
}

// measureHeld measures all at the same time, each on a server of its own: a lock that is held asks for next
// to nothing.
func measureHeld(ctx context.Context, s *scope, peer *javapeer.Peer) *locksHeld {
	locks, lease := heldLoad(s)
	ctx, cancel := context.WithTimeout(ctx, lease+2*lockPatience) // the locks are taken first
	defer cancel()
	var holders []*holder
	for _, e := range lockEntrants {
		if e.in&inHeld == 0 {
			continue
		}
		holders = append(holders, newHolder(ctx, s, e, peer))
	}
	d := &locksHeld{locks, lease.String(), make([]lockHeld, len(holders))}
	must(inParallel(len(holders), len(holders), func(i int) (err error) {
		if d.Rows[i], err = holders[i].measure(ctx, locks, lease); err != nil {
			err = fmt.Errorf("%s: %w", holders[i].name, err)
		}
		return err
	}))
	return d
}

func newHolder(ctx context.Context, s *scope, e lockEntrant, peer *javapeer.Peer) *holder {
	server := redistest.Start(s)
	_, lease := heldLoad(s)
	h := &holder{name: e.name, admin: server.Admin()}
	if e.made != nil {
		lock := get(e.made(s, server.Client(s), lease))
		h.take = func(ctx context.Context, _ int, name string) error {
			_, err := lock(ctx, name)
			return err
		}
		return h
	}
	client := redistest.Name(s)
	h.take = func(ctx context.Context, worker int, name string) error {
		return peer.Lock(client, name, javapeer.Reentrant).Lock(ctx, fmt.Sprint("holder ", worker))
	}
	get(peer.Connect(ctx, client, server.Addr, javapeer.LockWatchdogTimeout(lease)))
	return h
}

// measure takes all locks and watches Redis for a lease. Then all must still be held: a lock that was not
// renewed meanwhile is gone.
func (h *holder) measure(ctx context.Context, locks int, lease time.Duration) (lockHeld, error) {
	err := inParallel(holdWorkers, holdWorkers, func(w int) (err error) {
		for i := w; i < locks && err == nil; i += holdWorkers {
			err = h.take(ctx, w, "held:"+strconv.Itoa(i))
		}
		return err
	})
	if err != nil {
		return lockHeld{}, err
	}
	used, err := usageDuring(ctx, h.admin, func() error { return pause.For(ctx, lease) })
	n, err2 := h.admin.DBSize(ctx).Result()
	if err = errors.Join(err, err2); err == nil && n < int64(locks) {
		err = fmt.Errorf("%d of %d locks are still held", n, locks)
	}
	seconds := num(lease.Seconds())
	calls := used.scripts().calls
	return lockHeld{h.name, calls / seconds, used.all() / seconds, 100 * used.cpu / seconds}, err
}
