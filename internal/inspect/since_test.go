package inspect_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		l := limiter(t, rdb, rratelimiter.Overall, 10, 10*time.Second)
		take(t, l, 2)
		before := look(t, rdb, l.Name())
		for _, step := range []struct {
			name string
			do   func()
			want inspect.Change
		}{
			{"nothing", func() {}, inspect.Change{}},
			{"grants of Go and of Java", func() {
				take(t, l, 3, 1)
				put(t, rdb, "{"+l.Name()+"}:permits", redistest.JavaRecord(1, 1), 0)
				rdb.Decr(t.Context(), "{"+l.Name()+"}:value")
			}, inspect.Change{ByGo: 4, ByOthers: 1}},
			{"a release", func() {
				redistest.NoError(t, l.Release(t.Context(), 2))
			}, inspect.Change{Released: 2}},
			{"refusals, seen at the next grant", func() {
				for range 5 {
					if ok, err := l.TryAcquire(t.Context(), 9, 0); ok || err != nil {
						t.Fatal(ok, err)
					}
				}
				take(t, l, 1)
			}, inspect.Change{ByGo: 1, Refused: 5}},
			{"a repair", func() {
				if _, err := clientOn(t, rdb, rratelimiter.WithRedisson("3.17.0")).
					RateLimiter(l.Name()).Repair(t.Context()); err != nil {
					t.Fatal(err)
				}
			}, inspect.Change{}},
			{"expired permits are not released", func() { time.Sleep(11 * time.Second) }, inspect.Change{}},
		} {
			time.Sleep(time.Second)
			step.do()
			now := look(t, rdb, l.Name())
			step.want.Seen = min(now.At.Sub(before.At), 10*time.Second)
			if got := now.Since(before, ""); got != step.want {
				t.Errorf("%s: %+v, want %+v", step.name, got, step.want)
			}
			before = now
		}
		if got := before.Since(before, "nobody"); got != (inspect.Change{}) {
			t.Errorf("a pair that was not read: %+v", got)
		}
	})
}

// A change says if there were more grants than were read.
func TestSinceMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		l := limiter(t, rdb, rratelimiter.Overall, 100, time.Hour)
		read := func() *inspect.Limiter {
			time.Sleep(time.Millisecond) // no two grants have the same score
			got := redistest.Must(inspect.Read(t.Context(), rdb, l.Name(), 4))(t)
			return got
		}
		before := read()
		for range 10 {
			time.Sleep(time.Millisecond)
			take(t, l, 1)
		}
		if got := read().Since(before, ""); !got.AtLeast || got.ByGo < 2 || got.ByGo > 10 {
			t.Errorf("%+v", got)
		}
		before = read()
		take(t, l, 1)
		if got := read().Since(before, ""); got.AtLeast || got.ByGo != 1 || got.Released != 0 {
			t.Errorf("%+v", got)
		}
	})
}
