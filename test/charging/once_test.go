package charging_test

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
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// B4: where a reply is lost the request is sent again. The permits are taken once,
// and the caller gets the first answer.
func TestAcquireIsChargedOnce(t *testing.T) {
	for _, permits := range []int64{1, 4, 10, 1 << 33} { // 10 and more are the last ones
		n := NewProxied(t, max(10, permits), time.Hour)
		for lost := 1; lost <= 3; lost++ {
			n.Want(n.SetRate(t.Context(), Overall, max(10, permits), time.Hour))
			n.Proxy.SwallowReply(lost)
			n.Takes(permits)
			n.Has(max(10, permits) - permits)
			n.Keeps(max(10, permits), n.ValueKey(), n.PermitsKey())
		}
		if got := n.Proxy.Swallowed(); got != 6 {
			t.Fatalf("%d replies were lost, want 6", got)
		}
	}
}

func TestARefusalThatIsLostIsARefusal(t *testing.T) {
	n := NewProxied(t, 5, time.Hour)
	n.Takes(5)
	n.Proxy.SwallowReply(2)
	n.Refused(1, time.Hour)
	if got := n.Proxy.Swallowed(); got != 2 {
		t.Fatalf("%d replies were lost, want 2", got)
	}
	n.Keeps(5, n.ValueKey(), n.PermitsKey())
}

// B4 for Release: given back once.
func TestReleaseIsDoneOnce(t *testing.T) {
	n := NewProxied(t, 20, time.Hour)
	n.Takes(5)
	n.Takes(5)
	n.Proxy.SwallowReply(3)
	n.Gives(4)
	n.Has(14)
	n.Proxy.SwallowReply(1)
	n.Gives(6) // all that is outstanding
	n.Has(20)
	n.Keeps(20, n.ValueKey(), n.PermitsKey())
	if got := n.Proxy.Swallowed(); got != 4 {
		t.Fatalf("%d replies were lost, want 4", got)
	}
}

// The fields by which requests are known do not pile up. Each Client has one, and
// those of Clients that have gone are swept out.
func TestFieldsDoNotPileUp(t *testing.T) {
	n := NewProxied(t, 10, time.Hour)
	for range 10 { // with a RateLimiter for each request
		n.Takes(1)
		n.By(n.Client).Takes(1)
		n.By(n.Client).Gives(2)
	}
	if fields := n.Fields(); len(fields) != 1 {
		t.Fatalf("%q after 10 releases by one Client, want one session", fields)
	}
	for range 100 { // clients that release once and go
		n.TakesAndGives()
	}
	n.Now += 61_000
	n.TakesAndGives()
	if fields := n.Fields(); len(fields) != 1 {
		t.Fatalf("%d fields a minute after 100 clients have gone, want that of the last one", len(fields))
	}
}

// When Redis does not answer within the attempts, the caller gets the error, and
// what may have been taken is taken back.
func TestAnAcquireWithoutAnAnswerIsWithdrawn(t *testing.T) {
	n := NewProxied(t, 10, time.Hour, func(o *redis.Options) { o.MaxRetries = 1 })
	n.Proxy.SwallowReply(2)
	ok, err := n.TryAcquire(t.Context(), 10, 0)
	if ok || err == nil {
		t.Fatalf("%v, %v; want an error of the network", ok, err)
	}
	n.UntilOut(0)
	n.Has(10)
	n.Keeps(10, n.ValueKey(), n.PermitsKey())
}

// The end of ctx while the reply is under way: nothing is kept.
func TestACallerWhoLeavesKeepsNothing(t *testing.T) {
	n := NewProxied(t, 10, time.Hour, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
	n.Proxy.HoldNext(1, IsScript) // this request never reaches the server
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	ok, err := n.TryAcquire(ctx, 10, time.Hour)
	if ok || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v, %v; want DeadlineExceeded", ok, err)
	}
	n.Has(10)
}

// The end of ctx when permits may have been taken: they are taken back.
func TestACallerWhoLeavesGivesBack(t *testing.T) {
	n := NewProxied(t, 10, time.Hour)
	ctx := CancelOnError(t.Context(), n.RDB)
	n.Proxy.SwallowReply(1)
	ok, err := n.TryAcquire(ctx, 10, time.Hour)
	if ok || !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, %v; want Canceled", ok, err)
	}
	n.UntilOut(0)
	n.Keeps(10, n.ValueKey(), n.PermitsKey())
}

// SetRate clears what was taken, so it is not sent twice. An error says that the
// outcome is unknown.
func TestSetRateIsNotSentAgain(t *testing.T) {
	n := NewProxied(t, 10, time.Hour)
	n.Want(n.SetRate(t.Context(), Overall, 10, time.Hour))
	n.Proxy.SwallowReply(1)
	if err := n.SetRate(t.Context(), Overall, 5, time.Hour); err == nil {
		t.Fatal("no error though the reply was lost")
	}
	if got := n.Proxy.Swallowed(); got != 1 {
		t.Fatalf("%d replies swallowed", got)
	}
}

