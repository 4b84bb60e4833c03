package waiting_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// waits starts a caller that wants a permit, and returns when it stands in line and is subscribed to changes.
func waits(t *testing.T, look *redis.Client, l *rratelimiter.RateLimiter,
	timeout time.Duration) <-chan outcome {
	t.Helper()
	done := make(chan outcome, 1)
	go func() {
		ok, err := l.TryAcquire(context.Background(), 1, timeout)
		done <- outcome{ok, err}
	}()
	channel := "{" + l.Name() + "}:changed"
	Until(t, func() bool { return look.PubSubNumSub(context.Background(), channel).Val()[channel] > 0 })
	return done
}

type outcome struct {
	ok  bool
	err error
}

// full returns a limiter of rate 1 that has no permits for an hour.
func full(t *testing.T, rdb redis.UniversalClient, opts ...rratelimiter.Option) *rratelimiter.RateLimiter {
	t.Helper()
	c := NewClient(t, rdb, opts...)
	l := c.RateLimiter(redistest.Name(t))
	NoError(t, l.SetRate(t.Context(), Overall, 1, time.Hour))
	NoError(t, Yes(l.TryAcquire(t.Context(), 1, 0)))
	return l
}

// subscribers is how many connections subscribe something.
func subscribers(t *testing.T, look *redis.Client) int {
	t.Helper()
	list, err := look.ClientList(context.Background()).Result()
	NoError(t, err)
	return strings.Count(list, "cmd=subscribe")
}

func TestCallersThatNeverWaitSubscribeNothing(t *testing.T) {
	s := redistest.Start(t)
	l := full(t, s.Client(t))
	for range 10 {
		NoError(t, ErrOf(l.Allow(t.Context(), 1)))
		NoError(t, ErrOf(l.TryAcquire(t.Context(), 1, 0)))
		NoError(t, l.Release(t.Context(), 1))
	}
	if n := subscribers(t, s.Admin()); n != 0 {
		t.Errorf("%d connections subscribe", n)
	}
	NoError(t, l.SetRate(t.Context(), Overall, 1, time.Hour))
	NoError(t, Yes(l.TryAcquire(t.Context(), 1, 0)))
	done := waits(t, s.Admin(), l, 200*time.Millisecond)
	if n := subscribers(t, s.Admin()); n != 1 {
		t.Errorf("%d connections subscribe while a caller waits, want 1", n)
	}
	if got := Receive(t, done); got.ok || got.err != nil {
		t.Errorf("%+v; want refused", got)
	}
	Until(t, func() bool { return subscribers(t, s.Admin()) == 0 })
}

func TestARepairWakesTheLine(t *testing.T) {
	s := redistest.Start(t)
	l, look := full(t, s.Client(t)), s.Admin()
	permits := "{" + l.Name() + "}:permits"
	no := redis.Z{Score: float64(time.Now().UnixMilli()), Member: "no record\x01\x00\x00\x00"}
	NoError(t, look.ZAdd(t.Context(), permits, no).Err())
	NoError(t, look.ZRemRangeByRank(t.Context(), permits, 0, 0).Err())
	done := waits(t, look, l, time.Minute)
	NoError(t, ErrOf(NewClient(t, s.Client(t)).RateLimiter(l.Name()).Repair(t.Context())))
	if got := Receive(t, done); !got.ok || got.err != nil {
		t.Errorf("%+v; want granted", got)
	}
}

// With keyspace notifications on, changes by Java also wake the line: it sets the value when it gives permits
// back, and deletes it when it sets a rate.
func TestChangesByJavaWakeTheLine(t *testing.T) {
	s := redistest.Start(t, "--notify-keyspace-events", "K$g")
	for name, java := range map[string]func(rdb redis.Pipeliner, hash string){
		"release": func(rdb redis.Pipeliner, hash string) {
			rdb.Set(context.Background(), "{"+hash+"}:value", 1, 0)
		},
		"setRate": func(rdb redis.Pipeliner, hash string) {
			rdb.HSet(context.Background(), hash, "rate", 2)
			rdb.Del(context.Background(), "{"+hash+"}:value", "{"+hash+"}:permits")
		},
	} {
		l := full(t, s.Client(t))
		done := waits(t, s.Admin(), l, time.Minute)
		events := "__keyspace@0__:{" + l.Name() + "}:value"
		Until(t, func() bool { return s.Admin().PubSubNumSub(t.Context(), events).Val()[events] > 0 })
		pipe := s.Admin().TxPipeline()
		java(pipe, l.Name())
		NoError(t, ErrOf(pipe.Exec(t.Context())))
		if got := Receive(t, done); !got.ok || got.err != nil {
			t.Errorf("%s: %+v; want woken", name, got)
		}
	}
}

// If pub/sub is denied, waiters are served when their permits are due.
func TestWaitersAreServedWithoutPubSub(t *testing.T) {
	s := redistest.Start(t)
	err := s.Admin().Do(t.Context(), "ACL", "SETUSER", "quiet", "on", "nopass", "~*", "resetchannels",
		"+@all", "-subscribe").Err()
	if redis.HasErrorPrefix(err, "unknown command") {
		t.Skip("before Redis 6.0 no right can be denied")
	}
	NoError(t, err)
	c := NewClient(t, s.Client(t, func(o *redis.Options) { o.Username, o.Password = "quiet", "any" }))
	l := c.RateLimiter("l")
	NoError(t, l.SetRate(t.Context(), Overall, 1, 300*time.Millisecond))
	var before time.Time // the start of the call that has the permit
	for i := range 3 {
		start := time.Now()
		ok, err := l.TryAcquire(t.Context(), 1, 10*time.Second)
		took := time.Since(start)
		early := time.Since(before) < 299*time.Millisecond
		before = start
		if !ok || err != nil || early || took > 5*time.Second {
			t.Errorf("%d: %v, %v after %v; want served when due", i, ok, err, took)
		}
	}
	start := time.Now()
	ok, err := l.TryAcquire(t.Context(), 1, 100*time.Millisecond)
	if took := time.Since(start); ok || err != nil || took < 100*time.Millisecond ||
		took > 5*time.Second {
		t.Errorf("%v, %v after %v; want refused after the timeout", ok, err, took)
	}
	NoError(t, l.Release(t.Context(), 1)) // though it cannot notify the waiters
}
