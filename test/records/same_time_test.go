package records_test

import (
	"errors"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// atOnce returns a limiter whose permits are back at once, as Java sets it: Go
// refuses such an interval. It holds records of before and a value below the rate.
func atOnce(b *Bench, rate, interval int64) *Limiter {
	b.Helper()
	l := b.NewLimiter(Overall, 0, 0)
	b.Want(b.Look.HSet(b.Context(), l.Name(), "rate", rate, "interval", interval, "type", 0,
		"keepAliveTime", 0).Err())
	for i, at := range []int64{-10_000, 0, 10_000} {
		l.Record(b.Now+at, "\x10abcdefghijklmno"+strconv.Itoa(i)+"\x01\x00\x00\x00")
	}
	b.SetKey(l.ValueKey(), rate-3)
	return l
}

// B22: where what is taken is back at once, each request up to the rate is
// granted, and nothing is ever out.
func TestPermitsThatAreBackAtOnceAreAlwaysGranted(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		for _, interval := range []int64{0, -1, -1000, -1 << 53} {
			base := atOnce(b, 5, interval)
			full := rratelimiter.Result{Allowed: true, Name: base.Name(), Limit: 5, Remaining: 5}
			for _, l := range []*Limiter{base, base.InFormat(FI),
				base.Coarse(10 * time.Millisecond)} {
				if r, err := l.Peek(b.Context()); !reflect.DeepEqual(r, full) || err != nil {
					b.Fatalf("interval %d: peek: %+v, %v", interval, r, err)
				}
				for _, n := range []int64{1, 5, 5, 3} {
					if r, err := l.Allow(b.Context(), n); !reflect.DeepEqual(r, full) || err != nil {
						b.Fatalf("interval %d: %d permits: %+v, %v", interval, n, r, err)
					}
				}
				_, err := l.TryAcquire(b.Context(), 6, time.Hour)
				if !errors.Is(err, rratelimiter.ErrPermitsExceedRate) {
					b.Fatalf("interval %d: more than the rate: %v", interval, err)
				}
				l.Gives(2)
				l.Has(5)
				if l.Size() != 0 {
					b.Fatalf("interval %d: %d records", interval, l.Size())
				}
				l.Keeps(5, l.ValueKey(), l.PermitsKey())
				repairs(l, rratelimiter.Repaired{})
			}
		}
		l := atOnce(b, 0, 0) // a rate of nothing as well
		if ok, err := l.TryAcquire(b.Context(), 1, 0); ok ||
			!errors.Is(err, rratelimiter.ErrPermitsExceedRate) {
			b.Fatal(ok, err)
		}
	})
}

// The same holds for many callers that share calls. Once a script never ended here.
func TestManyCallersGetPermitsThatAreBackAtOnce(t *testing.T) {
	for _, interval := range []int64{0, -5} {
		n := NewProxied(t, 5, time.Hour)
		n.Want(n.Look.HSet(t.Context(), n.Name(), "interval", interval).Err())
		n.Takes(5)
		release := n.Proxy.HoldNext(1, IsScript)
		var group sync.WaitGroup
		for i := range 16 {
			group.Go(func() {
				timeout := time.Duration(i%2) * time.Second
				if err := Yes(n.TryAcquire(t.Context(), int64(1+i%5), timeout)); err != nil {
					t.Error(interval, err)
				}
			})
			if i == 0 {
				Until(t, func() bool { return n.Proxy.Held() == 1 })
			}
		}
		before := n.ScriptsRun()
		release()
		group.Wait()
		if calls := n.ScriptsRun() - before; calls > 8 {
			t.Errorf("%d calls for 16 that come together", calls)
		}
		n.Has(5)
		n.Keeps(5, n.ValueKey(), n.PermitsKey())
	}
}

// A record whose time is no number to every Lua is as far ahead as can be, or
// has long expired.
func TestRecordsOfInfiniteTimesHaveExpiredOrAreAhead(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 5, time.Second)
		inf := "+inf"
		b.Want(b.Look.Do(b.Context(), "ZADD", l.PermitsKey(), "-inf", "\x10abcdefghijklmnop\x01\x00\x00\x00",
			inf, "\x10ABCDEFGHIJKLMNOP\x02\x00\x00\x00").Err())
		b.Want(b.Look.ZAdd(b.Context(), l.PermitsKey(), redis.Z{Score: 1e30,
			Member: "\x10ABCDEFGHIJKLMNOp\x01\x00\x00\x00"}).Err())
		l.Record(-5, "\x10aaaaaaaaaaaaaaaa\x04\x00\x00\x00")
		l.Has(2)
		l.Takes(2)
		b.Want(No(l.TryAcquire(b.Context(), 1, 0)))
		l.Keeps(5, l.ValueKey(), l.PermitsKey())
	})
}
