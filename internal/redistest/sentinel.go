package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Sentinel is a master with replicas, and three sentinels that watch them and
// promote a replica when two of them find the master dead.
type Sentinel struct {
	MasterName string
	Addrs      []string // of the sentinels
	Master     *Server  // the one to write to; changed by Failover

	replicas []*Server // the others
	watchers []*redis.SentinelClient
}

// StartSentinel starts a master, a replica and three sentinels, with args appended
// to the command lines of master and replica, and returns when all know of each
// other, so that a failover can begin. They end with the test.
func StartSentinel(t TB, args ...string) *Sentinel { t.Helper(); return StartSentinels(t, 1, args...) }

// StartSentinels is StartSentinel with a number of replicas.
func StartSentinels(t TB, replicas int, args ...string) *Sentinel {
	t.Helper()
	args = slices.Concat(replicaArgs, args)
	s := &Sentinel{MasterName: "main", Master: Start(t, args...)}
	host, port, _ := net.SplitHostPort(s.Master.Addr)
	for range replicas {
		s.replicas = append(s.replicas, Start(t, append(args, "--replicaof", host, port)...))
	}
	// A sentinel asks a master for its replicas only every 10 s, so it is started
	// when they are there.
	for _, r := range s.replicas {
		Until(t, "replica", func() error { return inSync(r) })
	}
	for range 3 {
		s.watch(t, host, port)
	}
	for _, w := range s.watchers {
		Until(t, "sentinel", func() error { return s.watching(w) })
	}
	return s
}

// watch starts one more sentinel. A sentinel keeps what it learns in its config
// file, and refuses to start without one. It repeats a failed election after twice
// the failover-timeout.
func (s *Sentinel) watch(t TB, host, port string) {
	t.Helper()
	server := newServer(t)
	file := filepath.Join(server.dir, "sentinel.conf")
	conf := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s 2\n"+
		"sentinel down-after-milliseconds %[1]s %[4]d\n"+
		"sentinel failover-timeout %[1]s 3000\n", s.MasterName, host, port, patience.Milliseconds())
	check(t, os.WriteFile(file, []byte(conf), 0o600))
	server.lead = []string{file, "--sentinel"}
	server.start(t)
	opts := &redis.Options{Addr: server.Addr}
	quiet(opts)
	w := redis.NewSentinelClient(opts)
	t.Cleanup(func() { _ = w.Close() })
	s.watchers = append(s.watchers, w)
	s.Addrs = append(s.Addrs, server.Addr)
}

// watching returns nil if w sees the master, the two other sentinels, and a
// replica that it would promote.
func (s *Sentinel) watching(w *redis.SentinelClient) error {
	ctx := context.Background()
	master, err := w.Master(ctx, s.MasterName).Result()
	if err != nil {
		return err
	}
	if master["flags"] != "master" || master["num-other-sentinels"] != "2" {
		return fmt.Errorf("it knows of the master: %v", master)
	}
	replicas, err := w.Replicas(ctx, s.MasterName).Result()
	if err != nil {
		return err
	}
	good := func(r map[string]string) bool { return r["flags"] == "slave" && r["master-link-status"] == "ok" }
	if len(replicas) != len(s.replicas) || !good(replicas[0]) || !good(replicas[len(replicas)-1]) {
		return fmt.Errorf("it knows of replicas: %v", replicas)
	}
	return nil
}

// Failover kills the master and returns when a replica has been promoted and all
// sentinels say so. That replica is then the Master. Some time after a Restart of the
// dead server, the sentinels make it a replica.
func (s *Sentinel) Failover(t TB) {
	t.Helper()
	former := s.Master
	former.Stop()
	s.downAfter(t, soon)
	s.promoted(t, former)
	s.downAfter(t, patience)
}

// Switch is Failover with a healthy master. It returns when all other running servers
// follow the new master: until the former one does, two servers accept writes, and
// clients may talk to either.
func (s *Sentinel) Switch(t TB) {
	t.Helper()
	former, ordered := s.Master, time.Time{}
	Until(t, "promotion", func() error {
		if s.follow(); s.Master != former {
			return nil
		}
		// On a busy machine the sentinel gives up after its failover-timeout.
		if time.Since(ordered) > 10*time.Second {
			if err := s.watchers[0].Failover(context.Background(), s.MasterName).Err(); err != nil {
				return err
			}
			ordered = time.Now()
		}
		return fmt.Errorf("the master is still %s", former.Addr)
	})
	s.promoted(t, former)
	s.settled(t)
}

