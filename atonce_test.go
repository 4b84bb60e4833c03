package rratelimiter_test

import (
	"errors"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// atOnce returns a limiter whose permits are back at once, as Java sets it: Go
// refuses such an interval. It holds records of before and a value below the rate.
func (b *bench) atOnce(rate, interval int64) *limiter {
	b.Helper()
	l := b.limiter(overall, 0, 0)
	b.want(b.look.HSet(b.Context(), l.Name(), "rate", rate, "interval", interval, "type", 0,
		"keepAliveTime", 0).Err())
	for i, at := range []int64{-10_000, 0, 10_000} {
		l.record(b.now+at, "\x10abcdefghijklmno"+strconv.Itoa(i)+"\x01\x00\x00\x00")
	}
	b.set(l.value(), rate-3)
	return l
}

// B22: where what is taken is back at once, each request up to the rate is
// granted, and nothing is ever out.
func TestWhatIsBackAtOnce(t *testing.T) {
	onBoth(t, func(b *bench) {
		for _, interval := range []int64{0, -1, -1000, -1 << 53} {
			base := b.atOnce(5, interval)
			full := rratelimiter.Result{Allowed: true, Name: base.Name(), Limit: 5, Remaining: 5}
			for _, l := range []*limiter{base, base.inFormat(fI),
				base.coarse(10 * time.Millisecond)} {
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
				l.gives(2)
				l.has(5)
				if l.size() != 0 {
					b.Fatalf("interval %d: %d records", interval, l.size())
				}
				l.keeps(5, l.value(), l.permits())
				l.repairs(rratelimiter.Repaired{})
			}
		}
		l := b.atOnce(0, 0) // a rate of nothing as well
		if ok, err := l.TryAcquire(b.Context(), 1, 0); ok ||
			!errors.Is(err, rratelimiter.ErrPermitsExceedRate) {
			b.Fatal(ok, err)
		}
	})
}

// The same holds for many callers that share calls. Once a script never ended here.
func TestManyWhosePermitsAreBackAtOnce(t *testing.T) {
	for _, interval := range []int64{0, -5} {
		n := newLine(t, 5, time.Hour)
		n.want(n.look.HSet(t.Context(), n.l.Name(), "interval", interval).Err())
		n.l.takes(5)
		release := n.proxy.HoldNext(1, isScript)
		var group sync.WaitGroup
		for i := range 16 {
			group.Go(func() {
				timeout := time.Duration(i%2) * time.Second
				if err := yes(n.l.TryAcquire(t.Context(), int64(1+i%5), timeout)); err != nil {
					t.Error(interval, err)
				}
			})
			if i == 0 {
				until(t, func() bool { return n.proxy.Held() == 1 })
			}
		}
		before := n.scriptsRun()
		release()
		group.Wait()
		if calls := n.scriptsRun() - before; calls > 8 {
			t.Errorf("%d calls for 16 that come together", calls)
		}
		n.l.has(5)
		n.l.keeps(5, n.l.value(), n.l.permits())
	}
}

// A record whose time is no number to every Lua is as far ahead as can be, or
// has long expired.
func TestRecordsOfInfiniteTimes(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 5, time.Second)
		inf := "+inf"
		b.want(b.look.Do(b.Context(), "ZADD", l.permits(), "-inf", "\x10abcdefghijklmnop\x01\x00\x00\x00",
			inf, "\x10ABCDEFGHIJKLMNOP\x02\x00\x00\x00").Err())
		b.want(b.look.ZAdd(b.Context(), l.permits(), redis.Z{Score: 1e30,
			Member: "\x10ABCDEFGHIJKLMNOp\x01\x00\x00\x00"}).Err())
		l.has(2)
		l.takes(2)
		if ok, err := l.TryAcquire(b.Context(), 1, 0); ok || err != nil {
			b.Fatal(ok, err)
		}
		l.keeps(5, l.value(), l.permits())
	})
}
