package redistest_test

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestStart(t *testing.T) {
	s := redistest.Start(t, "--notify-keyspace-events", "Ex")
	c := s.Client(t, func(o *redis.Options) { o.ClientName = "me" })
	if got := c.ClientGetName(t.Context()).Val(); got != "me" {
		t.Errorf("the client is named %q", got)
	}
	redistest.NoError(t, c.Set(t.Context(), "k", "v", 0).Err())
	if got := s.Admin().Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("Admin reads %q", got)
	}
	const option = "notify-keyspace-events"
	if got := c.ConfigGet(t.Context(), option).Val(); got[option] != "xE" {
		t.Errorf("arguments were not passed on: %v", got)
	}
	if got := c.ConfigGet(t.Context(), "save").Val(); got["save"] != "" {
		t.Errorf("it saves: %v", got)
	}
}

func TestServerURL(t *testing.T) {
	s := redistest.Start(t)
	o := redistest.Must(redis.ParseURL(s.URL()))(t)
	c := redis.NewClient(o)
	defer c.Close()
	redistest.NoError(t, c.Ping(t.Context()).Err())
}

func TestServerWithPassword(t *testing.T) {
	s := redistest.Start(t, "--requirepass", "secret")
	c := s.Client(t, func(o *redis.Options) { o.Password = "secret" })
	redistest.NoError(t, c.Ping(t.Context()).Err())
}

func TestServerRestart(t *testing.T) {
	s := redistest.Start(t)
	c := s.Admin()
	addr, pid := s.Addr, s.PID()
	c.Set(t.Context(), "k", "v", 0)
	s.Stop()
	s.Stop()
	if conn, err := net.Dial("tcp", addr); err == nil {
		_ = conn.Close()
		t.Error("still there after Stop")
	}
	s.Restart(t)
	if n, err := c.Exists(t.Context(), "k").Result(); n != 0 || err != nil {
		t.Errorf("after Restart: %d, %v", n, err)
	}
	s.Restart(t) // while it runs
	if err := c.Ping(t.Context()).Err(); err != nil || s.Addr != addr || s.PID() == pid {
		t.Errorf("after the second Restart: %v", err)
	}
}

func TestServerEndsWithTest(t *testing.T) {
	redistest.Require(t, "redis-server")
	var s *redistest.Server
	var c *redis.Client
	t.Run("inner", func(t *testing.T) {
		s = redistest.Start(t)
		c = s.Client(t)
		c.Ping(t.Context())
	})
	if conn, err := net.Dial("tcp", s.Addr); err == nil {
		_ = conn.Close()
		t.Error("the server is still there")
	}
	if _, err := os.Stat(s.Dir()); !os.IsNotExist(err) {
		t.Errorf("its directory is still there: %v", err)
	}
	if err := c.Ping(t.Context()).Err(); err != redis.ErrClosed {
		t.Errorf("its client is still open: %v", err)
	}
}

func TestStartOtherBinary(t *testing.T) {
	t.Setenv("REDIS_SERVER", "no-such-server")
	t.Setenv("CI", "true")
	f := new(fakeTB).run(func(t redistest.TB) { redistest.Start(t) })
	if f.outcome != "failed" || !strings.Contains(f.said, "no-such-server") {
		t.Errorf("%s, saying %q", f.outcome, f.said)
	}
	sh, err := exec.LookPath("false")
	if err != nil {
		t.Skip(err)
	}
	t.Setenv("REDIS_SERVER", sh)
	f = new(fakeTB).run(func(t redistest.TB) { redistest.Start(t) })
	if f.outcome != "failed" || !strings.Contains(f.said, "exited") {
		t.Errorf("%s, saying %q", f.outcome, f.said)
	}
}

func TestStartBadArgument(t *testing.T) {
	redistest.Require(t, "redis-server")
	f := new(fakeTB).run(func(t redistest.TB) { redistest.Start(t, "--no-such-option", "1") })
	if f.outcome != "failed" || !strings.Contains(f.said, "no-such-option") {
		t.Errorf("%s, saying %q: the server's own words are missing", f.outcome, f.said)
	}
}

func TestMonitor(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	stop := s.Monitor(t)
	rdb.Set(t.Context(), `a"] "b`, "x", 0)
	rdb.Eval(t.Context(), "return redis.call('GET', KEYS[1])", []string{"a"})
	all := strings.Join(stop(), " ")
	if !strings.HasSuffix(all, "set eval get") {
		t.Errorf("noted: %s", all)
	}
}
