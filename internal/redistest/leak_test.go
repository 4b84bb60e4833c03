package redistest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

type runs func() int

func (r runs) Run() int { return r() }

func TestRunWithoutLeaks(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	serve := func(t redistest.TB) { redistest.Start(t).Client(t).Ping(context.Background()) }
	for _, c := range []struct {
		name  string
		run   runs
		limit time.Duration
		want  int
	}{
		{"clean", func() int { return 0 }, time.Minute, 0},
		{"failed", func() int { return 2 }, time.Minute, 2},
		{"goroutine that ends", func() int { go func() {}(); return 0 }, time.Minute, 0},
		{"server that ends", func() int { new(fakeTB).run(serve); return 0 }, time.Minute, 0},
		{"goroutine that stays", func() int { go func() { <-stop }(); return 0 }, 0, 1},
	} {
		got, err := redistest.RunWithoutLeaks(c.run, c.limit)
		if got != c.want {
			t.Errorf("%s: code %d, want %d", c.name, got, c.want)
		}
		if c.want == 1 && (err == nil || !strings.Contains(err.Error(), "TestRunWithoutLeaks")) {
			t.Errorf("%s: the error doesn't tell where: %v", c.name, err)
		}
	}
}
