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

	"golang.org/x/net/http2"
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
	framer := http2.NewFramer(conn, conn)
	redistest.Must(io.WriteString(conn, http2.ClientPreface))(t)
	redistest.NoError(t, framer.WriteSettings())
	for i := range 10 {
		redistest.NoError(t, framer.WritePing(false, [8]byte{}))
		for replied := false; !replied; {
			switch frame := redistest.Must(framer.ReadFrame())(t).(type) {
			case *http2.PingFrame:
				replied = frame.IsAck()
			case *http2.GoAwayFrame:
				t.Fatalf("the connection ends after %d pings", i+1)
			}
		}
	}
}
