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
			old.Restart(r.t)
			return nil // the sentinels make it a replica when they see it: some 10 s later
		},
	},
	{
		Name:   "the master stands still, and its replica is promoted meanwhile",
		Setup:  Setup{Kind: Sentinels},
		Errors: []string{"READONLY", "LOADING", "MASTERDOWN"},
		Break: func(ctx context.Context, r *Round) error {
			old, next := r.Sentinel.Master, r.Sentinel.Replica
			since := time.Now()
			thaw := old.Freeze(r.t)
			err := until(ctx, func() error { return isMaster(ctx, next) })
			thaw()
			// Until the sentinels tell it, the old one thinks that it is a master, and whoever
			// has a connection to it is served there.
			err = errors.Join(err, until(ctx, func() error { return follows(ctx, old) }))
			r.lose(since, time.Now(), "two servers thought that they were the master")
			r.Sentinel.Master, r.Sentinel.Replica = next, old
			return err
		},
	},
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
