package inspect_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		l := limiter(t, rdb, rratelimiter.Overall, 20, 10*time.Second)
		permits := "{" + l.Name() + "}:permits"
		put(t, rdb, permits, redistest.JavaRecord(1, 1), 10*time.Second) // it is over
		put(t, rdb, permits, redistest.JavaRecord(2, 2), 9*time.Second)
		put(t, rdb, permits, redistest.JavaRecord(3, 3), 5*time.Second)
		put(t, rdb, permits, redistest.JavaRecord(4, 4), -time.Second) // dated ahead
		take(t, l, 5)
		got := look(t, rdb, l.Name())
		want := []inspect.Grants{{ByOthers: 2}, {}, {ByOthers: 3}, {ByGo: 5, ByOthers: 4}}
		if window := got.Window(got.Shared(), 4); !slices.Equal(window, want) {
			t.Errorf("%+v, want %+v", window, want)
		}
		got.Config.Interval = 0
		if window := got.Window(got.Shared(), 4); window != nil {
			t.Errorf("without an interval: %+v", window)
		}
	})
}