// Stall is Switch with a master that is frozen until another one is promoted.
func (s *Sentinel) Stall(t TB) {
	t.Helper()
	former := s.Master
	thaw := former.Freeze(t)
	s.downAfter(t, soon)
	s.promoted(t, former)
	thaw()
	s.downAfter(t, patience)
	s.settled(t)
}

// soon is how long a dead or frozen master must be silent to be taken for dead. At other
// times it is patience, because on a busy machine a healthy master may be silent for
// seconds, and no test expects a failover then.
const soon = 500 * time.Millisecond

// downAfter sets how long a master must be silent to be taken for dead.
func (s *Sentinel) downAfter(t TB, silent time.Duration) {
	t.Helper()
	for _, w := range s.watchers {
		Until(t, "setting of a sentinel", func() error {
			return w.Set(context.Background(), s.MasterName, "down-after-milliseconds",
				strconv.FormatInt(silent.Milliseconds(), 10)).Err()
		})
	}
}

// promoted returns when a server other than the former master is the master.
func (s *Sentinel) promoted(t TB, former *Server) {
	t.Helper()
	Until(t, "promotion", func() error {
		if s.follow(); s.Master == former {
			return fmt.Errorf("the master is still %s", former.Addr)
		}
		return errors.Join(s.names(s.Master), isMaster(s.Master))
	})
}

// settled returns when one server is the master and all other running servers follow it. The former master
// may be the master again, if the new one was silent for long enough meanwhile.
func (s *Sentinel) settled(t TB) {
	t.Helper()
	Until(t, "one master", s.Whole)
}

// Whole returns nil if one server and all sentinels say that this server is the master, and all other running
// servers follow it.
func (s *Sentinel) Whole() error {
	s.follow()
	err := errors.Join(s.names(s.Master), isMaster(s.Master))
	for _, r := range s.replicas {
		if !r.proc.ended() {
			err = errors.Join(err, s.Master.FollowedBy(r))
		}
	}
	return err
}

// FollowedBy returns nil if r is a replica of s and connected to it.
func (s *Server) FollowedBy(r *Server) error {
	role, err := r.Admin().Do(context.Background(), "ROLE").Slice()
	if err != nil {
		return err
	}
	if role[0] != "slave" || s.Addr != fmt.Sprintf("%v:%v", role[1], role[2]) ||
		role[3] != "connected" {
		return fmt.Errorf("%s does not follow %s: %v", r.Addr, s.Addr, role)
	}
	return nil
}

// follow makes the server that all sentinels name the Master.
func (s *Sentinel) follow() {
	for i, r := range s.replicas {
		if s.names(r) == nil {
			s.Master, s.replicas[i] = r, s.Master
			return
		}
	}
}

// names returns nil if all sentinels name this server as the master.
func (s *Sentinel) names(master *Server) (err error) {
	for _, w := range s.watchers {
		err = errors.Join(err, s.agrees(w, master))
	}
	return err
}

// Epoch returns a text that changes each time the sentinels change the master.
func (s *Sentinel) Epoch() (string, error) {
	info, err := s.watchers[0].Master(context.Background(), s.MasterName).Result()
	return info["config-epoch"], err
}

// agrees returns nil if w says that a server is the master.
func (s *Sentinel) agrees(w *redis.SentinelClient, master *Server) error {
	at, err := w.GetMasterAddrByName(context.Background(), s.MasterName).Result()
	if err == nil && net.JoinHostPort(at[0], at[1]) != master.Addr {
		err = fmt.Errorf("it still names %v", at)
	}
	return err
}

// isMaster returns nil if s calls itself a master.
func isMaster(s *Server) error {
	role, err := s.Admin().Do(context.Background(), "ROLE").Slice()
	if err == nil && role[0] != "master" {
		err = fmt.Errorf("its role is %v", role[0])
	}
	return err
}

// Client returns a new client of the master that the sentinels name, after mods
// have changed its options. It is closed when the test ends.
func (s *Sentinel) Client(t TB, mods ...func(*redis.FailoverOptions)) *redis.Client {
	t.Helper()
	opts := &redis.FailoverOptions{MasterName: s.MasterName, SentinelAddrs: s.Addrs}
	for _, mod := range mods {
		mod(opts)
	}
	client := redis.NewFailoverClient(opts)
	t.Cleanup(func() { _ = client.Close() }) // a test may have closed it
	return client
}
