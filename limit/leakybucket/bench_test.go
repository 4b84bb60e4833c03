package leakybucket_test

import (
	"context"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/leakybucket"
)

func BenchmarkInMemory(b *testing.B) {
	for name, of := range map[string]func() (limit.Releaser, error){
		"Meter, granted": func() (limit.Releaser, error) {
			return leakybucket.Meter{Capacity: 100, Rate: 1e9, Interval: time.Second}.InMemory()
		},
		"Meter, refused": func() (limit.Releaser, error) {
			return leakybucket.Meter{Capacity: 100, Rate: 1, Interval: time.Hour}.InMemory()
		},
		"Queue, granted": func() (limit.Releaser, error) {
			return leakybucket.Queue{Rate: 1e9, Interval: time.Second, Capacity: 1}.InMemory()
		},
		"Queue, refused": func() (limit.Releaser, error) {
			return leakybucket.Queue{Rate: 1, Interval: time.Hour, Capacity: 1}.InMemory()
		},
	} {
		l := redistest.Must(of())(b)
		b.Run(name, func(b *testing.B) {
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				_, _ = l.Allow(ctx, 1)
			}
		})
	}
}
