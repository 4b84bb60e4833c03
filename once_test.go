package rratelimiter_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// B4: where a reply is lost the request is sent again. The permits are taken once,
// and the caller gets the first answer.
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
	if got := n.proxy.Swallowed(); got != 2 {
		t.Fatalf("%d replies were lost, want 2", got)
	}
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

// The fields by which requests are known do not pile up. Each Client has one, and
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

// When Redis does not answer within the attempts, the caller gets the error, and
// what may have been taken is taken back.
func TestAnAcquireWithoutAnAnswerIsWithdrawn(t *testing.T) {
	n := newLine(t, 10, time.Hour, func(o *redis.Options) { o.MaxRetries = 1 })
	n.proxy.SwallowReply(2)
	ok, err := n.l.TryAcquire(t.Context(), 10, 0)
	if ok || err == nil {
		t.Fatalf("%v, %v; want an error of the network", ok, err)
	}
	n.untilOut(0)
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
	ctx := cancelOnError(t.Context(), n.rdb)
	n.proxy.SwallowReply(1)
	ok, err := n.l.TryAcquire(ctx, 10, time.Hour)
	if ok || !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, %v; want Canceled", ok, err)
	}
	n.untilOut(0)
	n.l.keeps(10, n.l.value(), n.l.permits())
}

// SetRate clears what was taken, so it is not sent twice. An error says that the
// outcome is unknown.
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

// A server that has forgotten the scripts, as after a restart, gets them again, and
// the caller does not notice.
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
	n.proxy.SwallowReplyTo(1, func(args []string) bool {
		names = append(names, args[0], args[2])
		return false
	})
	n.l.takes(2)
	n.l.takes(8)
	if ok, err := n.l.TryAcquire(t.Context(), 1, 0); ok || err != nil {
		t.Fatal(ok, err)
	}
	_, _, requests2, replies2 := n.proxy.Stats()
	if requests2-requests != 3 || replies2-replies != 3 {
		t.Fatalf("3 acquires were %d requests and %d replies", requests2-requests, replies2-replies)
	}
	if len(names) != 6 {
		t.Fatalf("sent %q, want three commands", names)
	}
	for i := 0; i < len(names); i += 2 {
		if !strings.EqualFold(names[i], "evalsha") || names[i+1] != "3" {
			t.Fatalf("sent %q", names)
		}
	}
}

// insists has go-redis send a request again and again, without pauses.
func insists(o *redis.Options) {
	o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff = 20, 1, time.Millisecond
}

// drain takes permits until there are none, and returns how many it got.
func drain(t *testing.T, l *rratelimiter.RateLimiter) (granted int) {
	for {
		ok, err := l.TryAcquire(context.Background(), 1, 0)
		if err != nil {
			t.Error(err)
		}
		if !ok {
			return granted
		}
		granted++
	}
}

// Many callers share a line that loses replies all the time. Together they take
// the rate, not more and not less.
func TestManyOverABadLine(t *testing.T) {
	const rate, callers = 200, 20
	n := newLine(t, rate, time.Hour, insists)
	sent := 0
	n.proxy.SwallowReplyTo(1<<30, func([]string) bool { sent++; return sent%5 == 0 })
	granted := make(chan int, callers)
	for range callers {
		go func() {
			granted <- drain(t, n.l.RateLimiter)
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

// B4 with a resolution: however often the reply is lost, a request is charged once
// and gets the answer of the first time. Over a bad line callers get the whole rate.
func TestWithAResolutionChargedOnce(t *testing.T) {
	for _, permits := range []int64{1, 4, 10, 1 << 33} { // 10 and more are the last ones
		rate := max(10, permits)
		n, m := rough(t, rate, insists)
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
		var granted atomic.Int64
		for range 10 {
			group.Go(func() { granted.Add(int64(drain(t, m.RateLimiter))) })
		}
		group.Wait()
		if got := granted.Load(); got != max(0, 300-permits) {
			t.Errorf("%d were granted, want the %d that were left", got, max(0, 300-permits))
		}
		m.has(0)
		m.keeps(300, m.value(), m.permits())
	}
}

// What may have been taken without an answer is taken back by the number of the
// request, with the next request or before it. The Client has one field, as before.
func TestWithAResolutionAnAcquireIsWithdrawn(t *testing.T) {
	n, m := rough(t, 30, func(o *redis.Options) { o.MaxRetries = 1 })
	m.takes(4)
	n.proxy.SwallowReply(2)
	if ok, err := m.TryAcquire(t.Context(), 10, 0); ok || err == nil {
		t.Fatalf("%v, %v; want an error of the network", ok, err)
	}
	m.takes(5) // before or after the withdrawal
	n.untilOut(9)
	m.has(21)
	m.takes(21)
	m.keeps(30, m.value(), m.permits())
	if got := len(m.fields()); got != 3 {
		t.Fatalf("%d fields, want one of the Client, one of that of the line and one of the release", got)
	}
}
