package redistest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// proxied starts a server and a proxy in front of it.
func proxied(t testing.TB, args ...string) (*redistest.Server, *redistest.Proxy) {
	s := redistest.Start(t, args...)
	return s, redistest.StartProxy(t, s.Addr)
}

// via returns a client that reaches s through p.
func via(t testing.TB, s *redistest.Server, p *redistest.Proxy, mods ...func(*redis.Options)) *redis.Client {
	through := func(o *redis.Options) { o.Addr = p.Addr }
	return s.Client(t, append([]func(*redis.Options){through}, mods...)...)
}

// noRetry makes a client report what goes wrong instead of trying again.
func noRetry(o *redis.Options) { o.MaxRetries = -1 }

// resp2 makes a client speak the older protocol.
func resp2(o *redis.Options) { o.Protocol = 2 }

// dial connects to p without a client.
func dial(t *testing.T, p *redistest.Proxy) net.Conn {
	t.Helper()
	conn := redistest.Must(net.Dial("tcp", p.Addr))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// command returns a match for requests of that name.
func command(name string) func([]string) bool {
	return func(args []string) bool { return strings.EqualFold(args[0], name) }
}

func TestProxySwallowReply(t *testing.T) {
	s, p := proxied(t)
	c := via(t, s, p)
	script := redis.NewScript("return redis.call('incr', KEYS[1])")
	redistest.NoError(t, script.Load(t.Context(), c).Err())
	p.SwallowReply(1)
	// go-redis sends a request again if it got no reply.
	if n, err := script.Run(t.Context(), c, []string{"n"}).Int(); n != 2 || err != nil {
		t.Errorf("the answer is %d, %v; want that to the second copy", n, err)
	}
	if n := script.Run(t.Context(), c, []string{"n"}).Val(); n != int64(3) || p.Swallowed() != 1 {
		t.Errorf("then %v, with %d swallowed; want no more than 1", n, p.Swallowed())
	}
}

func TestProxySwallowReplyTo(t *testing.T) {
	s, p := proxied(t)
	c := via(t, s, p, noRetry)
	p.SwallowReplyTo(2, command("incr"))
	p.SwallowReplyTo(0, command("ping"))
	for range 2 {
		if err := c.Ping(t.Context()).Err(); err != nil {
			t.Errorf("another command: %v", err)
		}
		if err := c.Incr(t.Context(), "n").Err(); !errors.Is(err, io.EOF) {
			t.Errorf("swallowed: %v", err)
		}
	}
	if n, err := c.Incr(t.Context(), "n").Result(); n != 3 || err != nil {
		t.Errorf("after two swallowed: %d, %v", n, err)
	}
}

// Replies before the swallowed one arrive, and requests after it are executed: that
// is what the end of a connection means for a pipeline.
func TestProxySwallowInPipeline(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Millisecond} {
		s, p := proxied(t)
		p.Delay(delay)
		p.SwallowReplyTo(1, func(args []string) bool { return args[0] == "INCRBY" && args[2] == "3" })
		conn := dial(t, p)
		_, _ = io.WriteString(conn, "INCRBY n 1\r\nINCRBY n 2\r\nINCRBY n 3\r\nINCRBY n 4\r\n")
		if got, err := io.ReadAll(conn); string(got) != ":1\r\n:3\r\n" {
			t.Errorf("delay %v: got %q, %v", delay, got, err)
		}
		eventually(t, "all four at the server", func() bool {
			return s.Admin().Get(t.Context(), "n").Val() == "10"
		})
	}
}

func TestProxyDelay(t *testing.T) {
	s, p := proxied(t)
	c := via(t, s, p)
	c.Ping(t.Context())
	const d = 40 * time.Millisecond
	p.Delay(d)
	start := time.Now()
	c.Ping(t.Context())
	if took := time.Since(start); took < d {
		t.Errorf("took %v, want %v or more", took, d)
	}
	const many = 200
	start = time.Now()
	_, err := c.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
		for range many {
			pipe.Incr(t.Context(), "n")
		}
		return nil
	})
	if took := time.Since(start); err != nil || took < d || took > many*d/2 {
		t.Errorf("a pipeline took %v, %v: replies are late one after another", took, err)
	}
	p.Delay(0)
	if n := c.Incr(t.Context(), "n").Val(); n != many+1 {
		t.Errorf("afterwards: %d", n)
	}
}

