package rratelimiter_test

import (
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
)

// A release takes permits out of the records of its own Client, also where others have
// newer ones. So no interval holds more than the rate.
func TestAReleaseLeavesTheRecordsOfOthers(t *testing.T) {
	for _, format := range []rratelimiter.RecordFormat{
		rratelimiter.RecordBc0I16, rratelimiter.RecordBc0I8, rratelimiter.RecordLc0I, rratelimiter.RecordFI,
	} {
		t.Run(format.String(), func(t *testing.T) {
			for _, resolution := range []time.Duration{0, 100 * time.Millisecond} {
				onBoth(t, func(b *bench) { b.lateRelease(format, resolution) })
			}
		})
	}
}

func (b *bench) lateRelease(format rratelimiter.RecordFormat, resolution time.Duration) {
	opts := []rratelimiter.Option{rratelimiter.WithRecordFormat(format)}
	if resolution > 0 {
		opts = append(opts, rratelimiter.WithResolution(resolution))
	}
	first := b.limiter(overall, 10_000, 3*time.Second)
	start := b.now
	by := func() *limiter { return first.by(b.newClient(opts...)) }
	a, other, third, fourth := by(), by(), by(), by()
	a.takes(3500)
	b.now = start + 2500
	other.takes(6500)
	a.gives(2300)
	third.takes(2300)
	b.now = start + 3100
	if ok, err := fourth.TryAcquire(b.Context(), 1201, 0); ok || err != nil {
		b.Fatalf("%v, %v; 8800 of 10000 permits count still, so 1201 must be refused", ok, err)
	}
	if resolution == 0 {
		fourth.takes(1200)
	}
	first.keeps(10_000, first.value(), first.permits())
}
