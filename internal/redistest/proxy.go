package redistest

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy stands between clients and one server and does what a bad network does: it
// loses replies, delays them, and breaks connections. It parses requests and replies,
// also in pipelines, so it knows which reply belongs to which request.
//
// A connection that subscribes (or monitors) carries messages without a request
// from then on. They are passed on, delayed and counted, but requests of that
// connection are no longer held or paired with replies. CLIENT REPLY OFF is not
// supported.
//
// The methods may be called from any goroutine, Up only from that of the test.
type Proxy struct {
	Addr string // for clients

	t       TB
	target  string
	wg      sync.WaitGroup
	ctx     context.Context // ends with the test
	end     context.CancelFunc
	delay   atomic.Int64           // ns
	see     atomic.Pointer[func()] // of ObserveReplies
	held    atomic.Int64           // requests
	lost    atomic.Int64           // replies
	scripts atomic.Int64           // to which the server has replied
	rules   rules

	mu       sync.Mutex // guards the rest
	listener net.Listener
	conns    map[*link]struct{}
	vanished bool // new connections are also lost
}

// StartProxy starts a proxy in front of the server at target, which need not run
// yet. It ends with the test.
func StartProxy(t TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, target: target, conns: map[*link]struct{}{}}
	p.ctx, p.end = context.WithCancel(context.Background())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	p.Addr = l.Addr().String()
	p.serve(l)
	t.Cleanup(p.close)
	return p
}

// serve accepts connections of l until it is closed.
func (p *Proxy) serve(l net.Listener) {
	p.mu.Lock()
	p.listener = l
	p.mu.Unlock()
	p.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.connect(client) })
		}
	})
}

// connect dials the server for client and passes on what they send until both have
// left.
func (p *Proxy) connect(client net.Conn) {
	server, err := net.DialTimeout("tcp", p.target, 5*time.Second)
	if err != nil {
		_ = client.Close()
		return
	}
	c := newLink(p, client.(*net.TCPConn), server.(*net.TCPConn))
	if !p.add(c) {
		c.close()
		return
	}
	p.wg.Go(c.up)
	c.down()
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
}

// add registers c, unless the proxy has been closed meanwhile.
func (p *Proxy) add(c *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return false
	}
	p.conns[c] = struct{}{}
	c.lost.Store(p.vanished)
	return true
}

// Delay makes each reply arrive d later from now on; 0 ends it. Replies are
// late but not slow: those of a pipeline are all d late, not d apart.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Cut closes all connections to clients now. The server still executes requests that
// were sent, and a request that is held stays held.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.client.Close()
	}
}

// Vanish throws away everything that comes over the open connections, from either side,
// as a firewall does that has forgotten them. So it does with new connections until
// appear is called. Connections that were lost stay lost.
func (p *Proxy) Vanish() (appear func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.vanished = true
	for c := range p.conns {
		c.lost.Store(true)
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.vanished = false
	}
}

// Down refuses new connections. Open ones stay open; see Cut.
func (p *Proxy) Down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
}

// Up accepts connections again, on the same port.
func (p *Proxy) Up() {
	p.t.Helper()
	p.mu.Lock()
	up := p.listener != nil
	p.mu.Unlock()
	if up {
		return
	}
	Until(p.t, "listening on "+p.Addr+" again", func() error {
		l, err := net.Listen("tcp", p.Addr)
		if err == nil {
			p.serve(l)
		}
		return err
	})
}

// Held returns how many requests have been held back so far, including released ones.
// A test can wait for it to know that a request has come.
func (p *Proxy) Held() int64 { return p.held.Load() }

// ScriptsRun returns how many scripts the server has replied to, whatever becomes of the reply.
func (p *Proxy) ScriptsRun() int64 { return p.scripts.Load() }

// Swallowed returns how many replies have been swallowed or torn so far.
func (p *Proxy) Swallowed() int64 { return p.lost.Load() }

// close ends the proxy and all its goroutines.
func (p *Proxy) close() {
	p.Down()
	p.mu.Lock()
	p.end()
	for c := range p.conns {
		c.close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}
