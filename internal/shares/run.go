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

// Repeat runs a scenario n times, side by side if a run takes long. One run says little, because the tick
// of the timer of a Redisson instance is random since 3.48.0.
func Repeat(ctx context.Context, peer *javapeer.Peer, sc Scenario, n int) ([]Result, error) {
	results, errs := make([]Result, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { results[i], errs[i] = Run(ctx, peer, sc) })
		if sc.Interval <= time.Second {
			all.Wait()
		}
	}
	all.Wait()
	return results, errors.Join(errs...)
}

// Run plays a scenario on a server of its own. The peer may be nil if the scenario has no Java.
func Run(ctx context.Context, peer *javapeer.Peer, sc Scenario) (r Result, err error) {
	var s redistest.Scope
	defer func() { s.End(recover(), &err) }()
	server := redistest.Start(&s)
	admin := rratelimiter.New(server.Admin())
	s.Cleanup(func() { _ = admin.Close() })
	name, warm := redistest.Name(&s), redistest.Name(&s)
	if err := admin.RateLimiter(name).SetRate(ctx, rratelimiter.Overall, sc.Rate, sc.Interval); err != nil {
		return r, err
	}
	if err := admin.RateLimiter(warm).SetRate(ctx, rratelimiter.Overall, 40, late); err != nil {
		return r, err
	}
	tries := make([]Try, sc.Go.Clients)
	for i := range tries {
		rdb := server.Client(&s)
		if err := rdb.Ping(ctx).Err(); err != nil {
			return r, err
		}
		tries[i] = sc.goTry(&s, rdb, name)
	}
	j := javaSide{peer: peer, side: sc.Java}
	if err := j.connect(ctx, &s, server, warm); err != nil {
		return r, err
	}
	start := time.Now()
	var golang, java Grants
	var goErr, javaErr error
	var both sync.WaitGroup
	both.Go(func() { golang, goErr = Play(ctx, sc, sc.Go, start, tries) })
	both.Go(func() { java, javaErr = j.play(ctx, sc, start, name) })
	both.Wait()
	return sc.Measure(start, golang, java), errors.Join(goErr, javaErr)
}

func (sc Scenario) goTry(s *redistest.Scope, rdb redis.UniversalClient, name string) Try {
	c := rratelimiter.New(rdb, sc.Options...)
	s.Cleanup(func() { _ = c.Close() })
	try := sc.Try(c.RateLimiter(name))
	return func(ctx context.Context, permits int64, timeout time.Duration) (bool, error) {
		ok, err := try(ctx, permits, timeout)
		if errors.Is(err, rratelimiter.ErrNoAnswer) { // a busy machine replies too late
			err = nil
		}
		return ok, err
	}
}

// A Try is a client: it tries to acquire permits.
type Try func(ctx context.Context, permits int64, timeout time.Duration) (bool, error)

// Try returns a client of Go, which holds its permits for sc.Holds.
func (sc Scenario) Try(l *rratelimiter.RateLimiter) Try {
	if sc.Holds == 0 {
		return l.TryAcquire
	}
	return func(ctx context.Context, permits int64, timeout time.Duration) (bool, error) {
		ok, err := l.TryAcquire(ctx, permits, timeout)
		if ok {
			time.Sleep(sc.Holds)
			err = l.Release(ctx, permits)
		}
		return ok, err
	}
}

// Play lets the callers of a side acquire permits until the scenario is over.
func Play(ctx context.Context, sc Scenario, side Side, start time.Time, clients []Try) (g Grants, err error) {
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		errs []error // guarded by mu, and so is g
	)
	at := func(interval int) time.Time { return start.Add(time.Duration(interval) * sc.Interval) }
	end := at(sc.Intervals())
	if side.Till > 0 {
		end = at(side.Till)
	}
	ctx, stop := context.WithDeadline(ctx, end)
	defer stop()
	caller := func(client int) error {
		time.Sleep(time.Until(at(side.From)))
		for {
			came := time.Now()
			ok, err := clients[client](ctx, side.permits(), side.Patience())
			now := time.Now()
			if ctx.Err() != nil || err != nil {
				return errors.Join(err, ctx.Err())
			}
			mu.Lock()
			if came.After(at(sc.judgedFrom())) {
				g.Asked++
			}
			if ok {
				g.All = append(g.All, Grant{now, now.Sub(came), side.permits(), client})
				if came.After(at(sc.judgedFrom())) {
					g.Served++
				}
			}
			mu.Unlock()
			switch {
			case side.Every > 0:
				time.Sleep(side.Every - now.Sub(came))
			case !ok && side.Timeout < 0:
				time.Sleep(time.Millisecond)
			}
		}
	}
	for client := range clients {
		for range side.Callers {
			all.Go(func() {
				if err := caller(client); !errors.Is(err, context.DeadlineExceeded) {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	return g, errors.Join(errs...)
}

// A javaSide has the callers of Java, with Redisson instances of their own.
type javaSide struct {
	peer    *javapeer.Peer
	side    Side
	clients []string
}

// connect connects the instances and uses each for a while, on another limiter that is too small,
// until the JVM has compiled the code of the run.
func (j *javaSide) connect(
	ctx context.Context, s *redistest.Scope, server *redistest.Server, name string,
) error {
	const warmth = 500 * time.Millisecond
	for range j.side.Clients {
		client := redistest.Name(s)
		if _, err := j.peer.Connect(ctx, client, server.Addr); err != nil {
			return err
		}
		// Disconnect the instance also when ctx has ended.
		s.Cleanup(func() { _ = j.peer.Disconnect(context.WithoutCancel(ctx), client) })
		j.clients = append(j.clients, client)
		_, err := j.peer.Limiter(client, name).Hammer(ctx, javapeer.HammerOptions{
			Threads: j.side.Callers, Duration: warmth, Timeout: 2 * late,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// play lets the threads of Java acquire permits.
func (j *javaSide) play(
	ctx context.Context, sc Scenario, start time.Time, name string,
) (g Grants, err error) {
	switch {
	case j.side.Clients == 0:
		return g, nil
	case j.side.Every > 0:
		l := j.peer.Limiter(j.clients[0], name)
		return Play(ctx, sc, j.side, start, []Try{l.TryAcquire})
	}
	from := start.Add(time.Duration(j.side.From) * sc.Interval)
	till := start.Add(time.Duration(sc.Intervals()) * sc.Interval)
	if j.side.Till > 0 {
		till = start.Add(time.Duration(j.side.Till) * sc.Interval)
	}
	time.Sleep(time.Until(from))
	got, err := j.peer.Limiter(j.clients[0], name).Hammer(ctx, javapeer.HammerOptions{
		Permits: j.side.permits(), Threads: j.side.Clients * j.side.Callers,
		Duration: time.Until(till), Timeout: j.side.Patience(), Clients: j.clients,
	})
	for _, moments := range got {
		waited := moments[1].Sub(moments[0])
		g.All = append(g.All, Grant{At: moments[1], Waited: waited, Permits: j.side.permits()})
	}
	return g, err
}
