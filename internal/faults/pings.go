package faults

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// pings measure how long Redis takes to answer while nothing is broken: what the
// library does there must not hold it up.
type pings struct {
	stop   context.CancelFunc
	paused atomic.Bool
	worst  atomic.Int64 // ns
	all    sync.WaitGroup
}

func (s *Stage) startPings(ctx context.Context) *pings {
	ctx, cancel := context.WithCancel(ctx)
	p := &pings{stop: cancel}
	for _, server := range s.servers() {
		p.all.Go(func() { p.ping(ctx, server) })
	}
	return p
}

func (p *pings) ping(ctx context.Context, server *redistest.Server) {
	const pause = 20 * time.Millisecond
	for ctx.Err() == nil {
		wait(ctx, pause)
		if p.paused.Load() {
			continue
		}
		start := time.Now()
		if server.Admin().Ping(ctx).Err() == nil && !p.paused.Load() {
			p.worst.Store(max(p.worst.Load(), int64(time.Since(start))))
		}
	}
}

func (p *pings) pause(paused bool) { p.paused.Store(paused) }

func (p *pings) end() time.Duration {
	p.stop()
	p.all.Wait()
	return time.Duration(p.worst.Load())
}
