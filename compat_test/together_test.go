package compat_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/compare"
	"github.com/redisson-go/rratelimiter/internal/grants"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

var _ = Describe("PER_CLIENT", func() { perClientSpecs(newest) })

// perClientSpecs are the specs of PER_CLIENT limits beside a generation.
func perClientSpecs(g *generation) {
	javas, gos := g.javas, g.gos

	It("keeps two Java instances and two Go clients apart", func(ctx SpecContext) {
		name := redistest.Name(GinkgoT())
		yes(javas[0].limiter(name).TrySetRate(ctx, config(perClient, 3, minute)))
		sides := []side{javas[0], gos[0], javas[1], gos[1]}
		for i, s := range sides {
			l := s.limiter(name)
			is(3)(l.AvailablePermits(ctx))
			yes(l.TryAcquire(ctx, 1, 0))
			yes(l.TryAcquire(ctx, 2, 0))
			no(l.TryAcquire(ctx, 1, 0))
			k := keysOf(name).by(s, s).of(s.ID())
			Expect(k.state(ctx)).To(Equal(state{"0", []int64{1, 2}}), "%v %d", s, i)
		}
		left := []int64{0, 0, 0, 2}
		done(gos[1].limiter(name).Release(ctx, 2))
		if g.since(sinceRelease) {
			done(javas[1].limiter(name).Release(ctx, 1))
			left[2] = 1
		}
		for i, n := range left {
			is(n)(sides[i].limiter(name).AvailablePermits(ctx))
		}
		Expect(look.Exists(ctx, keysOf(name).value, keysOf(name).permits).Val()).To(BeZero())
	})

	It("lets a Go client follow a rate that Java changes (B9)", func(ctx SpecContext) {
		name := redistest.Name(GinkgoT())
		yes(javas[0].limiter(name).TrySetRate(ctx, config(perClient, 10, minute)))
		l := gos[0].limiter(name)
		yes(l.TryAcquire(ctx, 4, 0))
		done(javas[0].limiter(name).SetRate(ctx, config(perClient, 20, minute), false))
		yes(l.TryAcquire(ctx, 16, 0))
		no(l.TryAcquire(ctx, 1, 0))
		done(javas[0].limiter(name).SetRate(ctx, config(perClient, 5, minute), false))
		no(l.TryAcquire(ctx, 1, 0))
		k := keysOf(name).by(gos[0], gos[0]).of(gos[0].ID())
		Expect(k.state(ctx)).To(Equal(state{"-15", []int64{4, 16}}))
	})
}

// steps is a life of a limiter at a rate of 10: permits taken (above 0) and given
// back (below 0), whether they are granted, and what is left.
var steps = []struct {
	permits int64
	granted bool
	left    int64
}{
	{1, true, 9}, {3, true, 6}, {7, false, 6}, {6, true, 0}, {1, false, 0},
	{-2, true, 2}, {2, true, 0}, {-1, true, 1}, {1, true, 0},
}

var _ = Describe("State that one side alone has written", func() { ledgerSpecs(newest) })

// ledgerSpecs are the specs of what is left after every step beside a generation.
// If its Java cannot release, Go does.
func ledgerSpecs(g *generation) {
	DescribeTable("reads right on the other after every step", func(ctx SpecContext, actor, see side) {
		p := newPair(actor, see, redistest.Name(GinkgoT()))
		yes(p.acts.TrySetRate(ctx, config(overall, 10, minute)))
		releases := p.acts
		if !p.actor.has(sinceRelease) {
			releases = p.sees
		}
		for _, s := range steps {
			if s.permits < 0 {
				done(releases.Release(ctx, -s.permits))
			} else {
				Expect(p.acts.TryAcquire(ctx, s.permits, 0)).To(Equal(s.granted))
			}
			is(s.left)(p.sees.AvailablePermits(ctx))
			Expect(p.keys.state(ctx).value).To(Equal(strconv.FormatInt(s.left, 10)))
		}
	}, g.directions())

	DescribeTable("reads right when permits come back", func(ctx SpecContext, actor, see side) {
		p := newPair(actor, see, redistest.Name(GinkgoT()))
		interval := g.interval(500 * time.Millisecond)
		yes(p.acts.TrySetRate(ctx, config(overall, 10, interval)))
		for range 3 {
			yes(p.acts.TryAcquire(ctx, 6, time.Second))
			start := time.Now()
			yes(p.acts.TryAcquire(ctx, 4, time.Second))
			early, err := p.sees.TryAcquire(ctx, 10, 0)
			done(err)
			if early { // a busy machine may let an interval pass
				Expect(time.Since(start)).To(BeNumerically(">=", interval-time.Millisecond))
			}
			Eventually(ctx, func() (int64, error) { return p.sees.AvailablePermits(ctx) }).
				WithTimeout(2 * time.Second).WithPolling(5 * time.Millisecond).Should(Equal(int64(10)))
		}
	}, g.directions())
}

