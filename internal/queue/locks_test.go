package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/back"
	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/request"
	"github.com/redisson-go/rratelimiter/internal/wire"
	"github.com/redisson-go/rratelimiter/internal/work"
	"github.com/redisson-go/rratelimiter/pubsub"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// Callers stand in the lines of limiters in any order, while other callers ask for permits and look at all
// queues: no two of them wait for each other.
func TestLocksAreTakenInOneOrder(t *testing.T) {
	rdb := redistest.MiniClient(t, redistest.Mini(t))
	runner, pool, plain := redisx.NewRunner(rdb), work.New(), &wire.Layouts[wire.Bc0I16]
	runner.Base = pool.Context()
	source := request.NewSource(request.Config{
		ID: "id", MapName: func(name string) string { return name },
		Runner: runner, Plain: plain, Layout: plain.ForClient(),
	})
	hub := pubsub.New(rdb)
	r := NewRegistry(Config{
		Runner: &source.Runner, Pool: pool, Back: back.NewList(pool.Go), Hub: hub, Waits: func(string) {},
	})
	const limiters, members = 100, 8
	targets := make([]*request.Target, limiters)
	for i := range targets {
		targets[i] = &request.Target{}
		targets[i].Init(source, "name", fmt.Sprint(i), nil)
		rate := request.Rate{Permits: 3, Interval: time.Second}
		redistest.Must(targets[i].SetRate(t.Context(), request.Change{Rate: rate}))(t)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(rand.Uint64(), 1))
			for range redistest.Rounds(t, 200) {
				of := random.Perm(limiters)[:members]
				mine, permits := make([]*request.Target, members), make([]int64, members)
				for i, n := range of {
					mine[i], permits[i] = targets[n], 1
				}
				places := r.Stand(mine, permits, nil, time.Now())
				places.ClaimTurn()
				r.Waiting()
				places.Leave()
				ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				_, _ = r.Ask(ctx, mine[0], Want{Permits: 1, Timeout: time.Millisecond})
				cancel()
			}
		})
	}
	all.Wait()
	pool.Cancel(failure.ErrClosed)
	r.Close()
	hub.Close()
	pool.Wait()
}
