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
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// B4: a request of more permits than one record holds is charged once as well (test/states has the others).
func TestSeveralRecordsAreChargedOnce(t *testing.T) {
	const permits = 1 << 33
	n := NewProxied(t, permits, time.Hour)
	n.Proxy.SwallowReply(3)
	n.Takes(permits)
	n.Has(0)
	n.Keeps(permits, n.ValueKey(), n.PermitsKey())
	if got := n.Proxy.Swallowed(); got != 3 {
		t.Fatalf("%d replies were lost, want 3", got)
	}
}

// The end of ctx while the reply is under way: nothing is kept.
func TestACallerThatLeavesKeepsNothing(t *testing.T) {
	n := NewProxied(t, 10, time.Hour, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
	n.Proxy.HoldNext(1, IsScript) // this request never reaches the server
	ctx := TimeLimit(t, 100*time.Millisecond)
	ok, err := n.TryAcquire(ctx, 10, time.Hour)
	if ok || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v, %v; want DeadlineExceeded", ok, err)
	}
	n.Has(10)
}

// The end of ctx when permits may have been taken: they are taken back, also out of several records.
func TestACallerThatLeavesGivesBack(t *testing.T) {
	for _, permits := range []int64{10, 1 << 33} {
		n := NewProxied(t, permits, time.Hour)
		ctx := CancelOnError(t.Context(), n.RDB)
		n.Proxy.SwallowReply(1)
		ok, err := n.TryAcquire(ctx, permits, time.Hour)
		if ok || !errors.Is(err, context.Canceled) {
			t.Fatalf("%v, %v; want Canceled", ok, err)
		}
		n.UntilOut(0)
		n.Has(permits)
		n.Keeps(permits, n.ValueKey(), n.PermitsKey())
	}
}

// The first call of a Keyed comes so late that it creates the limiter after its permits were
// taken back. They are taken back again.
func TestAFirstCallThatComesLateKeepsNothing(t *testing.T) {
	n := NewProxied(t, 10, time.Hour)
	for what, acquire := range map[string]func(ctx context.Context, l *rratelimiter.RateLimiter) error{
		"alone": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
			return Yes(l.TryAcquire(ctx, 5, 0))
		},
		"in a Group": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
			return Yes(n.Client.All(l).Amounts(5).TryAcquire(ctx, 1, 0))
		},
	} {
		t.Run(what, func(t *testing.T) {
			l := n.Client.Keyed(redistest.Name(t), 10, time.Hour).RateLimiter("a")
			release := n.Proxy.HoldNext(1, IsScript)
			ctx := TimeLimit(t, 100*time.Millisecond)
			WantErr(t, acquire(ctx, l), context.DeadlineExceeded)
			// Longer than go-redis waits. The first withdrawal finds no limiter.
			time.Sleep(1600 * time.Millisecond)
			release()
			UntilWithin(t, 20*time.Second, func() bool {
				left, err := l.AvailablePermits(t.Context())
				return err == nil && left == 10
			})
		})
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
	NoError(t, No(n.TryAcquire(t.Context(), 1, 0)))
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

// B4 with a resolution: however often the reply is lost, a request is charged once
// and gets the result of the first time. Over a bad line callers get the whole rate.
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
			group.Go(func() { granted.Add(int64(TakeAll(t, m.RateLimiter))) })
		}
		group.Wait()
		if got := granted.Load(); got != max(0, 300-permits) {
			t.Errorf("%d were granted, want the %d that were left", got, max(0, 300-permits))
		}
		m.Has(0)
		m.Keeps(300, m.ValueKey(), m.PermitsKey())
	}
}

// What may have been taken without a reply is taken back by the number of the
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
	if got := len(m.Fields()); got != 2 {
		t.Fatalf("%d fields, want one of the Client and one of that of the line", got)
	}
}