var _ = Describe("What stops Java is healed by Go", func() { healingSpecs(newest) })

// healingSpecs are the specs of faults of Java that end when Go uses the limiter.
func healingSpecs(g *generation) {
	javas, gos := g.javas, g.gos

	It("records lost, value left (B2)", func(ctx SpecContext) {
		name := redistest.Name(GinkgoT())
		java, k := javas[0].limiter(name), keysOf(name).by(javas[0], gos[0])
		yes(java.TrySetRate(ctx, config(overall, 5, minute)))
		yes(java.TryAcquire(ctx, 4, 0))
		done(look.Del(ctx, k.permits).Err())
		_, err := java.TryAcquire(ctx, 2, 0)
		Expect(compare.ErrorKind(err)).To(ContainSubstring("arithmetic on a nil value"))
		yes(gos[0].limiter(name).TryAcquire(ctx, 1, 0))
		Expect(k.state(ctx)).To(Equal(state{"4", []int64{1}}))
		yes(java.TryAcquire(ctx, 4, 0))
		no(java.TryAcquire(ctx, 1, 0))
	})

	if g.since(sinceRelease) {
		It("more available than the rate (B3)", func(ctx SpecContext) {
			name := redistest.Name(GinkgoT())
			java, g := javas[0].limiter(name), gos[0].limiter(name)
			yes(java.TrySetRate(ctx, config(overall, 10, 500*time.Millisecond)))
			yes(java.TryAcquire(ctx, 5, 0))
			done(java.Release(ctx, 5))
			Eventually(ctx, func() (int64, error) { return java.AvailablePermits(ctx) }).
				WithTimeout(2 * time.Second).WithPolling(5 * time.Millisecond).Should(Equal(int64(15)))
			is(10)(g.AvailablePermits(ctx))
			yes(g.TryAcquire(ctx, 10, 0))
			Expect(keysOf(name).by(gos[0], gos[0]).state(ctx)).To(Equal(state{"0", []int64{10}}))
		})
	}

	It("a value below zero is also debt to Java (B11)", func(ctx SpecContext) {
		name := redistest.Name(GinkgoT())
		java, g := javas[0].limiter(name), gos[0].limiter(name)
		yes(java.TrySetRate(ctx, config(overall, 10, 700*time.Millisecond)))
		yes(java.TryAcquire(ctx, 8, 0))
		yes(g.UpdateRate(ctx, config(overall, 5, 700*time.Millisecond), true))
		Expect(keysOf(name).by(javas[0], javas[0]).state(ctx)).To(Equal(state{"-3", []int64{8}}))
		no(java.TryAcquire(ctx, 1, 0))
		yes(java.TryAcquire(ctx, 5, 2*time.Second))
		no(g.TryAcquire(ctx, 1, 0))
	})

	It("a lost value (B19)", func(ctx SpecContext) {
		name := redistest.Name(GinkgoT())
		java, g := javas[0].limiter(name), gos[0].limiter(name)
		yes(java.TrySetRate(ctx, config(overall, 10, minute)))
		yes(java.TryAcquire(ctx, 7, 0))
		done(look.Del(ctx, keysOf(name).value).Err())
		no(g.TryAcquire(ctx, 4, 0))
		yes(java.TryAcquire(ctx, 3, 0))
		no(java.TryAcquire(ctx, 1, 0))
	})

	It("the zero records of Java (B12)", func(ctx SpecContext) {
		name := redistest.Name(GinkgoT())
		java, g := javas[0].limiter(name), gos[0].limiter(name)
		yes(java.TrySetRate(ctx, config(overall, 2, minute)))
		yes(java.TryAcquire(ctx, 0, 0))
		yes(java.TryAcquire(ctx, 2, 0))
		r, err := gos[0].c.RateLimiter(name).Allow(ctx, 1)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Allowed).To(BeFalse())
		is(0)(g.AvailablePermits(ctx))
	})
}

var _ = Describe("Names", func() { nameSpecs(newest) })