func TestProxyHold(t *testing.T) {
	s, p := proxied(t)
	c := via(t, s, p)
	c.Ping(t.Context())
	release := p.Hold()
	answer := make(chan error, 1)
	go func() { answer <- c.Set(t.Context(), "k", "v", 0).Err() }()
	eventually(t, "the request", func() bool { return p.Held() == 1 })
	if n := s.Admin().Exists(t.Context(), "k").Val(); n != 0 {
		t.Error("the server has got it")
	}
	release()
	release()
	redistest.NoError(t, <-answer)
	if err := c.Get(t.Context(), "k").Err(); err != nil {
		t.Errorf("after release: %v", err)
	}
}

// The first copy of a request is late. The client gives up and sends a second one,
// and then the server gets both.
func TestProxyHoldNext(t *testing.T) {
	s, p := proxied(t)
	c := via(t, s, p)
	release := p.HoldNext(1, command("incr"))
	var wg sync.WaitGroup
	wg.Go(func() {
		if n, err := c.Incr(t.Context(), "n").Result(); n != 1 || err != nil {
			t.Errorf("the second copy: %d, %v", n, err)
		}
	})
	eventually(t, "the first copy", func() bool { return p.Held() == 1 })
	p.Cut()
	wg.Wait()
	if n := s.Admin().Get(t.Context(), "n").Val(); n != "1" {
		t.Errorf("before release: %s", n)
	}
	release()
	eventually(t, "the late copy", func() bool { return s.Admin().Get(t.Context(), "n").Val() == "2" })
}

func TestProxyHoldAndSwallow(t *testing.T) {
	s, p := proxied(t)
	c := via(t, s, p, noRetry)
	release := p.HoldNext(1, command("incr"))
	p.SwallowReplyTo(1, command("incr"))
	answer := make(chan error, 1)
	go func() { answer <- c.Incr(t.Context(), "n").Err() }()
	eventually(t, "the request", func() bool { return p.Held() == 1 })
	release()
	if err := <-answer; !errors.Is(err, io.EOF) {
		t.Errorf("its reply was not swallowed: %v", err)
	}
	if n := s.Admin().Get(t.Context(), "n").Val(); n != "1" {
		t.Errorf("counted %s", n)
	}
}

// An observer sees every request before the server does, whatever happens to the
// request, and may keep the arguments.
func TestProxyObserve(t *testing.T) {
	s, p := proxied(t)
	c := via(t, s, p, noRetry)
	var mu sync.Mutex
	var seen []string
	kept := func() string { mu.Lock(); defer mu.Unlock(); return strings.Join(seen, ", ") }
	p.SwallowReplyTo(1, command("incr")) // also a rule that comes after another one
	stop := p.Observe(func(args []string) {
		if command("get")(args) || command("incr")(args) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, strings.ToLower(strings.Join(args, " ")))
		}
	})
	if err := c.Incr(t.Context(), "n").Err(); !errors.Is(err, io.EOF) {
		t.Errorf("swallowed: %v", err)
	}
	for _, key := range []string{"n", "m"} {
		c.Get(t.Context(), key)
	}
	if got := kept(); got != "incr n, get n, get m" {
		t.Errorf("with the answers there, it has seen: %s", got)
	}
	release := p.Hold()
	go c.Get(context.Background(), "held")
	eventually(t, "the request", func() bool { return p.Held() == 1 })
	if got := kept(); !strings.HasSuffix(got, ", get held") {
		t.Errorf("a request that is held was not seen: %s", got)
	}
	release()
	stop()
	c.Get(t.Context(), "unseen")
	if got := kept(); strings.Contains(got, "unseen") {
		t.Error("seen after stop")
	}
}

// A test may end while requests are held.
func TestProxyEndsWhileHolding(t *testing.T) {
	s, p := proxied(t)
	p.Hold()
	go via(t, s, p).Ping(context.Background())
	eventually(t, "the request", func() bool { return p.Held() == 1 })
}

func TestProxyEndsWhileDelaying(t *testing.T) {
	s, p := proxied(t)
	p.Delay(time.Hour)
	go via(t, s, p).Ping(context.Background())
	eventually(t, "the reply", func() bool { _, _, _, replies := p.Stats(); return replies > 0 })
}

func TestProxyCutDownUp(t *testing.T) {
	s, p := proxied(t)
	c := via(t, s, p, noRetry, func(o *redis.Options) { o.DialerRetries = 1 })
	c.Ping(t.Context())
	p.Down()
	p.Down()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Errorf("Down ended an open connection: %v", err)
	}
	p.Cut()
	if err := c.Ping(t.Context()).Err(); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("while down: %v", err)
	}
	p.Up()
	p.Up()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Errorf("after Up: %v", err)
	}
	s.Stop()
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Error("answered without a server")
	}
	s.Restart(t)
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Errorf("after Restart: %v", err)
	}
}

