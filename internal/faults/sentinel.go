package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// OfSentinel are faults of a master with a replica, under sentinels. Each changes
// which of them is the master, and ends when the other one follows it.
var OfSentinel = []Fault{
	{
		Name:   "the master is killed, and its replica is promoted",
		Setup:  Setup{Kind: Sentinels},
		Errors: []string{"READONLY", "LOADING", "MASTERDOWN"},
		Break: func(ctx context.Context, r *Round) error {
			old := r.Sentinel.Master
			c := r.count(ctx, old)
			wait(ctx, broken/4)
			since := time.Now()
			r.Sentinel.Failover(r.t)
			if err := c.lost(ctx, r, since, time.Now()); err != nil {
				return err
			}
			old.RestartBehind(r.t, r.Sentinel.Master)
			return r.settled(ctx, r.Sentinel.Master, old)
		},
	},
	{
		Name:   "the master stands still, and its replica is promoted meanwhile",
		Setup:  Setup{Kind: Sentinels},
		Errors: []string{"READONLY", "LOADING", "MASTERDOWN"},
		Break: func(ctx context.Context, r *Round) error {
			old, next := r.Sentinel.Master, r.Sentinel.Replica
			since := time.Now()
			thaw := r.Sentinel.Freeze(r.t)
			err := until(ctx, func() error {
				return errors.Join(isMaster(ctx, next), r.Sentinel.Names(next))
			})
			thaw()
			// Until the sentinels tell it, the old one thinks that it is a master, and serves
			// all clients that have a connection to it.
			err = errors.Join(err, r.settled(ctx, next, old))
			r.lose(since, time.Now(), "two servers thought that they were the master")
			return err
		},
	},
}

// settled waits until the sentinels have left both servers alone for a second. Until
// then they may change the master once more, if a server is slow on a busy machine.
func (r *Round) settled(ctx context.Context, master, replica *redistest.Server) error {
	since, began, first := time.Now(), time.Now(), ""
	good := func(master, replica *redistest.Server) error {
		return errors.Join(isMaster(ctx, master), follows(ctx, replica), r.Sentinel.Names(master))
	}
	last := ""
	err := until(ctx, func() error {
		epoch, err := r.Sentinel.Epoch()
		if first == "" {
			first = epoch
		}
		last = epoch
		err = errors.Join(err, good(master, replica))
		if err != nil && good(replica, master) == nil {
			master, replica = replica, master
		}
		switch {
		case err != nil:
			since = time.Now()
		case time.Since(since) < time.Second:
			err = errors.New("not for a second yet")
		}
		return err
	})
	if r.Sentinel.Master, r.Sentinel.Replica = master, replica; last != first {
		r.lose(began, time.Now(), "the sentinels changed the master once more")
	}
	return err
}

// isMaster returns nil if the server calls itself a master.
func isMaster(ctx context.Context, s *redistest.Server) error {
	return replication(ctx, s, "role:master")
}

// follows returns nil if the server is a replica and has its copy.
func follows(ctx context.Context, s *redistest.Server) error {
	return replication(ctx, s, "role:slave", "master_link_status:up")
}

// replication returns nil if the server says all that of itself.
func replication(ctx context.Context, s *redistest.Server, says ...string) error {
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, ReadTimeout: time.Second})
	defer rdb.Close()
	info, err := rdb.Info(ctx, "replication").Result()
	for _, text := range says {
		if err == nil && !strings.Contains(info, text) {
			err = fmt.Errorf("%s does not say %s", s.Addr, text)
		}
	}
	return err
}
