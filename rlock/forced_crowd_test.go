package rlock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// Another process forces a lock open again and again while a crowd of three processes uses it. Each holder
// that loses the lock knows by its next renewal, every caller still has its turn, and in the end the lock
// is free.
func TestForcedUnlocksInACrowd(t *testing.T) {
	eachKind(t, func(t *testing.T, of kind) {
		const (
			processes, callers, forces = 3, 30, 300
			watchdog                   = 3 * time.Second
		)
		s, name := onRedis(t), redistest.Name(t)
		ctx := within(t)
		working, stop := context.WithCancel(ctx)
		var all sync.WaitGroup
		var passes, lost atomic.Int64
		var believers believers
		for range processes {
			locks := s.client(rlock.WithWatchdogTimeout(watchdog))
			for range (callers + processes - 1) / processes {
				all.Go(func() {
					for working.Err() == nil {
						h, err := of(locks, name).Lock(ctx)
						if err != nil {
							t.Error(err)
							return
						}
						ends := believers.begin()
						work := 3 * time.Millisecond
						if rand.IntN(10) == 0 && working.Err() == nil { // a renewal fails meanwhile
							work = watchdog / 2
						}
						count(t, hold(ctx, h, work, ends), &passes, &lost)
					}
				})
			}
		}
		other := of(s.client(), name)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		forced := 0
		for range forces {
			if must(other.ForceUnlock(ctx))(t) {
				forced++
			}
			<-tick.C
		}
		stop()
		start := time.Now()
		all.Wait()
		took := time.Since(start)
		t.Logf("%d passes, %d lost, %d forced; the last %v after the end, two holders for %v",
			passes.Load(), lost.Load(), forced, took, believers.worst)
		if lost.Load() == 0 || lost.Load() > int64(forced) {
			t.Errorf("%d holds were lost, and %d forced", lost.Load(), forced)
		}
		if worst := believers.worst; worst > watchdog/3+time.Second { // the lease ends later
			t.Errorf("two callers held it at once for %v", worst)
		}
		if took > patience/2 {
			t.Errorf("the last caller ended after %v", took)
		}
		s.free(name)
	})
}

// hold keeps a hold for the time of some work, or until it is lost, and gives it back.
func hold(ctx context.Context, h *rlock.Hold, work time.Duration, ends func()) error {
	select {
	case <-h.Context().Done():
	case <-time.After(work):
	}
	ends()
	return h.Unlock(ctx)
}

// count counts what an unlock said.
func count(t *testing.T, err error, passes, lost *atomic.Int64) {
	t.Helper()
	switch {
	case err == nil:
		passes.Add(1)
	case errors.Is(err, rlock.ErrLost):
		lost.Add(1)
	default:
		t.Error(err)
	}
}

// believers are the callers that believe they hold a lock.
type believers struct {
	mu    sync.Mutex
	since map[*time.Time]struct{} // when the next holder followed each of them; zero if none has
	worst time.Duration           // the longest that a caller has not noticed the next holder
}

// begin notes a new holder. ends notes that this holder has given the lock back, or knows that it has lost
// it.
func (b *believers) begin() (ends func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for at := range b.since {
		if at.IsZero() {
			*at = time.Now()
		}
	}
	if b.since == nil {
		b.since = map[*time.Time]struct{}{}
	}
	at := new(time.Time)
	b.since[at] = struct{}{}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.since, at)
		if !at.IsZero() {
			b.worst = max(b.worst, time.Since(*at))
		}
	}
}
