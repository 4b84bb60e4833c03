package form

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// counting gives each key 10 permits, which never come back while the key is known.
func counting() (Rule[int64], error) {
	return Rule[int64]{
		Numbers: Numbers{Limit: 10, Interval: time.Minute, Rest: time.Minute},
		Take: func(used *int64, _, n int64) Answer {
			if n > 10-*used {
				return Answer{Remaining: 10 - *used}
			}
			*used += n
			return Answer{Allowed: true, Remaining: 10 - *used}
		},
	}, nil
}

// held returns how many keys a shelf has.
func held(k limit.KeyedReleaser) (n int) {
	s := k.(*shelf[int64])
	for i := range s.boards {
		n += len(s.boards[i].new)
		for key := range s.boards[i].old {
			if s.boards[i].new[key] == nil {
				n++
			}
		}
	}
	return n
}

// take takes a permit of a key and returns what is left.
func take(t *testing.T, k limit.KeyedReleaser, key string) int64 {
	t.Helper()
	r := redistest.Must(k.Allow(t.Context(), key, 1))(t)
	return r.Remaining
}

// Keys that nobody has used for a Rest or two are dropped when somebody calls. One that is
// used, as seldom as once in nearly a Rest, is kept.
func TestIdleKeysAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := redistest.Must(InMemoryKeyed(counting, nil))(t)
		for i := range 10_000 {
			take(t, k, fmt.Sprint(i))
		}
		for i := range int64(9) {
			if left := take(t, k, "busy"); left != 9-i {
				t.Errorf("%d are left, want %d", left, 9-i)
			}
			if n := held(k); i < 1 && n != 10_001 || i > 3 && n != 1 {
				t.Errorf("%d keys after %v", n, time.Duration(i)*59*time.Second)
			}
			time.Sleep(59 * time.Second)
		}
	})
}

// A key that was used less than a Rest ago is there, whatever is dropped meanwhile.
func TestUsedKeysAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := redistest.Must(InMemoryKeyed(counting, nil))(t)
		for i := range 200 {
			key := fmt.Sprint("key ", i)
			take(t, k, key)
			for range i % 5 {
				time.Sleep(13 * time.Second)
				take(t, k, "other")
			}
			if left := take(t, k, key); left != 8 {
				t.Errorf("%d are left after %v, want 8", left, time.Duration(i%5)*13*time.Second)
			}
			time.Sleep(time.Second)
		}
	})
}

// A clock that is set back for long keeps no key for ever.
func TestKeysAreDroppedAfterTheClockWasSetBack(t *testing.T) {
	now := time.Unix(2_000_000_000, 0)
	k, err := InMemoryKeyed(counting, []limit.Option{limit.WithClock(func() time.Time { return now })})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		take(t, k, fmt.Sprint(i))
	}
	now = now.Add(-24 * time.Hour)
	for range 4 {
		take(t, k, "other")
		now = now.Add(time.Minute)
	}
	if n := held(k); n != 1 {
		t.Errorf("%d keys", n)
	}
}

// The call that turns the boards makes no room for as many keys as there were: room for 10 million would
// delay that call by 200 ms, and stay when all keys are gone.
func TestATurnMakesNoRoom(t *testing.T) {
	now := time.Unix(2_000_000_000, 0)
	k, err := InMemoryKeyed(counting, []limit.Option{limit.WithClock(func() time.Time { return now })})
	if err != nil {
		t.Fatal(err)
	}
	const keys, most = 50_000, 100_000 // bytes; room for half of the keys takes 700,000
	for i := range keys {
		take(t, k, fmt.Sprint(i))
	}
	now = now.Add(time.Minute)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	take(t, k, "other")
	runtime.ReadMemStats(&after)
	if made := after.TotalAlloc - before.TotalAlloc; made > most {
		t.Errorf("the call made %d bytes, at most %d may be", made, most)
	}
}
