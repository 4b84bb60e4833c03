package redistest

import (
	"bufio"
	"bytes"
	"net"
	"sync"
	"sync/atomic"
)

// link is one connection of a client through a proxy.
type link struct {
	p              *Proxy
	client, server *net.TCPConn
	out            *outlet
	lost           atomic.Bool // what comes from either side is thrown away

	mu      sync.Mutex // guards waiting
	waiting []fate     // of requests without a reply so far, oldest first
}

// fate says what happens to the reply to a request.
type fate byte

const (
	deliver fate = iota
	swallow
	tear   // half of it arrives
	stream // after this request the connection carries messages
)

// linkBuffer is as much as one read of a socket usually returns.
const linkBuffer = 16 << 10

func newLink(p *Proxy, client, server *net.TCPConn) *link {
	return &link{p: p, client: client, server: server, out: newOutlet(p, client)}
}

// close ends the link in both directions.
func (c *link) close() {
	_ = c.client.Close()
	_ = c.server.Close()
}

// flushFirst sends what was collected before it waits for more. So a pipeline
// leaves in as few packets as it came in, and nothing is kept.
type flushFirst struct {
	net.Conn
	flush func() error
}

func (f flushFirst) Read(b []byte) (int, error) {
	_ = f.flush() // an error shows at the next read of the other side
	return f.Conn.Read(b)
}

// up passes requests on until the client leaves. Then it closes only this
// direction: the server must still receive, execute and answer what was sent.
func (c *link) up() {
	w := bufio.NewWriterSize(c.server, linkBuffer)
	r := bufio.NewReaderSize(flushFirst{c.client, w.Flush}, linkBuffer)
	var q request
	streaming := false
	for q.read(r) == nil {
		if c.lost.Load() {
			continue
		}
		c.p.stats.in.Add(int64(len(q.raw)))
		if len(q.args) > 0 { // an empty line is no request
			c.p.stats.requests.Add(1)
			streaming = streaming || c.register(&q, w)
		}
		if _, err := w.Write(q.raw); err != nil {
			break
		}
	}
	_ = w.Flush()
	_ = c.server.CloseWrite()
}

// register enters the fate of the reply to q. It holds q back if a rule says so.
// It reports whether messages come after that reply.
func (c *link) register(q *request, w *bufio.Writer) (streaming bool) {
	gate, f := c.p.rules.judge(q)
	if gate != nil {
		_ = w.Flush() // what came before must not wait
		c.p.stats.held.Add(1)
		select {
		case <-gate:
		case <-c.p.done:
		}
	}
	if subscribes(q.name()) {
		f = stream
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, f)
	return f == stream
}

// subscribes reports whether a connection carries messages after the command.
func subscribes(command []byte) bool {
	switch len(command) {
	case len("MONITOR"):
		return bytes.EqualFold(command, []byte("MONITOR"))
	case len("SUBSCRIBE"):
		return bytes.EqualFold(command, []byte("SUBSCRIBE"))
	case len("PSUBSCRIBE"):
		return bytes.EqualFold(command[1:], []byte("SUBSCRIBE"))
	}
	return false
}

// down passes replies on until the server leaves.
func (c *link) down() {
	defer c.server.Close()
	defer c.out.end()
	r := bufio.NewReaderSize(flushFirst{c.server, c.out.flush}, linkBuffer)
	var frame []byte
	for streaming := false; ; {
		var kind byte
		var err error
		if frame, kind, err = appendFrame(frame[:0], r); err != nil {
			return
		}
		if c.lost.Load() {
			continue
		}
		f := deliver
		if !streaming {
			f = c.answered(kind)
			streaming = f == stream
		}
		c.pass(frame, f)
	}
}

// answered returns the fate of a frame of this kind that has come in: that of the
// oldest request without a reply. Only messages come without a request; in RESP3
// the reply to a subscription is a message, too.
func (c *link) answered(kind byte) fate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 || kind == '>' && c.waiting[0] != stream {
		return deliver
	}
	f := c.waiting[0]
	c.waiting = c.waiting[1:]
	return f
}

// pass counts a frame and sends it to the client, or hangs up instead. The loop of
// down goes on after hanging up: when the client is gone, up closes the other
// direction, the server leaves, and the loop ends.
func (c *link) pass(frame []byte, f fate) {
	c.p.stats.out.Add(int64(len(frame)))
	c.p.stats.replies.Add(1)
	if f == swallow || f == tear {
		if f == tear {
			c.out.send(frame[:len(frame)/2])
		}
		c.p.stats.swallowed.Add(1)
		c.out.hangUp()
		return
	}
	c.out.send(frame)
}
