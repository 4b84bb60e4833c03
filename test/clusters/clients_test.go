package clusters_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// serves expects everything to work through two clients of a kind: each operation, a
// wake-up by the other Client, and listeners.
func serves(t *testing.T, one, other redis.UniversalClient) {
	t.Helper()
	var sides [2]*rratelimiter.Client
	for i, rdb := range []redis.UniversalClient{one, other} {
		sides[i] = rratelimiter.New(rdb)
		t.Cleanup(func() { _ = sides[i].Close() })
		t.Cleanup(func() { _ = rdb.Close() })
	}
	for _, typ := range []rratelimiter.RateType{Overall, PerClient} {
		for range 3 {
			name := redistest.Name(t)
			wholeLife(t, sides[0].RateLimiter(name), typ, "{"+name+"}:new")
			wholeLife(t, sides[0].RateLimiter("u:{"+name+"}:rl"), typ, "u:{"+name+"}:rl:new")
		}
	}
	name := redistest.Name(t)
	l, o := sides[0].RateLimiter(name), sides[1].RateLimiter(name)
	NoError(t, Yes(o.TrySetRate(t.Context(), Overall, 10, time.Hour)))
	config, err := l.Config(t.Context())
	if err != nil || config.Rate != 10 {
		t.Fatal(config, err)
	}
	NoError(t, Yes(l.TryAcquire(t.Context(), 10, 0)))
	NoError(t, No(o.TryAcquire(t.Context(), 1, 0)))
	woken := make(chan error, 1)
	go func() { woken <- l.Acquire(t.Context(), 3) }()
	NoError(t, o.Release(t.Context(), 3))
	NoError(t, Receive(t, woken))

	deleted := make(chan string, 1)
	stop, err := l.OnDeleted(t.Context(), func(name string) { deleted <- name })
	NoError(t, err)
	defer stop()
	NoError(t, Yes(o.Delete(t.Context())))
	if got := Receive(t, deleted); got != name {
		t.Error("deleted", got)
	}
}

// Clients that embed one of go-redis. Users write such types to add methods.
type (
	embedsClient  struct{ *redis.Client }
	embedsCluster struct{ *redis.ClusterClient }
)

