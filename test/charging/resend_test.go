package charging_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestLostRequestsAreSentAgain(t *testing.T) {
	for _, err := range []error{
		RedisError("LOADING x"), RedisError("READONLY x"), RedisError("MASTERDOWN x"),
		RedisError("CLUSTERDOWN x"), RedisError("TRYAGAIN x"),
		RedisError("ERR max number of clients reached"), RedisError("NOREPLICAS x"), redis.ErrPoolTimeout,
		ErrDial,
	} {
		n := NewProxied(t, 10, time.Hour)
		h := Failing(n.RDB, err)
		// Also what must not be done twice is sent again: it was not done.
		if e := No(n.TrySetRate(t.Context(), Overall, 5, time.Hour)); e != nil || len(h.Sent) < 2 {
			t.Errorf("%v: TrySetRate %v, sent %q", err, e, h.Sent)
		}
		h.Next(err)
		n.Takes(10)
		if len(h.Sent) != 2 || len(h.Sent[1]) > 12 && h.Sent[1][12] != "" {
			t.Errorf("%v: sent %q, want twice, and not to be taken for sent before", err, h.Sent)
		}
	}
}

func TestOnceLostIsUnknownToTheEnd(t *testing.T) {
	n := NewProxied(t, 10, time.Hour)
	Failing(n.RDB, ErrLost, ErrDial, ErrDial, ErrDial)
	if ok, err := n.TryAcquire(t.Context(), 10, 0); ok || !errors.Is(err, ErrDial) {
		t.Fatal(ok, err)
	}
	n.UntilOut(0)
}

// A request whose result would change is not sent again. The error says that the outcome is unknown.
func TestARequestWhoseResultWouldChangeIsNotSentAgain(t *testing.T) {
	for method, ask := range map[string]func(l *Limiter) error{
		"TrySetRate": func(l *Limiter) error {
			return ErrOf(l.TrySetRate(l.Context(), Overall, 5, time.Hour))
		},
		"SetRate": func(l *Limiter) error { return l.SetRate(l.Context(), Overall, 5, time.Hour) },
		"Delete":  func(l *Limiter) error { return ErrOf(l.Delete(l.Context())) },
		"ExpireIfNotSet": func(l *Limiter) error {
			return ErrOf(l.ExpireIfNotSet(l.Context(), time.Hour))
		},
	} {
		n := NewProxied(t, 10, time.Hour)
		other := n.Wrap(n.Client.RateLimiter(redistest.Name(t)))
		n.Want(ErrOf(other.ClearExpire(t.Context()))) // the scripts are known from here on
		n.Want(ErrOf(other.TrySetRate(t.Context(), Overall, 5, time.Hour)))
		n.Want(other.SetRate(t.Context(), Overall, 5, time.Hour))
		n.Want(ErrOf(other.Delete(t.Context())))
		n.Proxy.SwallowReplyTo(1, IsScript)
		if err := ask(n); err == nil || n.Proxy.Swallowed() != 1 {
			t.Errorf("%s: %v; want the error of the reply that was lost, and lost once", method, err)
		}
	}
}
