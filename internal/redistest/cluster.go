package redistest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// Cluster is a running Redis Cluster that serves all slots.
type Cluster struct {
	Addrs   []string  // of all nodes, masters first
	Servers []*Server // in the same order

	masters int
}

// ClusterOption changes what StartCluster starts.
type ClusterOption func(*clusterConfig)

type clusterConfig struct {
	replicas int
	args     []string
}

// WithReplicas gives each master n replicas. Defaults to 0.
func WithReplicas(n int) ClusterOption {
	return func(c *clusterConfig) { c.replicas = n }
}

// WithArgs appends args to the command line of each node. Defaults to none.
func WithArgs(args ...string) ClusterOption {
	return func(c *clusterConfig) { c.args = append(c.args, args...) }
}

// StartCluster starts a cluster of three masters and returns when each node
// knows all others and serves. The cluster ends with the test.
func StartCluster(t TB, opts ...ClusterOption) *Cluster {
	t.Helper()
	var conf clusterConfig
	for _, opt := range opts {
		opt(&conf)
	}
	c := &Cluster{masters: 3}
	args := append([]string{"--cluster-enabled", "yes"}, replicaArgs...)
	args = append(args, conf.args...)
	for range c.masters * (1 + conf.replicas) {
		s := Start(t, args...)
		c.Servers = append(c.Servers, s)
		c.Addrs = append(c.Addrs, s.Addr)
	}
	c.meet(t)
	c.assign(t)
	c.replicate(t)
	for _, s := range c.Servers {
		Until(t, "cluster node "+s.Addr, func() error { return c.complete(s) })
	}
	return c
}

// replicaArgs give a replica its first copy at once. By default Redis waits 5 s
// for more replicas before it sends one.
var replicaArgs = []string{"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"}

// meet introduces each node to all nodes before it. If each met only the first,
// they would need seconds longer to hear of one another. Each first gets its own
// epoch, because nodes with the same epoch have to settle whose claim counts.
func (c *Cluster) meet(t TB) {
	t.Helper()
	ctx := context.Background()
	for i, s := range c.Servers {
		if err := s.Admin().Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			t.Fatalf("redistest: cluster epoch of %s: %v", s.Addr, err)
		}
		for _, addr := range c.Addrs[:i] {
			host, port, _ := net.SplitHostPort(addr)
			if err := s.Admin().ClusterMeet(ctx, host, port).Err(); err != nil {
				t.Fatalf("redistest: cluster meeting of %s and %s: %v", s.Addr, addr, err)
			}
		}
	}
}

// assign divides the slots among the masters. go-redis sends a range as ADDSLOTS
// with every number in it, which Redis before 7 also understands.
func (c *Cluster) assign(t TB) {
	t.Helper()
	for i, s := range c.Servers[:c.masters] {
		from, to := i*wire.Slots/c.masters, (i+1)*wire.Slots/c.masters-1
		if err := s.Admin().ClusterAddSlotsRange(context.Background(), from, to).Err(); err != nil {
			t.Fatalf("redistest: slots of %s: %v", s.Addr, err)
		}
	}
}

// replicate makes the nodes after the masters their replicas, in turn.
func (c *Cluster) replicate(t TB) {
	t.Helper()
	ctx := context.Background()
	for i, s := range c.Servers[c.masters:] {
		master, err := c.Servers[i%c.masters].Admin().ClusterMyID(ctx).Result()
		if err != nil {
			t.Fatalf("redistest: cluster id: %v", err)
		}
		Until(t, "replica "+s.Addr, func() error { // it must have heard of the master
			return s.Admin().ClusterReplicate(ctx, master).Err()
		})
	}
}

// complete returns nil if s serves, knows the role of each node and, if it is
// a replica, follows its master.
func (c *Cluster) complete(s *Server) error {
	info, err := s.Admin().ClusterInfo(context.Background()).Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, "cluster_state:ok") {
		return fmt.Errorf("cluster is not ok:\n%s", info)
	}
	nodes, err := s.Admin().ClusterNodes(context.Background()).Result()
	if err != nil {
		return err
	}
	if err := c.roles(nodes); err != nil {
		return err
	}
	return inSync(s)
}

// roles returns nil if nodes, the reply to CLUSTER NODES, lists each node with its
// role, connected and no longer being met.
func (c *Cluster) roles(nodes string) error {
	var masters, replicas int
	for line := range strings.Lines(nodes) {
		field := strings.Fields(line)
		if len(field) < 8 || field[7] != "connected" {
			continue
		}
		switch strings.TrimPrefix(field[2], "myself,") {
		case "master":
			masters++
		case "slave":
			replicas++
		}
	}
	if masters != c.masters || masters+replicas != len(c.Servers) {
		return fmt.Errorf("%d masters, %d replicas:\n%s", masters, replicas, nodes)
	}
	return nil
}

// Agree returns when all nodes list the same slots and epochs for each node. Slots may
// be moved only then: a node that has not heard of the last move would take a slot
// without a new epoch, an older message of the former owner would take the slot away
// again, and the node would delete its keys.
func (c *Cluster) Agree(t TB) {
	t.Helper()
	Until(t, "agreement of the cluster", func() error {
		var views []string
		for _, s := range c.Servers {
			nodes, err := s.Admin().ClusterNodes(context.Background()).Result()
			if err != nil {
				return err
			}
			views = append(views, claims(nodes))
		}
		if views = slices.Compact(views); len(views) > 1 {
			return fmt.Errorf("nodes differ:\n%s", strings.Join(views, "\n\n"))
		}
		return nil
	})
}

// claims returns the name, epoch and slots of each node by nodes, the reply to
// CLUSTER NODES, without the slots that are about to move.
func claims(nodes string) string {
	var all []string
	for line := range strings.Lines(nodes) {
		field := strings.Fields(line)
		if len(field) < 8 {
			continue
		}
		claim := []string{field[0], field[6]}
		for _, slot := range field[8:] {
			if !strings.HasPrefix(slot, "[") {
				claim = append(claim, slot)
			}
		}
		all = append(all, strings.Join(claim, " "))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// inSync returns nil if s is a master or a replica that follows its master.
func inSync(s *Server) error {
	info, err := s.Admin().Info(context.Background(), "replication").Result()
	if err == nil && strings.Contains(info, "master_link_status:down") {
		err = fmt.Errorf("%s does not follow its master yet", s.Addr)
	}
	return err
}

// Client returns a new client of the cluster, after mods have changed its
// options. It is closed when the test ends.
func (c *Cluster) Client(t TB, mods ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	t.Helper()
	opts := &redis.ClusterOptions{Addrs: c.Addrs}
	for _, mod := range mods {
		mod(opts)
	}
	client := redis.NewClusterClient(opts)
	t.Cleanup(func() { _ = client.Close() }) // a test may have closed it
	return client
}