// Every client of go-redis works, even one that reads from replicas: the library always asks the master,
// because a replica may lack the last grant.
func TestEveryKindOfClientIsServed(t *testing.T) {
	t.Parallel() // most of the time is spent waiting
	const events = "--notify-keyspace-events"
	sentinel := redistest.StartSentinels(t, 2, events, "KEA")
	failover := func() *redis.FailoverOptions {
		return &redis.FailoverOptions{MasterName: sentinel.MasterName, SentinelAddrs: sentinel.Addrs}
	}
	byLatency, byChance, replica := failover(), failover(), failover()
	byLatency.RouteByLatency, byChance.RouteRandomly, replica.ReplicaOnly = true, true, true
	ring := []*redistest.Server{redistest.Start(t, events, "KEA"), redistest.Start(t, events, "KEA")}
	cluster := redistest.StartCluster(t, redistest.WithReplicas(1), redistest.WithArgs(events, "KEA"))
	kinds := map[string]func() redis.UniversalClient{
		"NewFailoverClient": func() redis.UniversalClient { return redis.NewFailoverClient(failover()) },
		"NewFailoverClusterClient": func() redis.UniversalClient {
			return redis.NewFailoverClusterClient(failover())
		},
		"NewFailoverClusterClient, RouteByLatency": func() redis.UniversalClient {
			return redis.NewFailoverClusterClient(byLatency)
		},
		"NewFailoverClusterClient, RouteRandomly": func() redis.UniversalClient {
			return redis.NewFailoverClusterClient(byChance)
		},
		"NewUniversalClient, Sentinel": func() redis.UniversalClient {
			return redis.NewUniversalClient(&redis.UniversalOptions{
				Addrs: sentinel.Addrs, MasterName: sentinel.MasterName})
		},
		"NewUniversalClient, cluster": func() redis.UniversalClient {
			return redis.NewUniversalClient(&redis.UniversalOptions{Addrs: cluster.Addrs})
		},
		"NewUniversalClient, single": func() redis.UniversalClient {
			return redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{ring[0].Addr}, DB: 3})
		},
		"NewClusterClient, ReadOnly": func() redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs, ReadOnly: true})
		},
		"NewClusterClient, RouteRandomly": func() redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs, RouteRandomly: true})
		},
		"a type that embeds a cluster client": func() redis.UniversalClient {
			return embedsCluster{redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs})}
		},
		"a type that embeds a client": func() redis.UniversalClient {
			return embedsClient{redis.NewClient(&redis.Options{Addr: ring[0].Addr, DB: 3})}
		},
		"NewRing": func() redis.UniversalClient {
			return redis.NewRing(&redis.RingOptions{
				Addrs: map[string]string{"one": ring[0].Addr, "two": ring[1].Addr}})
		},
	}
	t.Run("each kind", func(t *testing.T) {
		for what, client := range kinds {
			t.Run(what, func(t *testing.T) {
				t.Parallel() // each waits for messages
				serves(t, client(), client())
			})
		}
	})
	for _, s := range ring {
		if n := s.Admin().DBSize(t.Context()).Val(); n != 0 {
			t.Errorf("%s keeps %d keys", s.Addr, n)
		}
	}

	t.Run("listeners do not know the DB of NewFailoverClusterClient", func(t *testing.T) {
		elsewhere := failover()
		elsewhere.DB = 3
		rdb := redis.NewFailoverClusterClient(elsewhere)
		t.Cleanup(func() { _ = rdb.Close() })
		stop, err := NewClient(t, rdb).RateLimiter("l").OnDeleted(t.Context(), func(string) {})
		NoError(t, err)
		defer stop()
		const first, third = "__keyevent@0__:del", "__keyevent@3__:del"
		subscribers := sentinel.Master.Admin().PubSubNumSub(t.Context(), first, third).Val()
		if subscribers[first] == 0 || subscribers[third] > 0 {
			t.Error(subscribers)
		}
	})

	t.Run("a client of replicas alone is refused by Redis", func(t *testing.T) {
		rdb := redis.NewFailoverClient(replica)
		t.Cleanup(func() { _ = rdb.Close() })
		c := NewClient(t, rdb)
		err := c.RateLimiter("l").SetRate(t.Context(), Overall, 10, time.Hour)
		if !redis.IsReadOnlyError(err) || !strings.Contains(err.Error(), `"l"`) {
			t.Errorf("%v, want READONLY", err)
		}
	})

	over := func(what string, replicas int, fail func(t redistest.TB)) {
		t.Run(what, func(t *testing.T) {
			clients := []redis.UniversalClient{redis.NewFailoverClient(failover()),
				redis.NewFailoverClusterClient(failover())}
			var ls []*rratelimiter.RateLimiter
			for _, rdb := range clients {
				t.Cleanup(func() { _ = rdb.Close() })
				c := NewClient(t, rdb)
				ls = append(ls, c.RateLimiter("over"))
			}
			NoError(t, ls[0].SetRate(t.Context(), Overall, 10, time.Hour))
			r := redistest.Must(ls[0].Reserve(t.Context(), 3, 0))(t)
			NoError(t, Yes(ls[1].TryAcquire(t.Context(), 2, 0)))
			f := &followed{T: t, master: sentinel.Master}
			f.replicated(replicas) // whichever is promoted
			fail(t)
			Until(t, func() bool { return r.Settle(t.Context(), 2) == nil })
			goesOn(t, ls[0], ls[1], 4)
		})
	}
	over("a master that stands still", 2, sentinel.Stall)
	over("the death of the master", 2, sentinel.Failover)
	over("an orderly failover", 1, sentinel.Switch)
}

// Everything works over TLS with a certificate on either side, for a user that has the rights of docs/keys.md
// alone. Without the certificate nothing does, and the error says why.
func TestAllWorksOverTLS(t *testing.T) {
	pki := redistest.NewPKI(t)
	args, addr := pki.Args(t)
	s := redistest.Start(t, append(args, "--notify-keyspace-events", "KEA")...)
	client := func(shows bool) *redis.Client {
		return redis.NewClient(&redis.Options{
			Addr: addr, TLSConfig: pki.Config(shows), DialerRetries: 1, MaxRetries: 1,
			Username: "app", Password: "secret"})
	}
	t.Run("a user with few rights", func(t *testing.T) {
		rdb := client(true)
		t.Cleanup(func() { _ = rdb.Close() })
		redistest.Allow(t, "app", append(rule(t, ruleOfAll), channelOfGroup), s.Admin())
		g := &server{T: t, look: s.Admin(), user: rdb, nodes: []*redis.Client{s.Admin()}, name: "api"}
		if failed, denied := g.all(); len(failed)+len(denied) > 0 {
			t.Errorf("these fail: %v; denied are %q", failed, denied)
		}
		if proto := s.Admin().ClientList(t.Context()).Val(); !strings.Contains(proto, "laddr="+addr) {
			t.Errorf("no client is connected to the port of TLS:\n%s", proto)
		}
	})
	t.Run("everything", func(t *testing.T) {
		NoError(t, s.Admin().Do(t.Context(), "ACL", "SETUSER", "app", "on", ">secret", "allkeys",
			"allchannels", "allcommands").Err())
		serves(t, client(true), client(true))
	})
	t.Run("without a certificate", func(t *testing.T) {
		rdb := client(false)
		t.Cleanup(func() { _ = rdb.Close() })
		c := NewClient(t, rdb)
		_, err := c.RateLimiter("l").TryAcquire(t.Context(), 1, 0)
		WantText(t, err, "no answer from Redis", `"l"`, "tls: ", "certificate")
	})
}
