package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A contestant is a row of a table. enter makes what runs its turns.
type contestant struct {
	name  string
	enter func(ctx context.Context, e *env) turner
	rival bool // of another library: where it is ahead, the table says so
}

// A turner gives callers their turn, and returns what they showed.
type turner func(ctx context.Context, c crowd) (sample, error)

// A crowd is callers that call in a tight loop. Callers of a lock are spread over processes, or what stands
// for them: Clients with connections of their own.
type crowd struct{ callers, processes int }

// An ask asks for a permit of a user, and reports whether it was granted.
type ask func(ctx context.Context, user string) (bool, error)

// A sample is what one turn showed. NaN is a figure that a contestant does not have.
type sample struct {
	perSecond float64 // calls, or hand-overs of a lock
	p50, p99  float64 // µs of one
	cpu       float64 // µs of the process of Redis for one
	script    float64 // µs of those within scripts, as Redis counts them
	calls     float64 // script calls for one
	allocs    float64 // of Go for one
}

// An env is where a scenario is measured: one server, on which all contestants take turns. Servers of their
// own would differ by where their memory lies.
type env struct {
	redistest.Scope
	*bench
	scenario

	server *redistest.Server
	admin  *redis.Client // for what is not measured
	users  []string
}

func (e *env) start(ctx context.Context) {
	e.server = redistest.Start(e)
	e.admin = e.server.Admin()
	e.redis = get(e.admin.InfoMap(ctx, "server").Result())["Server"]["redis_version"]
	e.users = make([]string, max(1, amount(e, e.keys, min(e.keys, 200))))
	for i := range e.users {
		e.users[i] = fmt.Sprintf("user-%06d", i)
	}
	e.warmup, e.span = amount(e, e.warmup, 10*time.Millisecond), amount(e, e.span, 20*time.Millisecond)
}

// amount returns full, or brief if only that everything works is wanted.
func amount[T any](e *env, full, brief T) T {
	if e.brief {
		return brief
	}
	return full
}

// must ends the scenario at an error, which measure returns. It is for the goroutine of the scenario only.
func must(err error) {
	if err != nil {
		new(redistest.Scope).Fatalf("%w", err)
	}
}

// get returns the value of a call that must not fail.
func get[T any](value T, err error) T {
	must(err)
	return value
}

// rdb returns a client with the default pool of go-redis, 10 connections for each core, whose callers wait
// for a connection as long as it takes: giving up would be an error instead of a latency.
func (e *env) rdb(mods ...func(*redis.Options)) *redis.Client {
	patient := func(o *redis.Options) { o.PoolTimeout = 5 * time.Minute }
	return e.server.Client(e, append(mods, patient)...)
}

// client returns a Client of this library that is closed at the end.
func (e *env) client(rdb *redis.Client, opts ...rratelimiter.Option) *rratelimiter.Client {
	c := rratelimiter.New(rdb, opts...)
	e.Cleanup(func() { _ = c.Close() }) // it returns no error but that it was closed before
	return c
}

// turns lets the contestants take turns. Each round begins with another one, so that none always follows the
// same one, and each turn without the garbage of the one before. A rival that fails has no figures.
func (e *env) turns(ctx context.Context) table {
	n := amount(e, e.rounds*max(1, e.times), 1)
	found, turners := newFindings(e), make([]turner, len(e.rows))
	for i, row := range e.rows {
		turners[i] = row.enter(ctx, e)
	}
	for round := range n {
		for i := range e.rows {
			who := (i + round) % len(e.rows)
			for in, c := range e.crowds {
				if found.failed[who][in] {
					continue
				}
				runtime.GC() //revive:disable-line:call-to-gc none pays for the garbage of another
				s, err := turners[who](ctx, c)
				if err != nil {
					err = fmt.Errorf("%s, %d callers: %w", e.rows[who].name, c.callers, err)
				}
				if err != nil && (!e.rows[who].rival || ctx.Err() != nil) {
					must(err)
				}
				if found.failed[who][in] = err != nil; err != nil {
					fmt.Fprintln(os.Stderr, err)
				}
				found.samples[who][in] = append(found.samples[who][in], s)
			}
		}
	}
	return found.table()
}

// hundred is how often callers call between two looks at the clock if answers come from memory: a look takes
// as long as a call.
const hundred = 100