// nameSpecs are the specs of names beside a generation.
func nameSpecs(g *generation) {
	It("are mapped alike", func(ctx SpecContext) {
		_, err := g.peer.Connect(ctx, "prefixed", server.Addr, javapeer.NamePrefix("app:"))
		Expect(err).NotTo(HaveOccurred())
		prefix := func(n string) string { return "app:" + n }
		c := rratelimiter.New(server.Client(GinkgoT()),
			writing(g.beside()), rratelimiter.WithNameMapper(prefix))
		DeferCleanup(c.Close)
		plain := redistest.Name(GinkgoT())
		for _, name := range []string{plain, "u:{" + plain + "-2}:rl", plain + "-3 é"} {
			java, g := (&javaSide{client: "prefixed", from: g}).limiter(name), c.RateLimiter(name)
			yes(java.TrySetRate(ctx, config(overall, 5, minute)))
			yes(java.TryAcquire(ctx, 2, 0))
			yes(g.TryAcquire(ctx, 3, 0))
			no(java.TryAcquire(ctx, 1, 0))
			Expect(g.Name()).To(Equal(name))
			Expect(look.Exists(ctx, "app:"+name).Val()).To(Equal(int64(1)))
		}
	})
}

var _ = Describe("Both at once", func() { togetherSpecs(newest, 50, time.Second, 5*time.Second, 0.95) })

// togetherSpecs is the spec of Go and a generation that work on one limiter for
// some time. Together they must get at least a part of what the machine lets them take.
func togetherSpecs(g *generation, rate int, interval, duration time.Duration, part float64) {
	javas, gos := g.javas, g.gos

	It("never get more than the rate in any interval, and get most of it", func(ctx SpecContext) {
		const callers = 4
		name := redistest.Name(GinkgoT())
		yes(gos[0].limiter(name).TrySetRate(ctx, config(overall, int64(rate), interval)))
		yes(gos[0].limiter(name).TryAcquire(ctx, 1, 0)) // there are keys to watch
		watch := watchState(ctx, keysOf(name), int64(rate))

		var log grants.Log
		var group sync.WaitGroup
		start, running := time.Now(), whileRunning()
		// Java tries every ms. If it waited, its timer would fire too late to get
		// anything beside Go.
		group.Go(func() {
			defer GinkgoRecover()
			granted, _, err := g.peer.Limiter(javas[0].client, name).Hammer(ctx, javapeer.HammerOptions{
				Permits: 1, Threads: callers, Duration: duration,
				Clients: []string{javas[0].client, javas[1].client}})
			done(err)
			noteJava(&log, granted)
		})
		for i := range callers {
			group.Go(func() {
				defer GinkgoRecover()
				hammer(ctx, gos[i%2].c.RateLimiter(name), duration, &log)
			})
		}
		group.Wait()
		elapsed, ran := time.Since(start), running()

		Expect(watch()).To(BeNumerically(">", 10*int(duration/time.Second)),
			"looks at the keys, each of which was right")
		done(grants.Limit{Rate: int64(rate), Interval: interval}.Check(&log))
		perSide := map[string]int{}
		for _, e := range log.Entries() {
			perSide[e.Process]++
		}
		allowed := rate * (int(elapsed/interval) + 1)
		least := int(part * ran * float64(rate) * float64(duration/interval))
		Expect(perSide["Go"]+perSide["Java"]).To(BeNumerically(">=", least),
			"of %d that the limit allows", allowed)
		AddReportEntry("granted", perSide)
		Expect(perSide["Go"]).To(BeNumerically(">", 0))
		Expect(perSide["Java"]).To(BeNumerically(">", 0))
	}, SpecTimeout(time.Minute))
}

var _ = Describe("Releases of several processes beside Java", func() {
	It("never free permits that others count", func(ctx SpecContext) {
		const rate, interval, duration = 40, 500 * time.Millisecond, 3 * time.Second
		name := redistest.Name(GinkgoT())
		yes(gos[0].limiter(name).TrySetRate(ctx, config(overall, rate, interval)))
		var log grants.Log
		var group sync.WaitGroup
		group.Go(func() { javaHammers(ctx, name, duration, &log) })
		for i := range 3 {
			c := rratelimiter.New(server.Client(GinkgoT()))
			DeferCleanup(c.Close)
			group.Go(func() {
				defer GinkgoRecover()
				process := fmt.Sprint("Go ", i)
				l := c.RateLimiter(name)
				takesAndReleases(ctx, l, duration, func(from, since time.Time, permits int64) {
					now := time.Now()
					log.Add(grants.Entry{Process: process, Start: from, End: now, Permits: permits})
					if permits < 0 && now.Sub(since) >= interval {
						// Its records may have expired. Then it takes records of other callers.
						log.Lose(grants.Loss{To: now, Since: from, Why: "a release came late"})
					}
				})
			})
		}
		group.Wait()
		done(grants.Limit{Rate: rate, Interval: interval}.Check(&log))
		count := map[string]int{}
		for _, e := range log.Entries() {
			count[fmt.Sprint(e.Process, " gives ", e.Permits < 0)]++
		}
		// Each process was granted permits, and those of Go gave some back.
		Expect(count).To(HaveLen(7), "%v", count)
	}, SpecTimeout(time.Minute))
})

