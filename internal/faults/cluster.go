package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/grants"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// moved are replies while nodes of a cluster change their places.
var moved = []string{"CLUSTERDOWN", "MOVED", "ASK", "TRYAGAIN", "READONLY", "LOADING", "MASTERDOWN"}

// OfCluster are faults of three masters with a replica each. They leave the cluster
// as whole as it was, with other masters perhaps.
var OfCluster = []Fault{
	{Name: "cluster: the master is killed", Setup: Setup{Kind: Clustered}, Errors: moved,
		Break: func(ctx context.Context, r *Round) error {
			old, err := r.owner(ctx)
			if err != nil {
				return err
			}
			c := r.count(ctx, old)
			wait(ctx, broken/4)
			since := time.Now()
			old.Stop()
			err = r.otherOwner(ctx, old)
			if err = errors.Join(err, c.lost(ctx, r, since, time.Now())); err != nil {
				return err
			}
			old.Restart(r.t)
			return until(ctx, func() error { return follows(ctx, old) })
		}},
	{Name: "cluster: the master stands still, and its replica is promoted", Setup: Setup{Kind: Clustered},
		Errors: moved,
		Break: func(ctx context.Context, r *Round) error {
			old, err := r.owner(ctx)
			if err != nil {
				return err
			}
			c := r.count(ctx, old)
			wait(ctx, broken/4)
			since := time.Now()
			thaw := old.Freeze(r.t)
			err = r.otherOwner(ctx, old)
			thaw()
			err = errors.Join(err, until(ctx, func() error { return follows(ctx, old) }))
			// What waited in its sockets it still answers, before it hears that it is none.
			r.lose(since, time.Now(), "two nodes thought that they were the master")
			return errors.Join(err, c.lost(ctx, r, since, time.Now()))
		}},
	{Name: "cluster: the replica takes over", Setup: Setup{Kind: Clustered}, Errors: moved, Break: takeOver},
	{Name: "cluster: the slot moves", Setup: Setup{Kind: Clustered}, Errors: moved,
		Break: func(ctx context.Context, r *Round) error { return r.moves(ctx, 0) }},
	{Name: "cluster: the slot moves slowly", Setup: Setup{Kind: Clustered}, Errors: moved,
		Break: func(ctx context.Context, r *Round) error { return r.moves(ctx, broken/3) }},
	{Name: "cluster: scripts are flushed", Setup: Setup{Kind: Clustered},
		Break: func(ctx context.Context, r *Round) error {
			return r.onOwner(ctx, 10, func(rdb *redis.Client) error { return rdb.ScriptFlush(ctx).Err() })
		}},
	{Name: "cluster: connections are killed", Setup: Setup{Kind: Clustered},
		Break: func(ctx context.Context, r *Round) error {
			return r.onOwner(ctx, 10, func(rdb *redis.Client) error {
				return errors.Join(kills(ctx, rdb, "normal"), kills(ctx, rdb, "pubsub"))
			})
		}},
	{Name: "cluster: clients are paused", Setup: Setup{Kind: Clustered},
		Break: func(ctx context.Context, r *Round) error {
			return r.onOwner(ctx, 1, func(rdb *redis.Client) error {
				return rdb.ClientPause(ctx, broken).Err()
			})
		}},
	{Name: "cluster: the master stands still for a moment", Setup: Setup{Kind: Clustered},
		Break: func(ctx context.Context, r *Round) error {
			s, err := r.owner(ctx)
			if err == nil {
				thaw := s.Freeze(r.t)
				wait(ctx, broken)
				thaw()
			}
			return err
		}},
	{Name: "cluster: the records are evicted", Setup: Setup{Kind: Clustered},
		Break: func(ctx context.Context, r *Round) error {
			return r.onOwner(ctx, 1, func(rdb *redis.Client) error {
				since := time.Now()
				err := rdb.Del(ctx, "{"+r.Name+"}:permits").Err()
				r.lose(since, time.Now(), "no records: nothing is outstanding")
				return err
			})
		}},
}

