package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// observerPart shows what an observer costs, so that nobody needs to guess what
// WithObserver would change.
var observerPart = &part{
	name: "observer", set: setPage, measure: measureObserver,
	about: "time and Go allocations of an acquire with an observer and without one",
}

// An observerData is what an acquire costs in the process, with a Redis that
// answers at once.
type observerData struct{ Rows []observerRow }

// An observerRow is one kind of call, in turns by Clients with and without an
// observer.
type observerRow struct {
	Name string

	// ns of a call: without an observer, by a second Client without one, and with one.
	Without, Again, With float64
	Added, Noise         float64 // ns by which With and Again exceed Without

	Allocs, AllocsWith float64
}

// The Clients of the part. Two of them are alike: what they differ by is noise.
const (
	withoutObserver = iota
	withoutAgain
	withObserver
	observedClients
)

// nobody is an observer that does nothing.
type nobody struct{}

// Observe does nothing.
func (nobody) Observe(context.Context, rratelimiter.Observation) {}

// measureObserver measures both in turns.
func measureObserver(ctx context.Context, s *scope) (finding, error) {
	var clients [observedClients]*rratelimiter.Client
	for i := range clients {
		var opts []rratelimiter.Option
		if i == withObserver {
			opts = append(opts, rratelimiter.WithObserver(nobody{}))
		}
		clients[i] = s.instantly(replyGranted, opts...)
	}
	d := new(observerData)
	for _, kind := range []struct {
		name string
		ask  func(*rratelimiter.Client) ask
	}{
		{"TryAcquire", func(c *rratelimiter.Client) ask { return tryAcquire(c.RateLimiter("limiter")) }},
		{"TryAcquire of a user", func(c *rratelimiter.Client) ask {
			t := c.Keyed("users", 100, time.Minute)
			return func(ctx context.Context) (bool, error) { return t.TryAcquire(ctx, "42", 1, 0) }
		}},
	} {
		row, err := observe(ctx, s, kind.name, clients, kind.ask)
		if err != nil {
			return finding{}, err
		}
		d.Rows = append(d.Rows, row)
	}
	lone := d.Rows[0]
	return finding{d, []target{
		most("T13", "without an observer: a TryAcquire by another one without it, 1 but for noise",
			1+lone.Noise/lone.Without, 1+tolerance, ""),
		most("T13", "an observer that does nothing: added to a TryAcquire", lone.Added/1000, 2, " µs"),
		most("T13", "an observer that does nothing: allocations added to a TryAcquire",
			lone.AllocsWith-lone.Allocs, 0, ""),
	}}, nil
}

// observe measures one kind of call.
func observe(
	ctx context.Context, s *scope, name string, clients [observedClients]*rratelimiter.Client,
	kind func(*rratelimiter.Client) ask,
) (row observerRow, err error) {
	jobs := make([]func() error, observedClients)
	var allocs [observedClients]float64
	for i, c := range clients {
		once := kind(c)
		jobs[i] = func() error { return second(once(ctx)) }
		if allocs[i], err = allocsOf(ctx, once, amount(s, 5000, 20)); err != nil {
			return row, err
		}
	}
	ns, err := loops(ctx, jobs, amount(s, 1500, 1), amount(s, 40, 20))
	if err != nil {
		return row, err
	}
	without, again, with := ns[withoutObserver], ns[withoutAgain], ns[withObserver]
	return observerRow{
		Name: name, Without: quantile(slices.Clone(without), 0.5), Again: quantile(slices.Clone(again), 0.5),
		With: quantile(slices.Clone(with), 0.5), Added: beyond(with, without), Noise: beyond(again, without),
		Allocs: allocs[withoutObserver], AllocsWith: allocs[withObserver],
	}, nil
}

// instantly returns a Client whose Redis gives the same reply to each script.
func (s *scope) instantly(reply []byte, opts ...rratelimiter.Option) *rratelimiter.Client {
	dial := func(context.Context, string, string) (net.Conn, error) { return newInstant(reply), nil }
	rdb := redis.NewClient(&redis.Options{Dialer: dial, Protocol: 2, DisableIdentity: true, PoolSize: 1})
	s.Cleanup(func() { _ = rdb.Close() }) // nothing was to be kept
	return s.client(rdb, opts...)
}

// An instant is a connection to a Redis that replies at once. A real one takes so
// long that what an observer costs could not be seen.
type instant struct {
	script  []byte      // the reply to a script
	replies chan []byte // of the last request
	left    []byte      // of a reply that was read in part
	closed  context.Context
	close   context.CancelFunc
}

// newInstant returns one.
func newInstant(reply []byte) *instant {
	closed, end := context.WithCancel(context.Background())
	return &instant{script: reply, replies: make(chan []byte, 16), closed: closed, close: end}
}

// The replies: of acquire.lua that has granted a permit, without and with numbers,
// and to what go-redis asks of a server when it connects, as an old one would reply.
var (
	replyGranted = []byte(":0\r\n")
	replyNumbers = []byte("*9\r\n:0\r\n:100\r\n:99\r\n:0\r\n:60000\r\n:60000\r\n:0\r\n:1\r\n:0\r\n")
	replyUnknown = []byte("-ERR unknown command\r\n")
)

// Write replies to a request.
func (i *instant) Write(p []byte) (int, error) {
	switch {
	case i.closed.Err() != nil:
		return 0, net.ErrClosed
	case bytes.Contains(p[:min(len(p), 32)], []byte("evalsha")):
		i.replies <- i.script
	default:
		i.replies <- replyUnknown
	}
	return len(p), nil
}

// Read returns the reply.
func (i *instant) Read(p []byte) (int, error) {
	if len(i.left) == 0 {
		select {
		case i.left = <-i.replies:
		case <-i.closed.Done():
			return 0, io.EOF
		}
	}
	n := copy(p, i.left)
	i.left = i.left[n:]
	return n, nil
}

// Close ends the connection.
func (i *instant) Close() error {
	i.close()
	return nil
}

// Everything else that a connection has is of no use here.
func (*instant) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*instant) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*instant) SetDeadline(time.Time) error      { return nil }
func (*instant) SetReadDeadline(time.Time) error  { return nil }
func (*instant) SetWriteDeadline(time.Time) error { return nil }
