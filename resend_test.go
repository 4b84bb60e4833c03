package rratelimiter_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestWhatIsSentAgain(t *testing.T) {
	for _, err := range []error{
		redisError("LOADING x"), redisError("READONLY x"), redisError("MASTERDOWN x"),
		redisError("CLUSTERDOWN x"), redisError("TRYAGAIN x"),
		redisError("ERR max number of clients reached"), redisError("NOREPLICAS x"), redis.ErrPoolTimeout,
		errDial,
	} {
		n := newLine(t, 10, time.Hour)
		h := failing(n.rdb, err)
		// Also what must not be done twice is sent again: it was not done.
		if e := no(n.l.TrySetRate(t.Context(), overall, 5, time.Hour)); e != nil || len(h.sent) < 2 {
			t.Errorf("%v: TrySetRate %v, sent %q", err, e, h.sent)
		}
		h.errs = []error{err}
		h.sent = nil
		n.l.takes(10)
		if len(h.sent) != 2 || len(h.sent[1]) > 12 && h.sent[1][12] != "" {
			t.Errorf("%v: sent %q, want twice, and not to be taken for sent before", err, h.sent)
		}
	}
}

func TestTrySetRateIsNotSentAgain(t *testing.T) {
	n := newLine(t, 10, time.Hour)
	failing(n.rdb, lost)
	if ok, err := n.l.TrySetRate(t.Context(), overall, 5, time.Hour); ok || !errors.Is(err, lost) {
		t.Fatal(ok, err, "want the error of the network: we do not know")
	}
}

func TestOnceLostIsUnknownToTheEnd(t *testing.T) {
	n := newLine(t, 10, time.Hour)
	failing(n.rdb, lost, errDial, errDial, errDial)
	if ok, err := n.l.TryAcquire(t.Context(), 10, 0); ok || !errors.Is(err, errDial) {
		t.Fatal(ok, err)
	}
	n.untilOut(0)
}

// A request is not charged again when a release by another Client has shrunk its
// record.
func TestAShrunkRecordIsNotChargedAgain(t *testing.T) {
	for _, rate := range []int64{20, 40} {
		n := newLine(t, rate, time.Hour, func(o *redis.Options) {
			o.MinRetryBackoff, o.MaxRetryBackoff = 300*time.Millisecond, 300*time.Millisecond
		})
		other := n.somebodyElse()
		other.takes(10)
		n.now++
		n.proxy.SwallowReply(1)
		done := make(chan error, 1)
		go func() { done <- n.l.asksFor(10)() }()
		until(t, func() bool { return n.proxy.Swallowed() == 1 })
		n.somebodyElse().gives(11) // out of the oldest records
		n.want(<-done)
		if got := fmt.Sprint(n.l.records(n.l.permits())); got != "[9]" {
			t.Fatalf("rate %d: records %s, want [9]", rate, got)
		}
		n.l.keeps(rate, n.l.value(), n.l.permits())
	}
}

// A request whose answer would change is not sent again. The error says that the
// outcome is unknown.
func TestWhatAnswersOtherwiseIsNotSentAgain(t *testing.T) {
	for method, ask := range map[string]func(l *limiter) error{
		"Delete":         func(l *limiter) error { return errOf(l.Delete(l.b.Context())) },
		"ExpireIfNotSet": func(l *limiter) error { return errOf(l.ExpireIfNotSet(l.b.Context(), time.Hour)) },
	} {
		n := newLine(t, 10, time.Hour)
		other := &limiter{n.client.RateLimiter(redistest.Name(t)), n.bench}
		_, err := other.ClearExpire(t.Context()) // the scripts are known from here on
		n.want(err)
		_, err = other.Delete(t.Context())
		n.want(err)
		n.proxy.SwallowReplyTo(1, isScript)
		if err := ask(n.l); err == nil || n.proxy.Swallowed() != 1 {
			t.Errorf("%s: %v; want the error of the reply that was lost, and lost once", method, err)
		}
	}
}

// A timed wait takes its time from the first look on.
func TestSlowLooksCountForTheTimeout(t *testing.T) {
	n := newLine(t, 1, time.Hour)
	n.l.takes(1)
	n.proxy.Delay(300 * time.Millisecond)
	start := time.Now()
	if ok, err := n.l.TryAcquire(t.Context(), 1, 500*time.Millisecond); ok || err != nil {
		t.Fatal(ok, err)
	}
	if took := time.Since(start); took > 1050*time.Millisecond {
		t.Fatalf("took %v, want the timeout of 500ms and one look of 300ms", took)
	}
}
