package compat_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/grants"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

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

var _ = Describe("Both at once", func() { togetherSpecs(newest, 50, time.Second, 5*time.Second) })

// togetherSpecs is the spec of Go and a generation that work on one limiter for
// some time. That they get most of the limit is for the spec of shares.
func togetherSpecs(g *generation, rate int, interval, duration time.Duration) {
	It("never get more than the rate in any interval", func(ctx SpecContext) {
		const callers = 4
		name := redistest.Name(GinkgoT())
		yes(g.gos[0].limiter(name).TrySetRate(ctx, config(overall, int64(rate), interval)))
		yes(g.gos[0].limiter(name).TryAcquire(ctx, 1, 0)) // there are keys to watch
		watch := watchState(ctx, keysOf(name), int64(rate))

		var log grants.Log
		var group sync.WaitGroup
		group.Go(func() { g.javaHammers(ctx, name, callers, duration, &log) })
		for i := range callers {
			group.Go(func() {
				defer GinkgoRecover()
				hammer(ctx, g.gos[i%2].c.RateLimiter(name), duration, &log)
			})
		}
		group.Wait()

		Expect(watch()).To(BeNumerically(">", 10*int(duration/time.Second)),
			"looks at the keys, each of which was right")
		done(grants.Limit{Rate: int64(rate), Interval: interval}.Check(&log))
		perSide := map[string]int{}
		for _, e := range log.Entries() {
			perSide[e.Process]++
		}
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
		group.Go(func() { newest.javaHammers(ctx, name, 2, duration, &log) })
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

// takesAndReleases takes permits until duration is over, and gives some of those that still count back, now
// at once and now late. They are its newest: a release of older ones would shift the rest, as Release
// documents. It notes when each call began, and since when it has the permits.
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
			last := holds[len(holds)-1]
			// It still counts when Redis gets it, if the machine does not stall.
			if from := time.Now(); from.Sub(last.since) < 250*time.Millisecond {
				done(l.Release(ctx, last.permits))
				note(from, last.since, -last.permits)
			}
			holds = holds[:len(holds)-1]
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

// javaHammers is hammer by threads of two instances of Java, which try every ms: if they waited, their timer
// would fire too late to get anything beside Go. A grant is between two times in whole ms.
func (g *generation) javaHammers(ctx context.Context, name string, threads int, duration time.Duration,
	log *grants.Log,
) {
	defer GinkgoRecover()
	granted, err := g.peer.Limiter(g.javas[0].client, name).Hammer(ctx, javapeer.HammerOptions{
		Threads: threads, Duration: duration, Clients: []string{g.javas[0].client, g.javas[1].client}})
	done(err)
	for _, at := range granted {
		end := at[1].Add(time.Millisecond)
		log.Add(grants.Entry{Process: "Java", Start: at[0], End: end, Permits: 1, Dated: true})
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

// watchState looks at a limiter's keys until the function that it returns is called; that one returns how
// often it looked. At any moment what is left and what is outstanding must add up to the rate, and neither
// may be below zero: then no more than the rate is ever granted. The times of the records cannot prove that:
// Java sets the time of a record before it sends the record.
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
