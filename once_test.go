package rratelimiter_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// B4: a reply that is lost makes the request be sent again; the permits are
// taken once and the caller gets the first answer.
func TestAcquireIsChargedOnce(t *testing.T) {
	for _, permits := range []int64{1, 4, 10, 1 << 33} { // 10 and more are the last ones
		n := newLine(t, max(10, permits), time.Hour)
		for lost := 1; lost <= 3; lost++ {
			n.want(n.l.SetRate(t.Context(), overall, max(10, permits), time.Hour))
			n.proxy.SwallowReply(lost)
			n.l.takes(permits)
			n.l.has(max(10, permits) - permits)
			n.l.keeps(max(10, permits), n.l.value(), n.l.permits())
		}
		if got := n.proxy.Swallowed(); got != 6 {
			t.Fatalf("%d replies were lost, want 6", got)
		}
	}
}

func TestARefusalThatIsLostIsARefusal(t *testing.T) {
	n := newLine(t, 5, time.Hour)
	n.l.takes(5)
	n.proxy.SwallowReply(2)
	n.l.refused(1, time.Hour)
	n.l.keeps(5, n.l.value(), n.l.permits())
}

// B4 for Release: given back once.
func TestReleaseIsDoneOnce(t *testing.T) {
	n := newLine(t, 20, time.Hour)
	n.l.takes(5)
	n.l.takes(5)
	n.proxy.SwallowReply(3)
	n.l.gives(4)
	n.l.has(14)
	n.proxy.SwallowReply(1)
	n.l.gives(6) // all that is outstanding
	n.l.has(20)
	n.l.keeps(20, n.l.value(), n.l.permits())
	if got := n.proxy.Swallowed(); got != 4 {
		t.Fatalf("%d replies were lost, want 4", got)
	}
}

// The fields by which requests are known do not pile up: one for each Client, and
// those of Clients that have gone are swept out.
func TestFieldsDoNotPileUp(t *testing.T) {
	n := newLine(t, 10, time.Hour)
	for range 10 { // with a RateLimiter for each request
		n.l.takes(1)
		n.l.by(n.client).takes(1)
		n.l.by(n.client).gives(2)
	}
	if fields := n.l.fields(); len(fields) != 1 {
		t.Fatalf("%q after 10 releases by one Client, want one session", fields)
	}
	for range 100 { // clients that release once and go
		n.takesAndGives()
	}
	n.now += 61_000
	n.takesAndGives()
	if fields := n.l.fields(); len(fields) != 1 {
		t.Fatalf("%d fields a minute after 100 clients have gone, want that of the last one", len(fields))
	}
}

// When Redis is not reached within the attempts, the caller gets the error, and
// what may have been taken is taken back.
func TestAnAcquireWithoutAnAnswerIsWithdrawn(t *testing.T) {
	n := newLine(t, 10, time.Hour, func(o *redis.Options) { o.MaxRetries = 1 })
	n.proxy.SwallowReply(2)
	ok, err := n.l.TryAcquire(t.Context(), 10, 0)
	if ok || err == nil {
		t.Fatalf("%v, %v; want an error of the network", ok, err)
	}
	until(t, func() bool { return n.look.ZCard(context.Background(), n.l.permits()).Val() == 0 })
	n.l.has(10)
	n.l.keeps(10, n.l.value(), n.l.permits())
}

// The end of ctx while the reply is under way: nothing is kept.
func TestACallerWhoLeavesKeepsNothing(t *testing.T) {
	n := newLine(t, 10, time.Hour, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
	n.proxy.HoldNext(1, isScript) // this request never reaches the server
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	ok, err := n.l.TryAcquire(ctx, 10, time.Hour)
	if ok || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v, %v; want DeadlineExceeded", ok, err)
	}
	n.l.has(10)
}

// The end of ctx when permits may have been taken: they are taken back.
func TestACallerWhoLeavesGivesBack(t *testing.T) {
	n := newLine(t, 10, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	n.proxy.SwallowReply(1)
	n.rdb.AddHook(&cancelOnRetry{cancel: cancel})
	ok, err := n.l.TryAcquire(ctx, 10, time.Hour)
	if ok || !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, %v; want Canceled", ok, err)
	}
	until(t, func() bool { return n.look.ZCard(context.Background(), n.l.permits()).Val() == 0 })
	n.l.keeps(10, n.l.value(), n.l.permits())
}

// SetRate clears what was taken, so it is not sent twice: an error says that we
// do not know.
func TestSetRateIsNotSentAgain(t *testing.T) {
	n := newLine(t, 10, time.Hour)
	n.want(n.l.SetRate(t.Context(), overall, 10, time.Hour))
	n.proxy.SwallowReply(1)
	if err := n.l.SetRate(t.Context(), overall, 5, time.Hour); err == nil {
		t.Fatal("no error though the reply was lost")
	}
	if got := n.proxy.Swallowed(); got != 1 {
		t.Fatalf("%d replies swallowed", got)
	}
}

