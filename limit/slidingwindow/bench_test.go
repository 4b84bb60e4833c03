package slidingwindow_test

import (
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit/slidingwindow"
)

// What a call in memory costs: granted, and refused.
func BenchmarkAllow(b *testing.B) {
	for name, a := range map[string]formtest.Algorithm{
		"Log granted":          slidingwindow.Log{Rate: 1 << 40, Interval: time.Second},
		"Log refused":          slidingwindow.Log{Rate: 1000, Interval: time.Hour},
		"Counter granted":      slidingwindow.Counter{Rate: 1 << 40, Interval: time.Second},
		"Counter refused":      slidingwindow.Counter{Rate: 1000, Interval: time.Hour},
		"Counter of 1 granted": slidingwindow.Counter{Rate: 1 << 40, Interval: time.Second, Parts: 1},
	} {
		b.Run(name, func(b *testing.B) {
			l := redistest.Must(a.InMemory())(b)
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Allow(ctx, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