// takesAndReleases takes permits until duration is over, and gives some of those that still
// count back, now at once and now late. It notes when each call began, and since when it has the permits.
func takesAndReleases(ctx context.Context, l *rratelimiter.RateLimiter, duration time.Duration,
	note func(from, since time.Time, permits int64),
) {
	type hold struct {
		since   time.Time
		permits int64
	}
	var holds []hold
	for end := time.Now().Add(duration); time.Now().Before(end); {
		if len(holds) > 0 && rand.IntN(3) == 0 {
			i := rand.IntN(len(holds))
			// It still counts when Redis gets it, if the machine does not stall.
			if from := time.Now(); from.Sub(holds[i].since) < 250*time.Millisecond {
				done(l.Release(ctx, holds[i].permits))
				note(from, holds[i].since, -holds[i].permits)
			}
			holds = slices.Delete(holds, i, i+1)
			continue
		}
		from, permits := time.Now(), 1+rand.Int64N(6)
		ok, err := l.TryAcquire(ctx, permits, 10*time.Millisecond)
		if !errors.Is(err, rratelimiter.ErrNoAnswer) {
			done(err)
		}
		if ok {
			note(from, from, permits)
			holds = append(holds, hold{from, permits})
		}
	}
}

// javaHammers is hammer by two threads of Java.
func javaHammers(ctx context.Context, name string, duration time.Duration, log *grants.Log) {
	defer GinkgoRecover()
	granted, _, err := peer.Limiter(javas[0].client, name).Hammer(ctx, javapeer.HammerOptions{
		Permits: 1, Threads: 2, Duration: duration, Clients: []string{javas[0].client}})
	done(err)
	noteJava(log, granted)
}

// noteJava notes grants of Java, each between two times in whole ms.
func noteJava(log *grants.Log, granted [][2]time.Time) {
	for _, g := range granted {
		end := g[1].Add(time.Millisecond)
		log.Add(grants.Entry{Process: "Java", Start: g[0], End: end, Permits: 1, Dated: true})
	}
}

// hammer acquires permits one by one until duration is over, and notes the grants. Where the machine
// stands still for longer than a timeout, a call has no reply: then no caller counts on its permit.
func hammer(ctx context.Context, l *rratelimiter.RateLimiter, duration time.Duration, log *grants.Log) {
	for end := time.Now().Add(duration); time.Now().Before(end); {
		from := time.Now()
		ok, err := l.TryAcquire(ctx, 1, time.Second)
		if !errors.Is(err, rratelimiter.ErrNoAnswer) {
			done(err)
		}
		if ok {
			log.Add(grants.Entry{Process: "Go", Start: from, End: time.Now(), Permits: 1})
		}
	}
}

// watchState looks at a limiter's keys until the function that it returns is
// called; that one returns how often it looked. At any moment what is left and
// what is outstanding must add up to the rate, and neither may be below zero:
// then no more than the rate is ever granted. The times of the records cannot
// prove that: Java sets the time of a record before it sends the record.
func watchState(ctx context.Context, k keys, rate int64) func() int {
	stop := make(chan struct{})
	looks := 0
	var group sync.WaitGroup
	group.Go(func() {
		defer GinkgoRecover()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			left, records := atOnce(ctx, k)
			Expect(left).To(BeNumerically(">=", 0))
			Expect(left + records).To(Equal(rate))
			looks++
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	})
	return func() int {
		close(stop)
		group.Wait()
		return looks
	}
}

// atOnce reads the permits left and outstanding at one moment.
func atOnce(ctx context.Context, k keys) (left, outstanding int64) {
	GinkgoHelper()
	tx := look.TxPipeline()
	value, records := tx.Get(ctx, k.value), tx.ZRange(ctx, k.permits, 0, -1)
	_, err := tx.Exec(ctx)
	done(err)
	left, err = value.Int64()
	done(err)
	for _, m := range records.Val() {
		n, err := wire.Permits(m)
		done(err)
		outstanding += n
	}
	return left, outstanding
}