// An acquire survives a restart of Redis between two calls, and the scripts
// with it: a rejected NOSCRIPT is healed without the caller noticing.
func TestScriptsAreSentAgainWhenTheServerHasForgottenThem(t *testing.T) {
	n := newLine(t, 10, time.Hour)
	n.want(n.look.ScriptFlush(t.Context()).Err())
	n.l.takes(2)
	n.l.has(8)
	n.proxy.Cut()
	n.l.takes(2)
	n.want(n.look.ScriptFlush(t.Context()).Err())
	n.proxy.SwallowReply(2) // NOSCRIPT, then the EVAL that took the permits
	n.l.takes(6)
	n.l.keeps(10, n.l.value(), n.l.permits())
}

// One acquire is one EVALSHA of three keys and one reply.
func TestOneAcquireIsOneRoundTrip(t *testing.T) {
	n := newLine(t, 10, time.Hour)
	_, _, requests, replies := n.proxy.Stats()
	var names []string
	n.proxy.SwallowReplyTo(1, func(args []string) bool { names = append(names, args[0], args[2]); return false })
	n.l.takes(2)
	n.l.takes(8)
	if ok, err := n.l.TryAcquire(t.Context(), 1, 0); ok || err != nil {
		t.Fatal(ok, err)
	}
	_, _, requests2, replies2 := n.proxy.Stats()
	if requests2-requests != 3 || replies2-replies != 3 {
		t.Fatalf("3 acquires were %d requests and %d replies", requests2-requests, replies2-replies)
	}
	for i := 0; i < len(names); i += 2 {
		if !strings.EqualFold(names[i], "evalsha") || names[i+1] != "3" {
			t.Fatalf("sent %q", names)
		}
	}
}

// Many at once, over a line that loses replies all the time: together they
// take the rate, not more and not less.
func TestManyOverABadLine(t *testing.T) {
	const rate, callers = 200, 20
	n := newLine(t, rate, time.Hour, func(o *redis.Options) { o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff = 20, 1, time.Millisecond })
	sent := 0
	n.proxy.SwallowReplyTo(1<<30, func([]string) bool { sent++; return sent%5 == 0 })
	granted := make(chan int, callers)
	for range callers {
		go func() {
			count := 0
			for {
				ok, err := n.l.TryAcquire(context.Background(), 1, 0)
				if err != nil {
					t.Error(err)
				}
				if !ok {
					granted <- count
					return
				}
				count++
			}
		}()
	}
	sum := 0
	for range callers {
		sum += <-granted
	}
	if sum != rate || n.proxy.Swallowed() == 0 {
		t.Fatalf("%d granted of %d, with %d replies lost", sum, rate, n.proxy.Swallowed())
	}
	n.l.keeps(rate, n.l.value(), n.l.permits())
}

// rough is the limiter of a line with a resolution.
func rough(t *testing.T, rate int64, mods ...func(*redis.Options)) (*line, *limiter) {
	n := newLine(t, rate, time.Hour, mods...)
	m := n.l.coarse(10 * time.Millisecond)
	m.takes(1)
	m.gives(1)
	return n, m
}

// B4 with a resolution: however often the reply is lost, a request is charged
// once and gets the answer of the first time; over a bad line all get the rate.
func TestWithAResolutionChargedOnce(t *testing.T) {
	for _, permits := range []int64{1, 4, 10, 1 << 33} { // 10 and more are the last ones
		rate := max(10, permits)
		n, m := rough(t, rate, func(o *redis.Options) { o.MinRetryBackoff, o.MaxRetryBackoff, o.MaxRetries = 1, time.Millisecond, 20 })
		for lost := 1; lost <= 3; lost++ {
			n.want(n.l.SetRate(t.Context(), overall, rate, time.Hour))
			n.proxy.SwallowReply(lost)
			m.takes(permits)
			m.has(rate - permits)
			m.keeps(rate, m.value(), m.permits())
		}
		n.proxy.SwallowReply(2)
		m.refused(rate, time.Hour)
		n.want(n.l.SetRate(t.Context(), overall, 300, time.Hour, rratelimiter.WithKeepState()))
		sent := 0
		n.proxy.SwallowReplyTo(1<<30, func([]string) bool { sent++; return sent%5 == 0 })
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() {
				for ok := true; ok; {
					var err error
					if ok, err = m.TryAcquire(context.Background(), 1, 0); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		m.has(0)
		m.keeps(300, m.value(), m.permits())
	}
}

// What may have been taken without an answer is taken back, with the next request
// or before it, by the number of the request. The Client has one field, as before.
func TestWithAResolutionAnAcquireIsWithdrawn(t *testing.T) {
	n, m := rough(t, 30, func(o *redis.Options) { o.MaxRetries = 1 })
	m.takes(4)
	n.proxy.SwallowReply(2)
	if ok, err := m.TryAcquire(t.Context(), 10, 0); ok || err == nil {
		t.Fatalf("%v, %v; want an error of the network", ok, err)
	}
	m.takes(5) // before or after the withdrawal
	until(t, func() bool { return sum(m.records(m.permits())) == 9 })
	m.has(21)
	m.takes(21)
	m.keeps(30, m.value(), m.permits())
	if got := len(m.fields()); got != 2 {
		t.Fatalf("%d fields, want one of the Client and one of that of the line", got)
	}
}
