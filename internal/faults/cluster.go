package faults

import (
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// moved has the errors that nodes of a cluster reply while slots or roles change.
var moved = []string{"CLUSTERDOWN", "MOVED", "ASK", "TRYAGAIN", "READONLY", "LOADING", "MASTERDOWN"}

// clustered is the Setup of faults of a cluster.
var clustered = Setup{Kind: Clustered}

// OfCluster are faults of three masters with a replica each. They leave the cluster
// whole, perhaps with other masters.
var OfCluster = []Fault{
	{Name: "cluster: the master is killed", Setup: clustered, Errors: moved, Break: func(r *Round) {
		old, lost := r.owner(), r.counted()
		old.Stop()
		r.otherOwner(old)
		lost(time.Now())
		old.Restart(r.t)
		r.follows(old)
	}},
	{Name: "cluster: the master stands still, and its replica is promoted", Setup: clustered, Errors: moved,
		Break: func(r *Round) {
			old, lost := r.owner(), r.counted()
			since, thaw := time.Now(), old.Freeze(r.t)
			r.otherOwner(old)
			thaw()
			r.follows(old)
			// It replies to requests that waited in its sockets before it hears of the new master.
			r.lose(since, time.Now(), "two nodes thought that they were the master")
			lost(time.Now())
		}},
	{Name: "cluster: the replica takes over", Setup: clustered, Errors: moved, Break: func(r *Round) {
		old := r.owner() // an administrator orders it, so nothing is lost
		r.must(r.replicaOf(old).Admin().ClusterFailover(r.ctx).Err())
		r.otherOwner(old)
		r.follows(old)
	}},
	{Name: "cluster: the slot moves", Setup: clustered, Errors: moved, Break: func(r *Round) { r.moves(0) }},
	{Name: "cluster: the slot moves slowly", Setup: clustered, Errors: moved,
		Break: func(r *Round) { r.moves(broken / 3) }},
	{Name: "cluster: scripts are flushed", Setup: clustered, Break: func(r *Round) {
		rdb := r.owner().Admin()
		r.often(10, func() error { return rdb.ScriptFlush(r.ctx).Err() })
	}},
	{Name: "cluster: connections are killed", Setup: clustered, Break: func(r *Round) {
		rdb := r.owner().Admin()
		r.often(10, func() error { return errors.Join(r.kills(rdb, "normal"), r.kills(rdb, "pubsub")) })
	}},
	{Name: "cluster: clients are paused", Setup: clustered, Break: func(r *Round) {
		rdb := r.owner().Admin()
		r.often(1, func() error { return rdb.ClientPause(r.ctx, broken).Err() })
	}},
	{Name: "cluster: the master stands still for a moment", Setup: clustered, Break: func(r *Round) {
		r.stands(r.owner(), broken)
	}},
	{Name: "cluster: the records are evicted", Setup: clustered, Break: func(r *Round) {
		r.evicts(r.owner().Admin(), 1, "{"+r.Name+"}:permits", 0, "no records: nothing is outstanding")
	}},
}

// owner returns the node that serves the limiter.
func (r *Round) owner() *redistest.Server { return r.Cluster.Servers[r.Cluster.Node(r.t, r.Name)] }

// otherOwner waits until another node serves the limiter.
func (r *Round) otherOwner(old *redistest.Server) {
	redistest.Eventually(r.t, "another owner of the limiter", func() bool { return r.owner() != old })
}

// follows waits until a node that was the master follows the owner.
func (r *Round) follows(old *redistest.Server) {
	redistest.Until(r.t, "one master", func() error { return r.owner().FollowedBy(old) })
}

// replicaOf returns the replica of a node, when it has its copy.
func (r *Round) replicaOf(master *redistest.Server) (replica *redistest.Server) {
	redistest.Eventually(r.t, "a replica of "+master.Addr, func() bool {
		for _, s := range r.Cluster.Servers {
			if master.FollowedBy(s) == nil {
				replica = s
				return true
			}
		}
		return false
	})
	return replica
}

// moves moves the slot of the limiter to another master, key by key, with a pause
// after each.
func (r *Round) moves(pause time.Duration) {
	masters := r.Cluster.Masters()
	dst := masters[0]
	if dst == r.owner() {
		dst = masters[1]
	}
	m := r.Cluster.Move(r.t, r.Name, dst)
	for m.Keys(1) > 0 {
		r.wait(pause)
	}
	m.End()
}

// often calls breaks a number of times, in as long as a fault lasts.
func (r *Round) often(times int, breaks func() error) {
	for range times {
		r.must(breaks())
		r.wait(broken / time.Duration(times))
	}
}

// kills kills connections of a kind, except that of rdb.
func (r *Round) kills(rdb *redis.Client, kind string) error {
	return rdb.ClientKillByFilter(r.ctx, "TYPE", kind, "SKIPME", "yes").Err()
}

// stands freezes a server for d.
func (r *Round) stands(s *redistest.Server, d time.Duration) {
	thaw := s.Freeze(r.t)
	r.wait(d)
	thaw()
}
