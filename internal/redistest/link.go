package redistest

import (
	"bufio"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2/proto"

	"github.com/redisson-go/rratelimiter/internal/pause"
)

// link is one connection of a client through a proxy.
type link struct {
	p              *Proxy
	client, server *net.TCPConn
	late           chan parcel // replies on their way to the client
	lost           atomic.Bool // what comes from either side is thrown away

	mu      sync.Mutex // guards waiting
	waiting []awaited  // requests without a reply so far, oldest first
}

// fate says what happens to the reply to a request.
type fate byte

const (
	deliver fate = iota
	swallow
	tear   // half of it arrives
	stream // after this request the connection carries messages
)

// linkBuffer is as large as one read of a socket usually returns.
const linkBuffer = 16 << 10

func newLink(p *Proxy, client, server *net.TCPConn) *link {
	return &link{p: p, client: client, server: server, late: make(chan parcel, 1024)}
}

// close ends the link in both directions.
func (c *link) close() {
	_ = c.client.Close()
	_ = c.server.Close()
}

// flushFirst flushes before it waits for more. So a pipeline leaves in as few packets
// as it came in, and nothing is held back.
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
	streaming := false
	for {
		request, err := proto.Read(r)
		if err != nil {
			break
		}
		if c.lost.Load() {
			continue
		}
		// A request in the inline form, as people type it, is passed on without a look.
		if args, err := proto.ReadStrings(request); err == nil && len(args) > 0 {
			streaming = streaming || c.register(args, w)
		}
		if _, err := w.WriteString(request); err != nil {
			break
		}
	}
	_ = w.Flush()
	_ = c.server.CloseWrite()
}

// register notes the fate of the reply to a request, and holds the request back if a
// rule says so. It reports whether messages come after that reply.
func (c *link) register(args []string, w *bufio.Writer) (streaming bool) {
	gate, f := c.p.rules.judge(args)
	if gate != nil {
		_ = w.Flush() // earlier requests must not wait
		c.p.held.Add(1)
		select {
		case <-gate:
		case <-c.p.ctx.Done():
		}
	}
	switch strings.ToUpper(args[0]) {
	case "MONITOR", "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE":
		f = stream
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, awaited{f, IsScript(args)})
	return f == stream
}

// An awaited is a request without a reply so far.
type awaited struct {
	fate   fate
	script bool // the request runs a script
}

// down passes replies on until the server leaves.
func (c *link) down() {
	defer c.server.Close()
	c.p.wg.Go(c.deliver)
	defer close(c.late)
	defer c.send("")
	r := bufio.NewReaderSize(c.server, linkBuffer)
	for streaming := false; ; {
		frame, err := proto.Read(r)
		if err != nil {
			return
		}
		if c.lost.Load() {
			continue
		}
		if see := c.p.see.Load(); see != nil {
			(*see)()
		}
		f := deliver
		if !streaming {
			f = c.answered(frame[0])
			streaming = f == stream
		}
		c.pass(frame, f)
	}
}

// answered returns the fate of a frame of this kind that has come in: that of the
// oldest request without a reply. Only messages come without a request; in RESP3
// the reply to a subscription is also a message.
func (c *link) answered(kind byte) fate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 || kind == '>' && c.waiting[0].fate != stream {
		return deliver
	}
	first := c.waiting[0]
	c.waiting = c.waiting[1:]
	if first.script {
		c.p.scripts.Add(1)
	}
	return first.fate
}

// pass sends a frame to the client, or hangs up instead. The loop of down continues
// after that: when the client is gone, up closes the other direction, the server leaves,
// and the loop ends.
func (c *link) pass(frame string, f fate) {
	if f != swallow && f != tear {
		c.send(frame)
		return
	}
	c.p.lost.Add(1)
	if f == tear {
		c.send(frame[:len(frame)/2])
	}
	c.send("")
}

// parcel is a reply and the time when it is due. A parcel without a reply ends the
// connection.
type parcel struct {
	reply string
	due   time.Time
}

// send passes a reply on, late if the proxy says so. Without a reply it hangs up, after
// the replies sent before.
func (c *link) send(reply string) {
	c.late <- parcel{reply, time.Now().Add(time.Duration(c.p.delay.Load()))}
}

// deliver sends parcels to the client when they are due, and those of a pipeline
// together. It ignores a client that has left: up closes the other direction then.
func (c *link) deliver() {
	w := bufio.NewWriterSize(c.client, linkBuffer)
	for next := range c.late {
		if wait := time.Until(next.due); wait > 0 {
			_ = w.Flush()
			_ = pause.For(c.p.ctx, wait)
		}
		_, _ = w.WriteString(next.reply)
		if next.reply == "" || len(c.late) == 0 {
			_ = w.Flush()
		}
		if next.reply == "" {
			_ = c.client.Close()
		}
	}
}
