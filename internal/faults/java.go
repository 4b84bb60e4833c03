package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redisson-go/rratelimiter/internal/grants"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A javaSide has the threads of Java: half of them wait for their permits, the others
// try again soon.
type javaSide struct {
	crowds []*javapeer.Crowd // none if Go is alone
	log    *grants.Log

	mu      sync.Mutex
	last    map[string]time.Time // when the last grant of each thread was asked for; guarded by mu
	granted int
	errors  map[string]int
	stuck   int
}

// javaPermits is how many permits a call of Java asks for.
const javaPermits = 2

func (r *Round) startJava() *javaSide {
	j := &javaSide{log: r.Log, last: map[string]time.Time{}, errors: map[string]int{}}
	if r.setup.Alone {
		return j
	}
	l := r.peer.Limiter(r.javas[0], r.Name)
	for i := range 2 {
		o := javapeer.CrowdOptions{Permits: javaPermits, Threads: javaCallers / 2, Clients: r.javas,
			Pause: 4 * time.Millisecond}
		if i == 1 {
			o.Timeout = 300 * time.Millisecond
		}
		j.crowds = append(j.crowds, redistest.Must(l.StartCrowd(r.ctx, o))(r.t))
	}
	return j
}

// end ends the threads. It returns when all have ended, or never will.
func (j *javaSide) end(ctx context.Context) error {
	errs := make([]error, len(j.crowds))
	var all sync.WaitGroup
	for i, crowd := range j.crowds {
		all.Go(func() {
			r, err := crowd.Stop(ctx)
			errs[i] = err
			j.add(i, r)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (j *javaSide) add(crowd int, r javapeer.CrowdResult) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, g := range r.Grants {
		who := fmt.Sprintf("Java %d", crowd*javaCallers/2+g.Thread)
		end := g.End.Add(time.Millisecond) // Java truncates to ms
		j.log.Add(grants.Entry{Who: who, Start: g.Start, End: end, Permits: javaPermits, Dated: true})
		j.last[who] = g.Start
		j.granted += javaPermits
	}
	for kind, n := range r.Errors {
		j.errors[kind] += n
	}
	j.stuck += r.Stuck
}

// servedSince returns nil if some thread got permits that it asked for after a time.
func (j *javaSide) servedSince(ctx context.Context, at time.Time) error {
	if len(j.crowds) == 0 {
		return nil
	}
	for i, crowd := range j.crowds {
		r, err := crowd.Drain(ctx)
		if err != nil {
			return err
		}
		j.add(i, r)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, last := range j.last {
		if last.After(at) {
			return nil
		}
	}
	return fmt.Errorf("no thread of Java is served, exceptions %v", j.errors)
}
