package main

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// onOneConnection serves HTTP on a connection, and returns the end of the client.
func onOneConnection() (v *server, client net.Conn) {
	v = &server{
		failed: make(chan error, 1), grpc: grpc.NewServer(), health: newHealthServer(),
		log:      slog.New(slog.DiscardHandler),
		listener: &oneConnection{conn: make(chan net.Conn)},
	}
	client, far := net.Pipe()
	l := &oneConnection{conn: make(chan net.Conn, 1)}
	l.conn <- far
	v.serveWeb(&http.Server{ReadTimeout: reading, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })}, l)
	return v, client
}

// A client that does not send its request to the end, or does not read the response, loses its connection.
func TestSlowClientsLoseTheirConnection(t *testing.T) {
	for body, longest := range map[string]time.Duration{"a": reading, "abcdefghi": writing} {
		synctest.Test(t, func(t *testing.T) {
			v, client := onOneConnection()
			go func() {
				_, _ = io.WriteString(client, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"+body)
			}()
			time.Sleep(longest + time.Second)
			start := time.Now()
			if reply, _ := io.ReadAll(client); longest == writing && len(reply) > 0 {
				t.Errorf("after %v the reply is %q", longest, reply)
			}
			if took := time.Since(start); took > longest {
				t.Errorf("the connection has ended after %v more", took)
			}
			v.drain(false)
		})
	}
}

// A client that has connected before the port closes, and sends its request afterwards, has its answer. One
// that sends nothing does not hold up the end.
func TestDrainingWaitsForTheFirstRequest(t *testing.T) {
	for request, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n": "HTTP/1.1 200 OK", "": "",
	} {
		synctest.Test(t, func(t *testing.T) {
			v, client := onOneConnection()
			start := time.Now()
			ended := make(chan time.Duration)
			go func() { v.drain(true); ended <- time.Since(start) }()
			go func() {
				time.Sleep(leaving + leaving/2)
				_, _ = io.WriteString(client, request)
			}()
			reply, _ := io.ReadAll(client)
			if !strings.HasPrefix(string(reply), want) {
				t.Errorf("%q has the reply %q", request, reply)
			}
			if took := <-ended; took >= leaving+draining {
				t.Errorf("draining took %v", took)
			}
		})
	}
}

// A oneConnection is a net.Listener with a connection.
type oneConnection struct {
	conn   chan net.Conn
	closed sync.Once
}

func (l *oneConnection) Accept() (net.Conn, error) {
	if c, ok := <-l.conn; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l *oneConnection) Close() error { l.closed.Do(func() { close(l.conn) }); return nil }

func (l *oneConnection) Addr() net.Addr { return &net.TCPAddr{} }

// A gateway may ask as often as it likes whether an idle connection still works, as with the
// connection_keepalive of Envoy.
func TestPingsDoNotEndAConnection(t *testing.T) {
	p := start(t)
	conn := redistest.Must(net.Dial("tcp", p.grpc))(t)
	defer conn.Close()
	const settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00" // the frame of HTTP/2, empty
	const ping, pings = "\x00\x00\x08\x06\x00\x00\x00\x00\x00ABCDEFGH", 10
	redistest.Must(io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+settings))(t)
	frame := make([]byte, 1<<14)
	for i := range pings {
		redistest.Must(io.WriteString(conn, ping))(t)
		for frame[3] = 0; frame[3] != 6; { // a frame of a ping
			if _, err := io.ReadFull(conn, frame[:9]); err != nil {
				t.Fatalf("ping %d: %v", i+1, err)
			}
			if frame[3] == 7 {
				t.Fatalf("the connection ends after %d pings", i+1)
			}
			length := int(frame[1])<<8 + int(frame[2])
			if _, err := io.ReadFull(conn, frame[9:9+length]); err != nil {
				t.Fatalf("ping %d: %v", i+1, err)
			}
		}
	}
}
