package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func send(t *testing.T, address, text string) net.Conn {
	t.Helper()
	conn := redistest.Must(net.Dial("tcp", address))(t)
	t.Cleanup(func() { _ = conn.Close() })
	redistest.Must(io.WriteString(conn, text))(t)
	return conn
}

// halfACall begins a call of gRPC whose message never comes, and returns a function that waits for its end.
func halfACall(t *testing.T, conn *grpc.ClientConn) (end func() error) {
	t.Helper()
	const method = pb.RateLimitService_ShouldRateLimit_FullMethodName
	stream := redistest.Must(conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, method))(t)
	return func() error { return stream.RecvMsg(new(pb.RateLimitResponse)) }
}

// Whatever clients and Redis leave undone, on SIGTERM the process ends within 11 s, and requests meanwhile
// are decided. The end of a question to Redis is no reply.
func TestNoClientHoldsUpTheEnd(t *testing.T) {
	server := redistest.Start(t)
	p := start(t, "--redis", server.Addr, "--budget", "15ms")
	conn := dial(t, p.grpc)
	redistest.Must(ask(t.Context(), conn, "user=ann"))(t)
	server.Freeze(t)
	for _, port := range []string{p.grpc, p.web, p.metrics, p.debug} {
		send(t, port, "")
	}
	if !testing.Short() {
		halfACall(t, conn)
		send(t, p.grpc, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
		send(t, p.web, "GET /check/example?user=x HTTP/1.1\r\nHost: x\r\nX: ")
		send(t, p.web, "POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
		send(t, p.debug, "GET /debug/pprof/profile HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	began := time.Now()
	redistest.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	kill := time.AfterFunc(20*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	for time.Since(began) < leaving*3/4 { // the last of them must arrive before the connections close
		redistest.Must(ask(t.Context(), conn, "user=ann"))(t)
	}
	p.wait(t)
	if log := p.out.String(); !strings.Contains(log, "fallbacks decide") || strings.Contains(log, "is back") {
		t.Errorf("Redis was silent to the end, and the log says\n%s", log)
	}
	const busy = 5 * time.Second // what a busy machine adds; without the bounds it is killed after 20 s
	if took, most := time.Since(began), leaving+draining; took > most+busy {
		t.Errorf("the process ended after %v, want at most %v", took, most)
	}
}

// Calls of gRPC whose messages do not come end soon when they are many. Those that come are decided.
func TestHalfCallsEnd(t *testing.T) {
	p := start(t)
	conn, ended := dial(t, p.grpc), make(chan error)
	const more = 20
	for range fewCalls + more {
		end := halfACall(t, conn)
		go func() { ended <- end() }()
	}
	began := time.Now()
	for i := range fewCalls + more {
		if err := <-ended; status.Code(err) != codes.Canceled {
			t.Errorf("a call ends with %v", err)
		}
		if i < more && time.Since(began) > reading/2 {
			t.Errorf("%d calls end after %v", i+1, time.Since(began))
		}
		if i == more-1 {
			for range 5 {
				redistest.Must(ask(t.Context(), conn, "user=ann"))(t)
			}
			if testing.Short() {
				redistest.NoError(t, conn.Close())
			}
		}
	}
}

// A connection of gRPC ends at its age, and with it calls that last longer than the grace. The client's next
// call makes another one.
func TestConnectionsHaveAnAge(t *testing.T) {
	p := start(t, "GRPC_MAX_CONNECTION_AGE=100ms", "GRPC_MAX_CONNECTION_AGE_GRACE=100ms")
	conn, began := dial(t, p.grpc), time.Now()
	if err := halfACall(t, conn)(); status.Code(err) != codes.Unavailable || time.Since(began) > reading/2 {
		t.Errorf("after %v a call ends with %v", time.Since(began), err)
	}
	redistest.Must(ask(t.Context(), conn, "user=ann"))(t)
}

// The requests of one client have bounds.
func TestRequestsHaveBounds(t *testing.T) {
	p := start(t)
	conn := dial(t, p.grpc)
	text := func(bytes int) string { return strings.Repeat("x", bytes) }
	call := func(header, value int) string {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x", text(header))
		_, err := ask(ctx, conn, "user="+text(value))
		return status.Code(err).String()
	}
	web := func(port, head string) string {
		reply, err := http.ReadResponse(bufio.NewReader(send(t, port, head+"\r\n\r\n")), nil)
		if err != nil {
			return err.Error()
		}
		_ = reply.Body.Close()
		return reply.Status
	}
	const tooLarge = "431 Request Header Fields Too Large"
	check := "GET /check/example?user=x HTTP/1.1\r\nHost: x\r\nX: "
	for name, c := range map[string]struct{ got, want string }{
		"gRPC, header":         {call(12<<10, 1), "OK"},
		"gRPC, long header":    {call(mostMetadata, 1), "Internal"},
		"gRPC, message":        {call(1, mostMessage-1024), "OK"},
		"gRPC, long message":   {call(1, mostMessage), "ResourceExhausted"},
		"HTTP, header":         {web(p.web, check+text(mostHeader-1024)), "200 OK"},
		"HTTP, long header":    {web(p.web, check+text(mostHeader+8<<10)), tooLarge},
		"metrics, long header": {web(p.metrics, check+text(mostHeader+8<<10)), tooLarge},
		"debug, long header":   {web(p.debug, check+text(mostHeader+8<<10)), tooLarge},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", name, c.got, c.want)
		}
	}
	// A connection of gRPC has at most mostStreams calls. The client waits with the next.
	for range mostStreams {
		halfACall(t, conn)
	}
	ctx, cancel := context.WithTimeout(t.Context(), crowded/2)
	defer cancel()
	if _, err := ask(ctx, conn, "user=ann"); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("call %d: %v", mostStreams+1, err)
	}
}

// Further watches of the health than mostWatches are refused.
func TestWatchesHaveABound(t *testing.T) {
	h := newHealthServer()
	h.watches.Store(mostWatches)
	err := h.Watch(nil, endingStream{ctx: t.Context()})
	if status.Code(err) != codes.ResourceExhausted || h.watches.Load() != mostWatches {
		t.Errorf("%v, and %d watches", err, h.watches.Load())
	}
}

// More connections than --connections wait until earlier ones have ended.
func TestConnectionsHaveABound(t *testing.T) {
	p := start(t, "--connections", "8")
	for port, bound := range map[string]struct {
		most    int
		request string
	}{
		p.web:  {2, "GET /healthcheck HTTP/1.1\r\nHost: x\r\n\r\n"},
		p.grpc: {8, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"},
	} {
		var open []net.Conn
		for range bound.most {
			open = append(open, send(t, port, bound.request))
		}
		for _, conn := range open {
			redistest.Must(conn.Read(make([]byte, 1)))(t)
		}
		further := send(t, port, bound.request)
		_ = further.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := further.Read(make([]byte, 1)); err == nil {
			t.Errorf("one more connection is served beside %d", bound.most)
		}
		_ = open[0].Close()
		_ = further.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := further.Read(make([]byte, 1)); err != nil {
			t.Errorf("a further connection when one has ended: %v", err)
		}
	}
}

// Scrapers that do not read take the memory of mostScrapes scrapes, and lose their connections.
func TestScrapesHaveABound(t *testing.T) {
	file := t.TempDir() + "/a.yaml"
	writeFile(t, file, "domain: example\ndescriptors: "+
		"[{key: user, detailed_metric: true, rate_limit: {unlimited: true}}]")
	p := start(t, "--config", file)
	conn := dial(t, p.grpc)
	long := strings.Repeat("x", 230)
	var filling sync.WaitGroup
	for i := range 8 {
		filling.Go(func() {
			for j := range 700 { // more than fits into the buffers of a connection
				_, _ = ask(t.Context(), conn, fmt.Sprintf("user=%d-%d-%s", i, j, long))
			}
		})
	}
	filling.Wait()
	scrape := func() *bufio.Reader {
		return bufio.NewReader(send(t, p.metrics, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"))
	}
	status := func(r *bufio.Reader) string { line, _ := r.ReadString('\n'); return strings.TrimSpace(line) }
	for i := range mostScrapes {
		if got := status(scrape()); got != "HTTP/1.1 200 OK" {
			t.Errorf("scrape %d: %s", i+1, got)
		}
	}
	if got := status(scrape()); got != "HTTP/1.1 503 Service Unavailable" {
		t.Errorf("scrape %d: %s", mostScrapes+1, got)
	}
}
