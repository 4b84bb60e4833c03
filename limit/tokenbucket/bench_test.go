package tokenbucket_test

import (
	"context"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit/tokenbucket"
)

// Bucket in memory beside golang.org/x/time/rate: alone, and what it costs that one to
// say the numbers of a Result, too.
func BenchmarkBucket(b *testing.B) {
	for name, perSecond := range map[string]float64{"granted": 1e9, "refused": 0.001} {
		l := redistest.Must(
			tokenbucket.Bucket{Capacity: 100, Rate: perSecond, Interval: time.Second}.InMemory())(b)
		b.Run(name, func(b *testing.B) {
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				_, _ = l.Allow(ctx, 1)
			}
		})
		theirs := rate.NewLimiter(rate.Limit(perSecond), 100)
		b.Run(name+" by x/time/rate", func(b *testing.B) {
			for b.Loop() {
				_ = theirs.AllowN(time.Now(), 1)
			}
		})
		b.Run(name+" by x/time/rate, with numbers", func(b *testing.B) {
			for b.Loop() {
				now := time.Now()
				_ = theirs.AllowN(now, 1)
				_ = theirs.TokensAt(now)
			}
		})
	}
}

func BenchmarkSmooth(b *testing.B) {
	l := redistest.Must(tokenbucket.Smooth{Rate: 1e9, Interval: time.Second}.InMemory())(b)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		_, _ = l.Allow(ctx, 1)
	}
}
