package faults

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/grants"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/pause"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// limit is shared by all callers of a round, and too small for all of them.
var limit = grants.Limit{Rate: 50, Interval: 400 * time.Millisecond}

// wide is the limit where Go takes leases: about what all callers want, because nothing is leased where many
// calls are refused.
var wide = grants.Limit{Rate: 600, Interval: 400 * time.Millisecond}

// The numbers of Clients of Go, of their callers, and of threads of Java.
const (
	goClients   = 3
	goCallers   = 8
	javaCallers = 4
)

// A Kind is a topology of servers.
type Kind int

// The kinds of testbeds.
const (
	Single    Kind = iota // one server, behind a proxy
	Sentinels             // a master and a replica, watched by three sentinels
	Clustered             // three masters with a replica each
)

// A Setup describes the testbed that a fault needs.
type Setup struct {
	Kind    Kind
	Args    []string // of each server
	Clocked bool     // the clock of the server can be set
	Alone   bool     // Go is alone: Java has a clock of its own
	Pool    int      // of each go-redis client; 0 is its default
	Leased  bool     // Clients of Go take leases
}

func (s Setup) limit() grants.Limit {
	if s.Leased {
		return wide
	}
	return limit
}

// A Testbed is servers, and two instances of Redisson that know them. It ends with the
// test.
type Testbed struct {
	Server   *redistest.Server // of a Single
	Proxy    *redistest.Proxy  // in front of it, for all callers
	Sentinel *redistest.Sentinel
	Cluster  *redistest.Cluster

	t        testing.TB // the test of the testbed, or of the round under way
	ctx      context.Context
	setup    Setup
	setClock func(time.Duration) // of the Server
	peer     *javapeer.Peer
	javas    []string // instances
}

// NewTestbed starts the servers and connects two instances of the peer.
func NewTestbed(t testing.TB, peer *javapeer.Peer, setup Setup) *Testbed {
	s := &Testbed{t: t, ctx: t.Context(), setup: setup, peer: peer}
	address, connect := s.start()
	if setup.Alone {
		return s
	}
	// With Redisson's defaults each round would take half a minute.
	connect = append(connect, javapeer.Timeout(500*time.Millisecond), javapeer.RetryAttempts(2),
		javapeer.PingInterval(500*time.Millisecond), javapeer.ScanInterval(500*time.Millisecond))
	for range 2 {
		name := redistest.Name(t)
		redistest.Must(peer.Connect(s.ctx, name, address, connect...))(t)
		t.Cleanup(func() { _ = peer.Disconnect(context.WithoutCancel(s.ctx), name) })
		s.javas = append(s.javas, name)
	}
	return s
}

// start starts the servers, and returns how Java finds them.
func (s *Testbed) start() (address string, connect []javapeer.ConnectOption) {
	args := append([]string{"--enable-debug-command", "yes"}, s.setup.Args...)
	switch s.setup.Kind {
	case Sentinels:
		s.Sentinel = redistest.StartSentinel(s.t, args...)
		s.hasten()
		connect = append(connect, javapeer.Sentinels(s.Sentinel.MasterName, s.Sentinel.Addrs...))
	case Clustered:
		args = append(args, "--cluster-node-timeout", "1500", "--cluster-replica-validity-factor", "0")
		s.Cluster = redistest.StartCluster(s.t, redistest.WithReplicas(1), redistest.WithArgs(args...))
		connect = append(connect, javapeer.Cluster(s.Cluster.Addrs...))
	default:
		if s.setup.Clocked {
			s.Server, s.setClock = redistest.StartClocked(s.t, args...)
		} else {
			s.Server = redistest.Start(s.t, args...)
		}
		s.Proxy = redistest.StartProxy(s.t, s.Server.Addr)
		address = s.Proxy.Addr
	}
	return address, connect
}

// master returns the server that has the limiter.
func (r *Round) master() *redistest.Server {
	switch r.setup.Kind {
	case Sentinels:
		return r.Sentinel.Master
	case Clustered:
		return r.owner()
	}
	return r.Server
}

// hasten makes sentinels look at their servers more often. Otherwise they would take
// 10 s to see that a former master still acts as one. Sentinels before 7.0 have no such
// setting.
func (s *Testbed) hasten() {
	for _, addr := range s.Sentinel.Addrs {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		rdb.Do(context.Background(), "SENTINEL", "DEBUG", "INFO-PERIOD", 500, "PUBLISH-PERIOD", 250)
		_ = rdb.Close()
	}
}

// look returns a client for reading keys, which bypasses the faults of the network.
func (s *Testbed) look() redis.UniversalClient {
	if s.setup.Kind == Single {
		return redis.NewClient(&redis.Options{Addr: s.Server.Addr})
	}
	return s.client()
}

// client returns a new client of go-redis with its defaults, except that it gives up a
// reply after a second, so that rounds are short.
func (s *Testbed) client() redis.UniversalClient {
	const patience = time.Second
	switch s.setup.Kind {
	case Sentinels:
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: s.Sentinel.MasterName,
			SentinelAddrs: s.Sentinel.Addrs, ReadTimeout: patience, PoolSize: s.setup.Pool})
	case Clustered:
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: s.Cluster.Addrs,
			ReadTimeout: patience, PoolSize: s.setup.Pool})
	}
	return redis.NewClient(&redis.Options{Addr: s.Proxy.Addr, ReadTimeout: patience,
		PoolSize: s.setup.Pool})
}

// wait waits for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) { _ = pause.For(ctx, d) }

func (s *Testbed) wait(d time.Duration) { wait(s.ctx, d) }

// must expects no error of the testbed.
func (s *Testbed) must(err error) {
	s.t.Helper()
	redistest.NoError(s.t, err)
}