// owner returns the node that serves the limiter.
func (r *Round) owner(ctx context.Context) (*redistest.Server, error) {
	var owner *redistest.Server
	err := until(ctx, func() error {
		for _, s := range r.Cluster.Servers {
			// One that was killed must not hold up the search; only the owner does not
			// reply MOVED.
			rdb := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1,
				ReadTimeout: time.Second / 5})
			err := rdb.Exists(ctx, r.Name).Err()
			_ = rdb.Close()
			if err == nil {
				owner = s
				return nil
			}
		}
		return errors.New("no node serves the limiter")
	})
	return owner, err
}

// otherOwner waits until another node serves the limiter.
func (r *Round) otherOwner(ctx context.Context, old *redistest.Server) error {
	return until(ctx, func() error {
		s, err := r.owner(ctx)
		if err == nil && s == old {
			err = errors.New("the limiter is still at its old node")
		}
		return err
	})
}

// onOwner does something some times on the node that serves the limiter.
func (r *Round) onOwner(ctx context.Context, times int, what func(rdb *redis.Client) error) error {
	s, err := r.owner(ctx)
	if err != nil {
		return err
	}
	return often(ctx, times, func() error { return what(s.Admin()) })
}

// takeOver makes a replica the master, as an administrator does: nothing is lost.
func takeOver(ctx context.Context, r *Round) error {
	old, err := r.owner(ctx)
	if err != nil {
		return err
	}
	next, err := r.replicaOf(ctx, old)
	if err != nil {
		return err
	}
	if err := next.Admin().ClusterFailover(ctx).Err(); err != nil {
		return err
	}
	return errors.Join(r.otherOwner(ctx, old), until(ctx, func() error { return follows(ctx, old) }))
}

// replicaOf returns the replica of a node, when it has its copy.
func (r *Round) replicaOf(ctx context.Context, master *redistest.Server) (*redistest.Server, error) {
	var found *redistest.Server
	_, port := split(master.Addr)
	err := until(ctx, func() error {
		for _, s := range r.Cluster.Servers {
			if replication(ctx, s, "role:slave", "master_port:"+port+"\r", "master_link_status:up") == nil {
				found = s
				return nil
			}
		}
		return fmt.Errorf("%s has no replica", master.Addr)
	})
	return found, err
}

// moves moves the slot of the limiter to another master, key by key, with a pause
// after each.
func (r *Round) moves(ctx context.Context, pause time.Duration) error {
	r.Cluster.Agree(r.t)
	src, err := r.owner(ctx)
	if err != nil {
		return err
	}
	var dst *redistest.Server
	for _, s := range r.Cluster.Servers {
		if s != src && isMaster(ctx, s) == nil {
			dst = s
		}
	}
	if dst == nil {
		return errors.New("no other master")
	}
	slot := src.Admin().ClusterKeySlot(ctx, r.Name).Val()
	from, to := src.Admin().ClusterMyID(ctx).Val(), dst.Admin().ClusterMyID(ctx).Val()
	host, port := split(dst.Addr)
	err = errors.Join(dst.Admin().Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", from).Err(),
		src.Admin().Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", to).Err())
	for left := true; left && err == nil; {
		var keys []string
		keys, err = src.Admin().ClusterGetKeysInSlot(ctx, int(slot), 1).Result()
		if left = len(keys) > 0; left && err == nil {
			err = src.Admin().Migrate(ctx, host, port, keys[0], 0, 5*time.Second).Err()
			wait(ctx, pause)
		}
	}
	for _, s := range append([]*redistest.Server{dst, src}, r.Cluster.Servers...) {
		if replication(ctx, s, "role:master") == nil {
			err = errors.Join(err, s.Admin().Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", to).Err())
		}
	}
	return err
}

// lose notes that Redis has forgotten all that was granted before.
func (r *Round) lose(since, until time.Time, why string) {
	r.Log.Lose(grants.Loss{Since: since, To: until, Why: why})
}
