package leakybucket_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/leakybucket"
)

// During a deploy, processes with other numbers share a Meter. Permits stay taken, whatever the processes
// with the smaller numbers call.
func TestMetersWithOtherNumbersShareALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		large := redistest.Must(leakybucket.Meter{1000, 1000, time.Hour}.OnRedis(rdb, "name"))(t)
		small := redistest.Must(leakybucket.Meter{100, 1000, time.Hour}.OnRedis(rdb, "name"))(t)
		sum := int64(0)
		for range 10 {
			for redistest.Must(large.Allow(t.Context(), 50))(t).Allowed {
				sum += 50
			}
			r := formtest.Allow(t, small, 1, false)
			if r.RetryAfter != 901*time.Hour/1000 || r.ResetAfter != time.Hour {
				t.Errorf("the small Meter: %+v", r)
			}
		}
		if sum != 1000 {
			t.Errorf("%d are granted, want 1000", sum)
		}
		redistest.NoError(t, small.Release(t.Context(), 100))
		if r := formtest.Allow(t, large, 1, true); r.Remaining != 99 {
			t.Errorf("100 were given back: %+v", r)
		}
	})
}

// The turns of a Queue also stay taken: no refused call brings them together.
func TestQueuesWithOtherNumbersShareALimit(t *testing.T) {
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
				t.Error("the short line takes a caller behind 50")
			}
			if r := formtest.Allow(t, short, 1, false); r.RetryAfter < 4*time.Second {
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

// Numbers under the key count as far as they can be true. The water, or the owed time, that a clock set
// back would add to them is bounded.
func TestImpossibleNumbersAreBounded(t *testing.T) {
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
			for range 2 { // a refusal leaves them alone
				redistest.NoError(t, rdb.Set(t.Context(), key, tt.text, redis.KeepTTL).Err())
				if r := formtest.Allow(t, tt.l, 1, tt.retry == 0); r.RetryAfter != tt.retry {
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
