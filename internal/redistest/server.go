package redistest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Server is a running redis-server process. It has its own loopback port and
// directory, and keeps nothing on disk.
type Server struct {
	Addr string // host:port; stays the same over Restart

	binary string
	lead   []string // arguments that must come first: a sentinel's config file
	args   []string
	dir    string
	port   int
	proc   *process
	admin  *redis.Client
}

// Start starts a redis-server and returns when it answers. args are appended to
// its command line, as in "--notify-keyspace-events", "Ex". The environment
// variable REDIS_SERVER names another binary, a Valkey for example. The server
// ends with the test.
func Start(t TB, args ...string) *Server {
	t.Helper()
	s := newServer(t, append([]string{"--save", "", "--appendonly", "no"}, args...)...)
	s.start(t)
	return s
}

// newServer prepares a server and its directory, without starting it.
func newServer(t TB, args ...string) *Server {
	t.Helper()
	s := &Server{binary: Require(t, cmp.Or(os.Getenv("REDIS_SERVER"), "redis-server")), args: args}
	dir, err := os.MkdirTemp("", "redistest-")
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s.dir = dir
	return s
}

// start starts s on a free port. If another process takes the port first, it tries
// another one, five times at most.
func (s *Server) start(t TB) {
	t.Helper()
	t.Cleanup(s.Stop)
	var err error
	for range 5 {
		if s.port, err = freePort(); err != nil {
			break
		}
		if err = s.launch(); !errors.Is(err, errExited) {
			break
		}
	}
	if err != nil {
		t.Fatalf("redistest: starting %s: %v", s.binary, err)
	}
	s.Addr = loopback(s.port)
	s.admin = s.Client(t, quiet)
}

// errExited: a server ended before it answered, because its port was taken, for example.
var errExited = errors.New("the server exited")

// launch starts the process on s.port and waits until it answers.
func (s *Server) launch() error {
	args := append(append([]string{}, s.lead...), "--port", strconv.Itoa(s.port), "--bind", "127.0.0.1")
	proc, err := startProcess(s.binary, s.dir, append(args, s.args...)...)
	if err != nil {
		return err
	}
	s.proc = proc
	var exited error
	err = poll(patience, func() error {
		if proc.ended() {
			exited = fmt.Errorf("%w, saying:\n%s", errExited, proc.tail())
			return nil
		}
		return answers(loopback(s.port), proc.cmd.Process.Pid)
	})
	if err = errors.Join(exited, err); err != nil {
		proc.kill()
	}
	return err
}

// answers returns nil if the process pid answers at addr. Any answer is not enough:
// between the choice of the port and the bind another server may have taken it, and
// a test would use that server and its data.
func answers(addr string, pid int) error {
	opts := &redis.Options{Addr: addr, MaxRetries: -1}
	quiet(opts)
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	info, err := rdb.Info(context.Background(), "server").Result()
	if err == nil && !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", pid)) {
		err = fmt.Errorf("process %d does not reply, but another one does: %.60q", pid, info)
	}
	return err
}

// Stop kills the server; then its address refuses connections. It may be called
// again.
func (s *Server) Stop() {
	if s.proc != nil {
		s.proc.kill()
	}
}

// Freeze suspends the process until thaw is called or the test ends. Connections
// stay open, and no request is answered.
func (s *Server) Freeze(t TB) (thaw func()) {
	t.Helper()
	proc := s.proc.cmd.Process
	if err := proc.Signal(syscall.SIGSTOP); err != nil {
		t.Fatalf("redistest: stopping %s: %v", s.Addr, err)
	}
	thaw = sync.OnceFunc(func() { _ = proc.Signal(syscall.SIGCONT) })
	t.Cleanup(thaw)
	return thaw
}

// Restart stops the server if it runs, and starts it again on the same port. Its scripts
// are gone, and its data unless the server was started with an append-only file.
func (s *Server) Restart(t TB) {
	t.Helper()
	s.Stop()
	Until(t, "restarting on "+s.Addr, s.launch)
}

// RestartBehind is Restart as a replica of master, so that the server is never a master
// without data.
func (s *Server) RestartBehind(t TB, master *Server) {
	t.Helper()
	host, port, err := net.SplitHostPort(master.Addr)
	if err != nil {
		t.Fatalf("redistest: %s: %v", master.Addr, err)
	}
	args := s.args
	s.args = append(slices.Clone(args), "--replicaof", host+" "+port)
	defer func() { s.args = args }()
	s.Restart(t)
}

// Client returns a new client of the server with the defaults of go-redis, after
// mods have changed them. It is closed when the test ends.
func (s *Server) Client(t TB, mods ...func(*redis.Options)) *redis.Client {
	t.Helper()
	return newClient(t, &redis.Options{Addr: s.Addr}, mods)
}

// Admin returns a client for reading and setting keys, one for each server. It has its
// own connections, which bypass a proxy, and sends only the commands of the test.
func (s *Server) Admin() *redis.Client { return s.admin }

// newClient returns a client with opts changed by mods, closed with the test.
func newClient(t TB, opts *redis.Options, mods []func(*redis.Options)) *redis.Client {
	t.Helper()
	for _, mod := range mods {
		mod(opts)
	}
	c := redis.NewClient(opts)
	t.Cleanup(func() { _ = c.Close() }) // a test may have closed it
	return c
}

// quiet turns off what go-redis sends on a new connection besides HELLO, and the
// goroutines that wait for announcements of the server.
func quiet(o *redis.Options) {
	o.Protocol = 2
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
