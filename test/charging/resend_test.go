package charging_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

func TestLostRequestsAreSentAgain(t *testing.T) {
	for _, err := range []error{
		RedisError("LOADING x"), RedisError("READONLY x"), RedisError("MASTERDOWN x"),
		RedisError("CLUSTERDOWN x"), RedisError("TRYAGAIN x"),
		RedisError("ERR max number of clients reached"), RedisError("NOREPLICAS x"), redis.ErrPoolTimeout,
		ErrDial,
	} {
		n := NewProxied(t, 10, time.Hour)
		h := Failing(n.RDB, err)
		// Even a request that must not be done twice is sent again, because it was not done.
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

// A method whose result would change is not sent again after a lost reply: the error says that the outcome is
// unknown. Each other method is.
func TestTheMethodsThatAreSentAgain(t *testing.T) {
	once := strings.Fields("TrySetRate SetRate UpdateRate Delete Rename ClearExpire Expire ExpireAt " +
		"ExpireIfSet ExpireIfNotSet ExpireIfGreater ExpireIfLess")
	for method, call := range Methods {
		if strings.HasPrefix(method, "On") { // a subscription
			continue
		}
		n := NewProxied(t, 10, time.Hour)
		_ = call(t.Context(), n.Client.RateLimiter(redistest.Name(t))) // the scripts are known from here on
		n.Proxy.SwallowReplyTo(1, func([]string) bool { return true })
		err := call(t.Context(), n.RateLimiter)
		if (err != nil) != slices.Contains(once, method) || n.Proxy.Swallowed() != 1 {
			t.Errorf("%s: %v after %d lost replies", method, err, n.Proxy.Swallowed())
		}
	}
}

// A copy whose session is gone finds the record of the first copy, and is decided all the same: it takes its
// permits under another name.
func TestACopyWithoutItsSessionIsDecided(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		lost := false
		b.RDB.AddHook(Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			err := next(ctx, cmd)
			if lost && cmd.Name() == "evalsha" {
				lost = false
				for field := range b.Look.HGetAll(ctx, "api").Val() {
					if strings.HasPrefix(field, "session:") {
						b.Want(b.Look.HDel(ctx, "api", field).Err())
					}
				}
				return ErrLost
			}
			return err
		}))
		sent := b.CountScripts()
		l := b.Wrap(b.Client.RateLimiter("api"))
		b.Want(l.SetRate(b.Context(), Overall, 20, time.Hour))
		l.Takes(1)
		lost = true
		l.Takes(3)
		lost = true
		if r, _, err := l.TryReserve(b.Context(), 4); r == nil || err != nil {
			t.Error(r, err)
		}
		if n := l.Size(); n != 5 || l.Out(l.PermitsKey()) != 15 {
			t.Errorf("%d records", n)
		}
		l.Keeps(20, l.ValueKey(), l.PermitsKey())
		if n := sent(); n > 15 {
			t.Errorf("%d scripts", n)
		}
	})
}

// One acquire is one EVALSHA of three keys.
func TestOneAcquireIsOneRoundTrip(t *testing.T) {
	n := NewProxied(t, 10, time.Hour)
	seen := Failing(n.RDB)
	n.Takes(10)
	NoError(t, No(n.TryAcquire(t.Context(), 1, 0)))
	if len(seen.Sent) != 2 || seen.Sent[1][0] != "evalsha" || seen.Sent[1][2] != 3 {
		t.Fatalf("sent %q, want one EVALSHA each", seen.Sent)
	}
}

func TestADialThatTimesOutEndsNoContext(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return (&net.Dialer{Timeout: time.Nanosecond}).DialContext(ctx, network, addr)
		}})
	t.Cleanup(func() { _ = rdb.Close() })
	c := rratelimiter.New(rdb)
	defer c.Close()
	for _, err := range []error{
		c.RateLimiter("l").Acquire(context.Background(), 1),
		ErrOf(c.RateLimiter("l").Peek(context.Background())),
	} {
		WantErr(t, err, rratelimiter.ErrNoAnswer)
	}
}