func TestProxyStats(t *testing.T) {
	_, p := proxied(t)
	conn := dial(t, p)
	const request, reply = "*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n\r\nPING\r\n", "$2\r\nhi\r\n+PONG\r\n"
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(reply))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != reply {
		t.Fatalf("got %q, %v", got, err)
	}
	in, out, requests, replies := p.Stats()
	if in != int64(len(request)) || out != int64(len(reply)) || requests != 2 || replies != 2 {
		t.Errorf("%d bytes in, %d out, %d requests, %d replies", in, out, requests, replies)
	}
}

// Messages are no replies: they must not be taken for the reply to a request.
func TestProxyPubSub(t *testing.T) {
	resp3 := func(*redis.Options) {} // the default
	for name, protocol := range map[string]func(*redis.Options){"RESP2": resp2, "RESP3": resp3} {
		t.Run(name, func(t *testing.T) {
			s, p := proxied(t)
			c := via(t, s, p, protocol)
			sub := c.Subscribe(t.Context(), "a", "b")
			defer sub.Close()
			for range 2 { // its confirmations
				if _, err := sub.Receive(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			p.SwallowReplyTo(1, command("ping")) // not on a connection of messages
			for range 3 {
				c.Publish(t.Context(), "b", "hello")
				if msg, err := sub.ReceiveMessage(t.Context()); err != nil || msg.Payload != "hello" {
					t.Fatalf("%v, %v", msg, err)
				}
			}
			if err := sub.Ping(t.Context()); err != nil {
				t.Error(err)
			}
			if pong, err := sub.Receive(t.Context()); err != nil {
				t.Errorf("%v, %v", pong, err)
			}
		})
	}
}

// In RESP3 a connection may get messages between replies without SUBSCRIBE, for
// example those of client tracking.
func TestProxyPush(t *testing.T) {
	s, p := proxied(t)
	conn := dial(t, p)
	talk := func(say, want string) {
		t.Helper()
		_, _ = io.WriteString(conn, say)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
			t.Fatalf("%q: got %q, %v", say, got, err)
		}
	}
	_, _ = io.WriteString(conn, "HELLO 3\r\n")
	eventually(t, "RESP3", func() bool { _, _, _, replies := p.Stats(); return replies == 1 })
	_, hello, _, _ := p.Stats()
	_, _ = io.CopyN(io.Discard, conn, hello)
	talk("CLIENT TRACKING ON\r\n", "+OK\r\n")
	talk("GET k\r\n", "_\r\n")
	p.SwallowReplyTo(1, command("incr"))
	s.Admin().Set(t.Context(), "k", "v", 0)
	talk("PING\r\n", ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n+PONG\r\n")
	_, _ = io.WriteString(conn, "INCR n\r\n")
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("swallowed: %v", err)
	}
}

// Everything that passes must come out unchanged.
func TestProxyTraffic(t *testing.T) {
	s, p := proxied(t)
	c := via(t, s, p)
	big := strings.Repeat("0123456789", 300000)
	c.Set(t.Context(), "big", big, 0)
	if got := c.Get(t.Context(), "big").Val(); got != big {
		t.Errorf("%d bytes of %d came back", len(got), len(big))
	}
	c.HSet(t.Context(), "h", "a", "1", "b", "2")
	if got := c.HGetAll(t.Context(), "h").Val(); got["a"] != "1" || got["b"] != "2" {
		t.Errorf("a hash: %v", got)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 20 {
				_, err := c.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
					for range 10 {
						pipe.Incr(t.Context(), "n")
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := c.Get(t.Context(), "n").Val(); got != "4000" {
		t.Errorf("counted %s of 4000", got)
	}
}

// Bytes that are not the protocol of Redis end the connection.
func TestProxyGarbage(t *testing.T) {
	_, p := proxied(t)
	conn := dial(t, p)
	_, _ = io.WriteString(conn, "*garbage\r\n")
	if got, err := io.ReadAll(conn); len(got) > 0 {
		t.Errorf("answered %q, %v", got, err)
	}
}

func BenchmarkProxy(b *testing.B) {
	s, p := proxied(b)
	for _, at := range []struct{ name, addr string }{{"direct", s.Addr}, {"proxy", p.Addr}} {
		b.Run(at.name, func(b *testing.B) {
			c := s.Client(b, func(o *redis.Options) { o.Addr = at.addr })
			for b.Loop() {
				c.Ping(b.Context())
			}
		})
	}
}
