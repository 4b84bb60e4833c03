package keyed_test

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// The first acquire of a key sets the rate, with the bytes that Redisson writes, in one
// round trip. The limiter is an ordinary one.
func TestKeyedSetsTheRate(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		keyed := b.Client.Keyed(redistest.Name(b), 5, time.Minute, rratelimiter.WithKeepAlive(time.Hour))
		l := b.Wrap(keyed.For("42"))
		if want := keyed.For("42").Name(); !strings.HasSuffix(want, ":{42}") {
			b.Fatalf("the limiter is called %q", want)
		}
		policy, _, _ := strings.Cut(l.Name(), ":")
		full := rratelimiter.Result{Allowed: true, Name: l.Name(), Policy: policy, Limit: 5,
			Interval: time.Minute, Remaining: 5}
		if r, err := l.Peek(b.Context()); err != nil || !reflect.DeepEqual(r, full) {
			b.Fatalf("peek: %+v, %v; want %+v", r, err, full)
		}
		b.Want(l.Release(b.Context(), 1))
		if n := b.Look.Exists(b.Context(), l.Name()).Val(); n != 0 {
			b.Fatal("Peek or Release has written something")
		}
		sent := b.Sent(func() {
			r, err := keyed.For("42").Allow(b.Context(), 2)
			if err != nil || !r.Allowed || r.Remaining != 3 || r.Limit != 5 {
				b.Fatalf("allow: %+v, %v", r, err)
			}
		})
		if sent > 2 { // the script by its hash, then in full
			b.Errorf("%d commands", sent)
		}
		hash := b.Look.HGetAll(b.Context(), l.Name()).Val()
		for field, want := range map[string]string{
			"rate": "5", "interval": "60000", "type": "0", "keepAliveTime": "3600000",
		} {
			if hash[field] != want {
				b.Errorf("%s is %q, want %q", field, hash[field], want)
			}
		}
		isOrdinary(b, l, keyed)
	})
}

// isOrdinary looks at a limiter of which 3 of 5 permits are left.
func isOrdinary(b *Bench, l *Limiter, keyed *rratelimiter.Keyed) {
	b.Helper()
	b.Lives(59*time.Minute, time.Hour, l.Name(), l.Name()+":value", l.Name()+":permits")
	plain := l.By(b.Client)
	plain.Has(3)
	if sent := b.Sent(func() { plain.Takes(3) }); sent != 1 {
		b.Errorf("%d commands for a limiter that is there", sent)
	}
	b.Want(No(keyed.For("42").TryAcquire(b.Context(), 1, 0)))
	b.Want(keyed.For("43").Acquire(b.Context(), 5))
}

// A limiter of a Keyed that was PER_CLIENT, by Java, is set anew as OVERALL when it has expired.
func TestKeyedReplacesAnExpiredType(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		keyed := b.Client.Keyed(redistest.Name(b), 5, time.Minute)
		l := keyed.For("k")
		b.Want(l.SetRate(b.Context(), PerClient, 7, time.Second))
		r, err := l.Allow(b.Context(), 1)
		c, configErr := l.Config(b.Context())
		if err != nil || r.Limit != 5 || configErr != nil || c.Type != PerClient {
			b.Fatalf("%+v, %v, %+v; want another rate, and the same type", r, err, c)
		}
		b.Want(b.Look.Del(b.Context(), l.Name()).Err())
		if r, err := l.Allow(b.Context(), 1); err != nil || !r.Allowed {
			b.Fatalf("%+v, %v", r, err)
		}
		if c, err = l.Config(b.Context()); err != nil || c.Type != Overall {
			b.Errorf("%+v, %v; want OVERALL", c, err)
		}
	})
}

// Names with a hash tag keep it, so that all keys live in one slot.
func TestKeyedKeepsAHashTag(t *testing.T) {
	cluster := redistest.StartCluster(t)
	c := NewClient(t, cluster.Client(t))
	tag := "{" + redistest.Name(t) + "}:user"
	keyed := c.Keyed(tag, 5, time.Minute)
	if name := keyed.For("42").Name(); name != tag+":[42]" {
		t.Errorf("the limiter is called %q", name)
	}
	NoError(t, keyed.For("42").Acquire(t.Context(), 1))
	plain := c.Keyed(redistest.Name(t), 5, time.Minute)
	for i := range 50 {
		NoError(t, plain.For(strconv.Itoa(i)).Acquire(t.Context(), 1))
	}
}

// A limiter that is used stays: its keys always have seven eighths of the keep alive left
// after a call, and all keys as much.
func TestKeyedKeepsWhatIsUsed(t *testing.T) {
	Bubble(t, func(c *Limiter) {
		const keep = 8 * time.Minute
		l := c.Client.Keyed("t", 100, time.Minute, rratelimiter.WithKeepAlive(keep)).For("k")
		keys := []string{l.Name(), l.Name() + ":value", l.Name() + ":permits"}
		for i, pause := range []time.Duration{0, 10, 20, 29, 2, 200, 1, 59, 1} { // s
			time.Sleep(pause * time.Second)
			if i == 4 {
				c.Mini.Del(keys[1]) // as by eviction: it gets the time to live of the others
			}
			NoError(c.T, l.Acquire(c.Context(), 1))
			for _, key := range keys {
				if ttl := c.Mini.TTL(key); ttl < keep*7/8 || ttl > keep {
					c.Errorf("call %d: %s lives for %v", i, key, ttl)
				}
			}
		}
	})
}

// The keep alive of a Keyed replaces an end that Expire has set. Without one limiters stay for ever, and an
// end holds.
func TestTheEndOfALimiterOfAKeyed(t *testing.T) {
	const minute, hour, forever = time.Minute, time.Hour, -1
	OnBoth(t, func(b *Bench) {
		for _, want := range []struct {
			opts         []rratelimiter.RateOption
			lives, after time.Duration // before and after an end in an hour
		}{
			{nil, 2 * minute, 2 * minute}, // two intervals
			{[]rratelimiter.RateOption{rratelimiter.WithKeepAlive(5 * minute)}, 5 * minute, 5 * minute},
			{[]rratelimiter.RateOption{rratelimiter.WithKeepAlive(0)}, forever, hour},
		} {
			l := b.Wrap(b.Client.Keyed(redistest.Name(b), 5, minute, want.opts...).For("k"))
			lives := func(d time.Duration) {
				b.Helper()
				l.Takes(1)
				b.Lives(min(d, d*7/8), d, l.Name(), l.Name()+":value", l.Name()+":permits")
			}
			lives(want.lives)
			b.Want(Yes(l.Expire(b.Context(), hour)))
			lives(want.after)
			b.Want(l.Release(b.Context(), 1))
			lives(want.after)
		}
	})
}

// Redis forgets keys that are unused for two intervals.
func TestKeyedForgetsUnusedKeys(t *testing.T) {
	Bubble(t, func(c *Limiter) {
		keyed := c.Client.Keyed("t", 10, time.Second)
		const keys = 2000
		for i := range keys {
			NoError(c.T, keyed.For(strconv.Itoa(i)).Acquire(c.Context(), 1))
		}
		if n := len(c.Mini.Keys()); n != 3*keys {
			c.Errorf("%d keys in Redis", n)
		}
		time.Sleep(2 * time.Second)
		if n := len(c.Mini.Keys()); n != 0 {
			c.Errorf("%d keys in Redis two intervals later", n)
		}
	})
}
