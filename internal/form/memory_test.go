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

// counting gives each key 10 permits, which never come back while the state of the key is kept.
func counting() (Rule[int64], error) {
	return Rule[int64]{
		Numbers: Numbers{Limit: 10, Interval: time.Minute, Idle: time.Minute},
		Take: func(used *int64, _, n, _ int64) Decision {
			if n > 10-*used {
				return Decision{Remaining: 10 - *used}
			}
			*used += n
			return Decision{Allowed: true, Remaining: 10 - *used}
		},
	}, nil
}

// keys returns the form with keys that counts.
func keys(t *testing.T, opts ...limit.Option) *memory[int64] {
	t.Helper()
	return redistest.Must(InMemory(counting, opts))(t).Each.(*memory[int64])
}

// clocked returns keys by a clock.
func clocked(t *testing.T, now *time.Time) *memory[int64] {
	t.Helper()
	return keys(t, limit.WithClock(func() time.Time { return *now }))
}

// cached returns how many keys a form keeps.
func cached(k *memory[int64]) (n int) {
	shards := k.shards
	for i := range shards {
		n += len(shards[i].new)
		for key := range shards[i].old {
			if shards[i].new[key] == nil {
				n++
			}
		}
	}
	return n
}

// take takes a permit of a key and returns what remains.
func take(t *testing.T, k *memory[int64], key string) int64 {
	t.Helper()
	return redistest.Must(k.Allow(t.Context(), key, 1))(t).Remaining
}

// Calls drop the keys that were unused for Idle or twice that. A key that is used, as seldom as once in
// nearly Idle, is kept.
func TestIdleKeysAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keys(t)
		for i := range 10_000 {
			take(t, k, fmt.Sprint(i))
		}
		for i := range int64(9) {
			if left := take(t, k, "busy"); left != 9-i {
				t.Errorf("%d are left, want %d", left, 9-i)
			}
			if n := cached(k); i < 1 && n != 10_001 || i > 3 && n != 1 {
				t.Errorf("%d keys after %v", n, time.Duration(i)*59*time.Second)
			}
			time.Sleep(59 * time.Second)
		}
	})
}

// With a bound, keys in use have limits of their own up to it. Further ones share limits, and never get more.
func TestMostKeys(t *testing.T) {
	now := time.Unix(2_000_000_000, 0)
	clock := limit.WithClock(func() time.Time { return now })
	const most, crowd = 1000, 20_000
	k := keys(t, clock, limit.WithMostKeys(most))
	take(t, k, "first")
	passed := 0
	for turn := range 4 {
		for i := range crowd {
			if redistest.Must(k.Allow(t.Context(), fmt.Sprint(turn, i), 1))(t).Allowed {
				passed++
			}
		}
		if n := cached(k); n > 3*(most+shards) {
			t.Errorf("turn %d: %d keys are kept", turn+1, n)
		}
		if left, want := take(t, k, "first"), int64(8-turn); left != want {
			t.Errorf("turn %d: %d are left, want %d", turn+1, left, want)
		}
		now = now.Add(time.Minute)
	}
	if enough := 4 * most * 20; passed > enough {
		t.Errorf("%d of %d passed, want at most %d", passed, 4*crowd, enough)
	}
	t.Logf("%d passed, %d keys are kept", passed, cached(k))
}

// A clock that is set far back keeps no key for ever.
func TestKeysAreDroppedAfterTheClockWasSetBack(t *testing.T) {
	now := time.Unix(2_000_000_000, 0)
	k := clocked(t, &now)
	for i := range 1000 {
		take(t, k, fmt.Sprint(i))
	}
	now = now.Add(-24 * time.Hour)
	for range 4 {
		take(t, k, "other")
		now = now.Add(time.Minute)
	}
	if n := cached(k); n != 1 {
		t.Errorf("%d keys, want 1", n)
	}
}

// The call that turns the shards makes no room for as many keys as there were: room for 10 million would
// delay that call by 200 ms, and stay when all keys are gone.
func TestATurnMakesNoRoom(t *testing.T) {
	now := time.Unix(2_000_000_000, 0)
	k := clocked(t, &now)
	const most = 100_000 // bytes; room for half of the keys takes 700,000
	for i := range 50_000 {
		take(t, k, fmt.Sprint(i))
	}
	now = now.Add(time.Minute)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	take(t, k, "other")
	runtime.ReadMemStats(&after)
	if made := after.TotalAlloc - before.TotalAlloc; made > most {
		t.Errorf("the call allocated %d bytes, want at most %d", made, most)
	}
}

// A caller that other callers overtook while it waited for the lock sees their later time. Time goes
// back only by the clock of an option.
func TestClockOfALateCaller(t *testing.T) {
	for _, tt := range []struct {
		set  func() time.Time
		want [3]int64
	}{
		{nil, [3]int64{5, 7, 7}},
		{time.Now, [3]int64{5, 7, 6}},
	} {
		c, last := clock{set: tt.set}, int64(0)
		for i, read := range []int64{5, 7, 6} {
			if got := c.settle(read, &last); got != tt.want[i] {
				t.Errorf("own clock %v, call %d: time %d, want %d", tt.set != nil, i, got, tt.want[i])
			}
		}
	}
}

// A clock that panics leaves no limit locked: the next call returns.
func TestPanicLeavesNothingLocked(t *testing.T) {
	broken := false
	opts := []limit.Option{limit.WithClock(func() time.Time {
		if broken {
			panic("no time")
		}
		return time.Unix(1e9, 0)
	})}
	forms := redistest.Must(InMemory(counting, opts))(t)
	for name, l := range map[string]Form{"a limit": forms.One, "limits of keys": forms.Each} {
		for what, call := range map[string]func() error{
			"Lend": func() error { _, _, err := l.Lend(t.Context(), "key", 1); return err },
			"Do": func() error {
				return l.(Opened[int64]).Do(t.Context(), "key", func(*int64, int64) {})
			},
		} {
			if broken = true; !panics(call) {
				t.Errorf("%s of %s: no panic", what, name)
			}
			broken = false
			done := make(chan error, 1)
			go func() { done <- call() }()
			select {
			case err := <-done:
				redistest.NoError(t, err)
			case <-time.After(10 * time.Second):
				t.Fatalf("%s of %s is locked", what, name)
			}
		}
	}
}

// panics calls, and reports whether that panics.
func panics(call func() error) (did bool) {
	defer func() { did = recover() != nil }()
	_ = call()
	return false
}
