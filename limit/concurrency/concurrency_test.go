package concurrency_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/concurrency"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

func TestBounds(t *testing.T) {
	formtest.Refuses(t, map[string]concurrency.Limit{
		"Most is 0":             {Lease: time.Second},
		"Most is -1":            {Most: -1, Lease: time.Second},
		"Most is 1099511627777": {Most: 1<<40 + 1, Lease: time.Second},
		"Lease is 0s":           {Most: 1},
		"Lease is 999.999µs":    {Most: 1, Lease: time.Millisecond - 1},
		"Lease is 87840h0m1s":   {Most: 1, Lease: 3660*24*time.Hour + time.Second},
	})
}

// takes expects TryAcquire to grant n permits.
func takes(t *testing.T, l concurrency.Leases, n int64) *concurrency.Lease {
	t.Helper()
	lease, ok, err := l.TryAcquire(t.Context(), n)
	if err != nil || !ok || lease == nil {
		t.Errorf("TryAcquire(%d): %v %v %v", n, lease, ok, err)
	}
	return lease
}

// returns releases a lease.
func returns(t *testing.T, lease *concurrency.Lease) {
	t.Helper()
	formtest.Fails(t, nil, lease.Release(t.Context()))
}

// try calls TryAcquire for the arguments of a step.
func try(s *formtest.Stage, args []string, want bool) error {
	lease, ok, err := s.Limiter.(concurrency.Leases).TryAcquire(s.Ctx(), s.Number(args[0]))
	if s.Things[s.As] = lease; err == nil && (ok != want || ok != (lease != nil)) {
		err = fmt.Errorf("%v, %v", lease, ok)
	}
	return err
}

// acquires waits for a lease. With a name, it lets the caller wait, and then work for a while.
func acquires(s *formtest.Stage, args []string) error {
	n, p := s.Number(args[0]), s.Limiter.(concurrency.Leases)
	if s.As == "" {
		_, err := p.Acquire(s.Ctx(), n)
		return err
	}
	s.Start(func(ctx context.Context) error {
		lease, err := p.Acquire(ctx, n)
		if err == nil {
			time.AfterFunc(time.Duration(s.Number(args[1])), func() { returns(s.T, lease) })
		}
		return err
	})
	return nil
}

// of calls a method of the lease of a step.
func of(call func(l *concurrency.Lease, ctx context.Context) error) formtest.Verb {
	return func(s *formtest.Stage, args []string) error {
		return call(s.Things[args[0]].(*concurrency.Lease), s.Ctx())
	}
}

// lasts expects when the lease of a step ends.
func lasts(s *formtest.Stage, args []string) error {
	left := s.Things[args[0]].(*concurrency.Lease).Expires().Sub(s.Now())
	if !s.Is(int64(left), args[1]) {
		return fmt.Errorf("it ends after %v", left)
	}
	return nil
}

// tell tells promises of limits of leases.
func tell(t *testing.T, limits map[string]concurrency.Limit, promises map[string]string) {
	t.Helper()
	algorithms := map[string]formtest.Algorithm{}
	for name, l := range limits {
		algorithms[name] = formtest.Of(l)
	}
	formtest.Play{
		Algorithms: algorithms,
		Verbs: map[string]formtest.Verb{
			"lease":   func(s *formtest.Stage, args []string) error { return try(s, args, true) },
			"none":    func(s *formtest.Stage, args []string) error { return try(s, args, false) },
			"acquire": acquires, "lasts": lasts,
			"extend": of((*concurrency.Lease).Extend), "end": of((*concurrency.Lease).Release),
		},
		Errors: map[string]error{"expired": concurrency.ErrExpired},
	}.Tell(t, promises)
}

// minute returns a limit of leases of a minute.
func minute(most int64) map[string]concurrency.Limit {
	return map[string]concurrency.Limit{"": {Most: most, Lease: time.Minute}}
}