// A server that has forgotten the scripts, as after a restart, gets them again, and
// the caller does not notice.
func TestScriptsAreSentAgainWhenTheServerHasForgottenThem(t *testing.T) {
	n := NewProxied(t, 10, time.Hour)
	n.Want(n.Look.ScriptFlush(t.Context()).Err())
	n.Takes(2)
	n.Has(8)
	n.Proxy.Cut()
	n.Takes(2)
	n.Want(n.Look.ScriptFlush(t.Context()).Err())
	n.Proxy.SwallowReply(2) // NOSCRIPT, then the EVAL that took the permits
	n.Takes(6)
	n.Keeps(10, n.ValueKey(), n.PermitsKey())
}

// One acquire is one EVALSHA of three keys and one reply.
func TestOneAcquireIsOneRoundTrip(t *testing.T) {
	n := NewProxied(t, 10, time.Hour)
	_, _, requests, replies := n.Proxy.Stats()
	var names []string
	n.Proxy.SwallowReplyTo(1, func(args []string) bool {
		names = append(names, args[0], args[2])
		return false
	})
	n.Takes(2)
	n.Takes(8)
	if ok, err := n.TryAcquire(t.Context(), 1, 0); ok || err != nil {
		t.Fatal(ok, err)
	}
	_, _, requests2, replies2 := n.Proxy.Stats()
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
func TestManyCallersOverABadLineTakeTheRate(t *testing.T) {
	const rate, callers = 200, 20
	n := NewProxied(t, rate, time.Hour, insists)
	sent := 0
	n.Proxy.SwallowReplyTo(1<<30, func([]string) bool { sent++; return sent%5 == 0 })
	granted := make(chan int, callers)
	for range callers {
		go func() {
			granted <- drain(t, n.RateLimiter)
		}()
	}
	sum := 0
	for range callers {
		sum += <-granted
	}
	if sum != rate || n.Proxy.Swallowed() == 0 {
		t.Fatalf("%d granted of %d, with %d replies lost", sum, rate, n.Proxy.Swallowed())
	}
	n.Keeps(rate, n.ValueKey(), n.PermitsKey())
}

// B4 with a resolution: however often the reply is lost, a request is charged once
// and gets the answer of the first time. Over a bad line callers get the whole rate.
func TestWithAResolutionChargedOnce(t *testing.T) {
	for _, permits := range []int64{1, 4, 10, 1 << 33} { // 10 and more are the last ones
		rate := max(10, permits)
		n, m := NewCoarse(t, rate, insists)
		for lost := 1; lost <= 3; lost++ {
			n.Want(n.SetRate(t.Context(), Overall, rate, time.Hour))
			n.Proxy.SwallowReply(lost)
			m.Takes(permits)
			m.Has(rate - permits)
			m.Keeps(rate, m.ValueKey(), m.PermitsKey())
		}
		n.Proxy.SwallowReply(2)
		m.Refused(rate, time.Hour)
		n.Want(n.SetRate(t.Context(), Overall, 300, time.Hour, rratelimiter.WithKeepState()))
		sent := 0
		n.Proxy.SwallowReplyTo(1<<30, func([]string) bool { sent++; return sent%5 == 0 })
		var group sync.WaitGroup
		var granted atomic.Int64
		for range 10 {
			group.Go(func() { granted.Add(int64(drain(t, m.RateLimiter))) })
		}
		group.Wait()
		if got := granted.Load(); got != max(0, 300-permits) {
			t.Errorf("%d were granted, want the %d that were left", got, max(0, 300-permits))
		}
		m.Has(0)
		m.Keeps(300, m.ValueKey(), m.PermitsKey())
	}
}

// What may have been taken without an answer is taken back by the number of the
// request, with the next request or before it. The Client has one field, as before.
func TestWithAResolutionAnAcquireIsWithdrawn(t *testing.T) {
	n, m := NewCoarse(t, 30, func(o *redis.Options) { o.MaxRetries = 1 })
	m.Takes(4)
	n.Proxy.SwallowReply(2)
	if ok, err := m.TryAcquire(t.Context(), 10, 0); ok || err == nil {
		t.Fatalf("%v, %v; want an error of the network", ok, err)
	}
	m.Takes(5) // before or after the withdrawal
	n.UntilOut(9)
	m.Has(21)
	m.Takes(21)
	m.Keeps(30, m.ValueKey(), m.PermitsKey())
	if got := len(m.Fields()); got != 3 {
		t.Fatalf("%d fields, want one of the Client, one of that of the line and one of the release", got)
	}
}
