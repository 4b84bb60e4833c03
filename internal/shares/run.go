package shares

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

const (
	// settle is how long callers work before the measured span: longer than both
	// sides need to begin, and to use up the permits of the start.
	settle = time.Second
	// tail is how long callers work after the span, so that none ends within it.
	tail = 200 * time.Millisecond
	// warmth is how long each Redisson instance works on another limiter before.
	warmth = 500 * time.Millisecond
)

// Repeat runs a scenario n times, side by side: waiting needs next to no CPU. The
// tick of the timer of a Redisson instance is random since 3.48.0, so one run
// says little.
func Repeat(
	ctx context.Context, peer *javapeer.Peer, sc Scenario, span time.Duration, n int,
) (Several, error) {
	return sideBySide(n, func() (Result, error) { return Run(ctx, peer, sc, span) })
}

func sideBySide[T any](n int, run func() (T, error)) ([]T, error) {
	results, errs := make([]T, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { results[i], errs[i] = run() })
	}
	all.Wait()
	return results, errors.Join(errs...)
}

// Run lets both sides share a limiter, and measures for a span how much each side
// gets. The peer may be nil if the scenario has no Java.
func Run(ctx context.Context, peer *javapeer.Peer, sc Scenario, span time.Duration) (r Result, err error) {
	var s redistest.Scope
	defer func() { s.End(recover(), &err) }()
	server := redistest.Start(&s)
	clients := make([]redis.UniversalClient, sc.Go.Clients)
	for i := range clients {
		clients[i] = server.Client(&s)
		if err := clients[i].Ping(ctx).Err(); err != nil {
			return r, err
		}
	}
	j := &javaSide{peer: peer, side: sc.Java}
	if err := j.connect(ctx, &s, server); err != nil {
		return r, err
	}
	name := redistest.Name(&s)
	if err := setRate(ctx, server, name, sc.Limit); err != nil {
		return r, err
	}

	w, duration := newWindow(span)
	var goGrants, javaGrants []grant
	var goErr, javaErr error
	var both sync.WaitGroup
	both.Go(func() { javaGrants, javaErr = j.hammer(ctx, name, duration) })
	g := &goSide{sc.Go, sc.Options, clients}
	both.Go(func() { goGrants, goErr = g.hammer(ctx, name, duration) })
	both.Wait()
	return newResult(sc, w.count(goGrants, sc.Interval), w.count(javaGrants, sc.Interval), sc.possible(span)),
		errors.Join(goErr, javaErr)
}

// newWindow returns the window of a span for callers that begin now, and how long
// they work.
func newWindow(span time.Duration) (w window, duration time.Duration) {
	from := time.Now().Add(settle)
	return window{from, from.Add(span)}, settle + span + tail
}

func setRate(ctx context.Context, server *redistest.Server, name string, limit Limit) error {
	c := rratelimiter.New(server.Admin())
	err := c.RateLimiter(name).SetRate(ctx, rratelimiter.Overall, limit.Rate, limit.Interval)
	return errors.Join(err, c.Close())
}

// goSide is the callers of Go. Each connection has a Client with these options.
type goSide struct {
	Side
	options []rratelimiter.Option
	clients []redis.UniversalClient
}

// hammer is javapeer's Hammer in Go: each caller acquires until duration is over.
func (g *goSide) hammer(ctx context.Context, name string, duration time.Duration) ([]grant, error) {
	var (
		all    sync.WaitGroup
		mu     sync.Mutex
		grants []grant // guarded by mu, and so are errs
		errs   []error
	)
	end := time.Now().Add(duration)
	for _, rdb := range g.clients {
		c := rratelimiter.New(rdb, g.options...)
		defer c.Close() //revive:disable-line:defer they end together
		l := c.RateLimiter(name)
		for range g.Callers {
			all.Go(func() {
				got, err := acquire(ctx, l, g.Side, end)
				mu.Lock()
				defer mu.Unlock()
				grants, errs = append(grants, got...), append(errs, err)
			})
		}
	}
	all.Wait()
	return grants, errors.Join(errs...)
}

// acquire acquires permits again and again until end.
func acquire(
	ctx context.Context, l *rratelimiter.RateLimiter, side Side, end time.Time,
) (grants []grant, err error) {
	for time.Now().Before(end) {
		start := time.Now()
		ok, err := l.TryAcquire(ctx, side.Permits, side.timeout())
		if err != nil && !errors.Is(err, rratelimiter.ErrNoAnswer) { // a busy machine replies too late
			return nil, err
		}
		if ok {
			grants = append(grants, grant{time.Now(), side.Permits, time.Since(start)})
		}
	}
	return grants, nil
}

// javaSide is the callers of Java, with Redisson instances of their own.
type javaSide struct {
	peer    *javapeer.Peer
	side    Side
	clients []string
}

// connect connects the instances and uses each for a while, on another limiter
// that is too small. After that the JVM has compiled what the run needs.
func (j *javaSide) connect(ctx context.Context, s *redistest.Scope, server *redistest.Server) error {
	if j.side.Callers == 0 {
		return nil
	}
	for range j.side.Clients {
		client := redistest.Name(s)
		if _, err := j.peer.Connect(ctx, client, server.Addr); err != nil {
			return err
		}
		// Disconnect the instance also when ctx has ended.
		s.Cleanup(func() { _ = j.peer.Disconnect(context.WithoutCancel(ctx), client) })
		j.clients = append(j.clients, client)
	}
	name := redistest.Name(s)
	if err := setRate(ctx, server, name, Limit{40, 100 * time.Millisecond}); err != nil {
		return err
	}
	_, err := j.hammer(ctx, name, warmth)
	return err
}

func (j *javaSide) hammer(ctx context.Context, name string, duration time.Duration) ([]grant, error) {
	if j.side.Callers == 0 {
		return nil, nil
	}
	got, _, err := j.peer.Limiter(j.clients[0], name).Hammer(ctx, javapeer.HammerOptions{
		Permits: j.side.Permits, Threads: j.side.Clients * j.side.Callers,
		Duration: duration, Timeout: j.side.timeout(), Clients: j.clients,
	})
	grants := make([]grant, len(got))
	for i, moments := range got {
		grants[i] = grant{at: moments[1], permits: j.side.Permits}
	}
	return grants, err
}