// The steps name some leases: "lease 3 as a; end a".
func TestLeases(t *testing.T) {
	invalid := ""
	for what, n := range map[string][]int64{"invalid": {0, math.MinInt64}, "exceeds": {6, math.MaxInt64}} {
		for _, n := range n {
			invalid += fmt.Sprintf("2x acquire %[1]d %[2]s; 2x lease %[1]d %[2]s; ", n, what)
		}
	}
	tell(t, minute(5), map[string]string{
		"a released lease gives its permits back, once": "" +
			"lease 3 as a; none 3; lease 2; none 1; 2x end a; lease 3; end a; none 1",
		"a lease that has ended gives nothing back, and reports it once": "" +
			"lease 5 as old; lasts old 1m; sleep 59999999us; none 1; sleep 1us; lease 5 as other; " +
			"extend old expired; end old expired; none 1; end old; end other; lease 5",
		"an extended lease lasts": "lease 4 as a; lease 1; " +
			strings.Repeat("sleep 59s; extend a; lasts a 1m; ", 5) +
			"none 2; lease 1 as b; end b; end a; extend a expired; lease 5",
		"Allow counts with leases, and Release leaves leases alone": "" +
			"lease 2 as a; take 2; refuse 2; 2x release 5; none 4; lease 3; end a; lease 2",
		"a look takes nothing": "lease 2; 2x see some left 3; take 3; see none",
		"invalid arguments take nothing": invalid +
			"acquire 1 ended; lease 1 ended; lease 5 as a; end a ended; extend a ended; none 1",
		"Acquire waits until permits are released, or their leases end": "" +
			"lease 3 as a; acquire 3 1h as b; sleep 1s; end a; acquire 3; at 61s..61001ms; seen b 1s",
		"a grant that is returned wakes the line": "" +
			"take 5 as a; acquire 3 1h as b; sleep 1s; back 4 a; seen b 1s; none 2; lease 1",
		"callers are served in order, also one that wants many, and TryAcquire stands in no line": "" +
			"lease 2 as a; lease 3 as b; acquire 5 1s as 1; end a; acquire 1 1s as 2; acquire 5 1s as 3; " +
			"none 3; lease 2; seen 1 1m0s, 2 1m1s, 3 1m2s",
		"the end of a context ends the wait, and the next caller is served": "" +
			"lease 4 as a; acquire 5 1s as 1; acquire 5 1s as 2; acquire 1 1h as 3; sleep 1s; leave 2; " +
			"leave 1; seen 2 1s left, 1 1s left, 3 1s; end a; lease 4",
		"each key has its own limit": "one: lease 5; other: lease 5; one: none 1",
		"leases go by the clock of the option, set back for a lease at most": "" +
			"lease 5 as a; clock -1h; refuse 1 reset 1us..1m; clock 1m; lease 5; end a expired",
		"so do leases of which only the last shows that the clock was set back": "" +
			"lease 1 as a; clock 30s; lease 4 as b; clock -25s; refuse 1 reset 1us..1m retry 1us..1m; " +
			"clock 61s; lease 5; end b expired",
	})
	tell(t, map[string]concurrency.Limit{
		"old": {Most: 10, Lease: time.Hour}, "young": {Most: 3, Lease: 50 * time.Millisecond},
	}, map[string]string{
		"limits with other numbers share leases, each of its length": "" +
			"old: lease 2 as long; young: lease 1; young: none 1; old: lease 7 as rest; " +
			"young: refuse 1 left 0 retry 1us..1h; old: end rest; old: none 8; sleep 50ms; " +
			"old: lease 8 as a; old: end a; old: none 9; old: end long",
		"an administrator removes a lease, and within a minute the sum is right again": "" +
			"old: lease 5; old: lease 5; redis ZREMRANGEBYRANK KEY -1 -1; sleep 61s; old: lease 5 as a; " +
			"old: end a; old: none 6",
	})
	formtest.Tell(t, formtest.Of(concurrency.Limit{Most: 10, Lease: time.Hour}), map[string]string{
		"a grant that is returned is that grant, not an older one, whose caller may be dead": "" +
			"take 4; sleep 30m; take 6 as a; back -1 a invalid; back 5 a; refuse 6; " +
			"sleep 30m; take 9; refuse 1",
	})
	empty := redistest.Must(concurrency.Limit{Most: 1, Lease: time.Minute}.InMemory())(t).For("")
	_, err := empty.Acquire(t.Context(), 1)
	formtest.Fails(t, limit.ErrInvalidArgument, err)
	_, _, err = empty.TryAcquire(t.Context(), 1)
	formtest.Fails(t, limit.ErrInvalidArgument, err)
}

// A lease that was dropped with the state of its key has ended, and does not change the next state.
func TestALeaseOfADroppedKeyHasEnded(t *testing.T) {
	for _, call := range []string{"end", "extend"} {
		for beside := range 3 {
			next := fmt.Sprintf("key: lease %d; ", 2-beside)
			tell(t, minute(2), map[string]string{fmt.Sprint(call, " beside ", beside): "" +
				"key: lease 2 as old; " +
				strings.Repeat("sleep 50s; other: lease 1; sleep 1m; ", 4) +
				strings.Repeat("key: lease 1; ", beside) + "key: " + call + " old expired; " +
				strings.Repeat(next, (2-beside+1)/2) + "key: none 1; sleep 1m; key: lease 2",
			})
		}
	}
}

// A limit has at most 2,000 grants, which bounds the time of a script.
func TestGrantsAreBounded(t *testing.T) {
	const full = "refuse 1 left 0 retry 1us..1h; release 2; take 1099511623778; refuse 1"
	of := formtest.Of(concurrency.Limit{Most: 1 << 40, Lease: time.Hour})
	play := formtest.Play{Algorithms: map[string]formtest.Algorithm{"": of}, Forms: formtest.InMemory}
	play.Tell(t, map[string]string{"in memory": "2000x take 2; " + full})
	formtest.Tell(t, of, map[string]string{ // nearly an hour after a bubble begins, in µs
		"of other processes": "take 2; " + formtest.Each(1999,
			"redis ZADD {name}:concurrency 946688399999999 other@#:2:3600000000; ") + "sleep 61s; " + full,
	})
}
