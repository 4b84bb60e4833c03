package leakybucket_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/leakybucket"
)

// While a deploy is under way, processes with other numbers share a Meter. What was taken
// stays taken, whatever those with the smaller numbers call.
func TestMeterDeploy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		large := redistest.Must(leakybucket.Meter{1000, 1000, time.Hour}.OnRedis(rdb, "name"))(t)
		small := redistest.Must(leakybucket.Meter{100, 1000, time.Hour}.OnRedis(rdb, "name"))(t)
		sum := int64(0)
		for range 10 {
			for asks(t, large, 50).Allowed {
				sum += 50
			}
			r := asks(t, small, 1)
			if r.Allowed || r.RetryAfter != 901*time.Hour/1000 || r.ResetAfter != time.Hour {
				t.Errorf("the small one: %+v", r)
			}
		}
		if sum != 1000 {
			t.Errorf("%d are granted, want 1000", sum)
		}
		redistest.NoError(t, small.Release(t.Context(), 100))
		if r := asks(t, large, 1); !r.Allowed || r.Remaining != 99 {
			t.Errorf("100 were given back: %+v", r)
		}
	})
}

func asks(t *testing.T, l limit.Limiter, n int64) limit.Result {
	t.Helper()
	return redistest.Must(l.Allow(t.Context(), n))(t)
}

// Also the turns of a Queue stay taken: nobody who is refused brings them together.
func TestQueueDeploy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		long := redistest.Must(leakybucket.Queue{10, time.Second, 50}.LineOnRedis(rdb, "name"))(t)
		short := redistest.Must(leakybucket.Queue{10, time.Second, 5}.LineOnRedis(rdb, "name"))(t)
		start := time.Now()
		turns := map[time.Duration]int{}
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 6 {
			for range 60 {
				all.Go(func() {
					if long.Wait(t.Context()) == nil {
						mu.Lock()
						turns[time.Since(start)/time.Second]++
						mu.Unlock()
					}
				})
			}
			time.Sleep(150 * time.Millisecond)
			if err := short.Wait(t.Context()); err == nil {
				t.Error("the short line takes one behind 50")
			}
			if r := asks(t, short, 1); r.Allowed || r.RetryAfter < 4*time.Second {
				t.Errorf("Allow of the short line: %+v", r)
			}
		}
		all.Wait()
		for second, n := range turns {
			if n > 10 {
				t.Errorf("%d turns in the second from %d on, of 10", n, second)
			}
		}
	})
}

// What is under the key is believed as far as it can be true. What a clock that was set
// back adds to it is bounded by one rest.
func TestWhatIsUnderTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		m := redistest.Must(leakybucket.Meter{10, 10, time.Second}.OnRedis(rdb, "name"))(t)
		q := redistest.Must(leakybucket.Queue{10, time.Second, 5}.LineOnRedis(rdb, "name"))(t)
		now := time.Now().UnixMicro()
		hour := now + 3600e6
		digits := strings.Repeat("9", 100)
		for _, tt := range []struct {
			l     limit.Limiter
			text  string
			retry time.Duration
		}{
			{m, fmt.Sprintf("1000 %d", now), 99100 * time.Millisecond},
			{m, fmt.Sprintf("10 %d", hour), 100 * time.Millisecond},
			{m, fmt.Sprintf("1000 %d", hour), 99100 * time.Millisecond},
			{m, fmt.Sprintf("9100000000000000000 %d", now), 100 * time.Millisecond},
			{m, fmt.Sprintf("9007199254740992 %d", now), 100 * time.Millisecond},
			{m, fmt.Sprintf("1000000009 %d", now), 1e9 * 100 * time.Millisecond},
			{m, "5 9100000000000000000", 100 * time.Millisecond},
			{m, "1000 " + digits, 0},
			{m, fmt.Sprintf("1000%s %d", digits, now), 0},
			{m, fmt.Sprintf("1000 %d%s", now, digits), 0},
			{q, fmt.Sprintf("5000000 %d 0", now), 5 * time.Second},
			{q, fmt.Sprintf("1000000 %d 0", hour), 2 * time.Second},
			{q, fmt.Sprintf("5000000 %d 0", hour), 5 * time.Second},
			{q, fmt.Sprintf("9100000000000000000 %d 0", now), 2 * time.Second},
			{q, fmt.Sprintf("5%s %d 0", digits, now), 0},
			{q, fmt.Sprintf("5000000 %d %s", now, digits), 0},
		} {
			key := "{name}:leakybucket"
			if tt.l == q {
				key = "{name}:leakyqueue"
			}
			for range 2 { // what is refused says the same again
				redistest.NoError(t, rdb.Set(t.Context(), key, tt.text, redis.KeepTTL).Err())
				if r := asks(t, tt.l, 1); r.RetryAfter != tt.retry || r.Allowed != (tt.retry == 0) {
					t.Errorf("%.50s: %+v, want %v", tt.text, r, tt.retry)
				}
				if ttl := rdb.PTTL(t.Context(), key).Val(); ttl <= 0 {
					t.Errorf("%.50s: the time to live is %v", tt.text, ttl)
				}
			}
			redistest.NoError(t, rdb.Del(t.Context(), key).Err())
		}
	})
}
