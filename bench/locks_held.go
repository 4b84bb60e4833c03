package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A lockHeld is what it costs to hold many locks for long: what is asked of Redis each
// second.
type lockHeld struct {
	Name              string
	Scripts, Commands num // commands: with those within scripts
	CPU               num // per cent of a core
}

// A lockLoad is so many locks, held for a lease.
type lockLoad struct {
	locks int
	lease time.Duration
}

// loadOf returns the load of the part.
func loadOf(s *scope) lockLoad {
	return amount(s, lockLoad{10_000, lockLease}, lockLoad{100, 3 * time.Second})
}

// measureHeld measures all at the same time, each on a server of its own: a lock that is
// held asks for next to nothing.
func measureHeld(ctx context.Context, s *scope, peer *javapeer.Peer) (*locksHeld, error) {
	load := loadOf(s)
	ctx, cancel := context.WithTimeout(ctx, load.lease+2*lockPatience) // the locks are taken first
	defer cancel()
	d := &locksHeld{Locks: load.locks, Lease: load.lease.String()}
	var holders []*holder
	for _, e := range lockEntrants {
		if e.in&inHeld != 0 {
			h, err := newHolder(ctx, s, e, peer)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.name, err)
			}
			holders = append(holders, h)
		}
	}
	d.Rows = make([]lockHeld, len(holders))
	errs := make([]error, len(holders))
	var all sync.WaitGroup
	for i, h := range holders {
		all.Go(func() { d.Rows[i], errs[i] = h.measure(ctx, load) })
	}
	all.Wait()
	return d, errors.Join(errs...)
}

// holdWorkers are who takes the locks. Each is a thread, in Java.
const holdWorkers = 16

// A holder takes and holds all locks.
type holder struct {
	name  string
	admin *redis.Client
	take  [holdWorkers]locker
}

// newHolder returns one on a server of its own.
func newHolder(ctx context.Context, s *scope, e lockEntrant, peer *javapeer.Peer) (*holder, error) {
	server, lease := redistest.Start(s), loadOf(s).lease
	h := &holder{name: e.name, admin: server.Admin()}
	if e.made != nil {
		lock, err := e.made(s, server.Client(s), lease)
		for i := range h.take {
			h.take[i] = lock
		}
		return h, err
	}
	client := redistest.Name(s)
	for i := range h.take {
		thread := redistest.Name(s)
		h.take[i] = func(ctx context.Context, name string) (func(context.Context) error, error) {
			return nil, peer.Lock(client, name, javapeer.Reentrant).Lock(ctx, thread)
		}
	}
	_, err := peer.Connect(ctx, client, server.Addr, javapeer.LockWatchdogTimeout(lease))
	return h, err
}

// measure takes all locks and watches Redis for a lease. Then all must still be held: a
// lock that was not renewed meanwhile is gone.
func (h *holder) measure(ctx context.Context, load lockLoad) (lockHeld, error) {
	var all sync.WaitGroup
	var errs [holdWorkers]error
	for w := range holdWorkers {
		all.Go(func() {
			for i := w; i < load.locks && errs[w] == nil; i += holdWorkers {
				_, errs[w] = h.take[w](ctx, "held:"+strconv.Itoa(i))
			}
		})
	}
	all.Wait()
	before, err := readUsage(ctx, h.admin)
	if err = errors.Join(append(errs[:], err)...); err != nil {
		return lockHeld{}, fmt.Errorf("%s: %w", h.name, err)
	}
	select {
	case <-time.After(load.lease):
	case <-ctx.Done():
	}
	after, err := readUsage(ctx, h.admin)
	if err != nil {
		return lockHeld{}, err
	}
	n, err := h.admin.DBSize(ctx).Result()
	if err == nil && n < int64(load.locks) {
		err = fmt.Errorf("%s: %d of %d locks are still held", h.name, n, load.locks)
	}
	used, seconds, commands := after.since(before), load.lease.Seconds(), 0.0
	for name, c := range used.commands {
		if name != "info" {
			commands += c.calls
		}
	}
	return lockHeld{
		h.name, num(used.scripts().calls / seconds), num(commands / seconds), num(100 * used.cpu / seconds),
	}, err
}