// limiter is a contestant whose callers share what made returns. They read the clock after every batch of
// calls.
func limiter(batch int, made func(ctx context.Context, e *env) ask) func(context.Context, *env) turner {
	return func(ctx context.Context, e *env) turner {
		once := made(ctx, e)
		// All users have come once. Where callers are refused, this takes the only permit.
		must(inParallel(64, len(e.users), func(i int) error {
			ok, err := once(ctx, e.users[i])
			return e.expected(ok || e.refused, err)
		}))
		return func(ctx context.Context, c crowd) (sample, error) {
			return e.turn(ctx, c, batch, func(ctx context.Context) (err error) {
				for range batch {
					ok, err := once(ctx, e.users[rand.IntN(len(e.users))])
					if err = e.expected(ok != e.refused, err); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
}

// expected returns the error of a call. To measure refusals as grants would flatter a contestant.
func (*env) expected(is bool, err error) error {
	if err == nil && !is {
		err = errors.New("a call was refused that must be granted, or the other way round")
	}
	return err
}

const (
	warming int32 = iota
	measuring
	ended
)

// turn measures callers after a warm-up. do makes a batch of calls.
func (e *env) turn(
	ctx context.Context, c crowd, batch int, do func(context.Context) error,
) (sample, error) {
	var phase atomic.Int32
	var all sync.WaitGroup
	took, errs := make([][]float64, c.callers), make([]error, c.callers)
	for i := range c.callers {
		// As callers that do not wait usually have it, the context does not end.
		all.Go(func() { took[i], errs[i] = caller(context.WithoutCancel(ctx), &phase, do) })
	}
	time.Sleep(e.warmup)
	var before, after runtime.MemStats
	var lasted time.Duration
	used, err := e.usage(ctx, func() error {
		runtime.ReadMemStats(&before)
		start := time.Now()
		phase.CompareAndSwap(warming, measuring) // unless an error has ended it
		time.Sleep(e.span)
		phase.Store(ended)
		lasted = time.Since(start)
		runtime.ReadMemStats(&after)
		return nil
	})
	phase.Store(ended)
	all.Wait() // before the error: no caller outlives its turn
	us := slices.Concat(took...)
	n := float64(max(1, len(us)) * batch)
	s := used.by(n)
	s.perSecond, s.allocs = n/lasted.Seconds(), float64(after.Mallocs-before.Mallocs)/n
	s.p50, s.p99 = quantile(us, 0.50)/float64(batch), quantile(us, 0.99)/float64(batch)
	return s, errors.Join(err, errors.Join(errs...), ctx.Err())
}

// caller calls until the turn ends, and returns the µs of each call that ended while it was measured. It
// reads the clock once per call, as the Java peer does: the end of a call is the start of the next.
func caller(ctx context.Context, phase *atomic.Int32, do func(context.Context) error) ([]float64, error) {
	took := make([]float64, 0, 1024)
	for last := time.Now(); phase.Load() != ended; {
		if err := do(ctx); err != nil {
			phase.Store(ended)
			return took, err
		}
		now := time.Now()
		if phase.Load() == measuring {
			took = append(took, float64(now.Sub(last))/1e3)
		}
		last = now
	}
	return took, nil
}

// inParallel calls do for each number below n. A caller stops at its first error.
func inParallel(callers, n int, do func(i int) error) error {
	var next atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, callers)
	for caller := range callers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && errs[caller] == nil; i = int(next.Add(1)) - 1 {
				errs[caller] = do(i)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// A usage is what a server has done between two moments.
type usage struct {
	cpu, script float64 // µs of its process, and of scripts
	calls       float64 // of scripts
}

// by returns the part of one of n calls.
func (u usage) by(n float64) sample {
	none := math.NaN()
	return sample{none, none, none, u.cpu / n, u.script / n, u.calls / n, none}
}

// usage returns what the server does during do.
func (e *env) usage(ctx context.Context, do func() error) (usage, error) {
	before, err := e.readUsage(ctx)
	if err == nil {
		err = do()
	}
	after, err2 := e.readUsage(ctx)
	return usage{
		after.cpu - before.cpu, after.script - before.script, after.calls - before.calls,
	}, errors.Join(err, err2)
}

func (e *env) readUsage(ctx context.Context) (u usage, err error) {
	info, err := e.admin.InfoMap(ctx, "cpu", "commandstats").Result()
	if err != nil {
		return u, err
	}
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err2 := strconv.ParseFloat(info["CPU"][field], 64)
		u.cpu, err = u.cpu+seconds*1e6, errors.Join(err, err2)
	}
	for field, text := range info["Commandstats"] {
		if strings.HasPrefix(field, "cmdstat_eval") { // eval and evalsha
			var calls, usec float64
			_, err2 := fmt.Sscanf(text, "calls=%g,usec=%g", &calls, &usec)
			u.calls, u.script, err = u.calls+calls, u.script+usec, errors.Join(err, err2)
		}
	}
	return u, err
}
