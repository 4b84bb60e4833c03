package main

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"
)

// A hist counts durations in buckets that are 3 % wide, so that the callers of
// a batch can share a few and what they keep does not grow with what they do.
type hist struct{ counts [36 << subBits]atomic.Uint32 }

const subBits = 5 // each power of two has so many bits of buckets

// bucket returns where a duration is counted; those below 32 ns are exact, all
// above nine minutes are alike.
func bucket(d time.Duration) int {
	ns := uint64(min(max(0, d), 1<<39))
	shift := max(0, bits.Len64(ns)-subBits-1)
	return shift<<subBits + int(ns>>shift)
}

// middle returns the duration that the ones in a bucket are taken to be.
func middle(bucket int) time.Duration {
	shift := max(0, bucket>>subBits-1)
	return time.Duration(bucket-shift<<subBits)<<shift + time.Duration(1)<<shift/2
}

func (h *hist) add(d time.Duration) { h.counts[bucket(d)].Add(1) }

// merge adds what others have counted.
func (h *hist) merge(others []hist) {
	for i := range others {
		for j := range others[i].counts {
			h.counts[j].Add(others[i].counts[j].Load())
		}
	}
}

func (h *hist) total() (n int64) {
	for i := range h.counts {
		n += int64(h.counts[i].Load())
	}
	return n
}

// quantile returns the least duration that a part of all, 0 to 1, does not
// exceed, 0 if there is none.
func (h *hist) quantile(part float64) time.Duration {
	left := max(1, int64(math.Ceil(part*float64(h.total()))))
	for i := range h.counts {
		if left -= int64(h.counts[i].Load()); left <= 0 {
			return middle(i)
		}
	}
	return 0
}

// quantile returns the least value that a part of all values, 0 to 1, does not
// exceed, the zero value if there is none. It sorts them.
func quantile[T cmp.Ordered](values []T, part float64) T {
	if len(values) == 0 {
		var zero T
		return zero
	}
	slices.Sort(values)
	rank := int(math.Ceil(part * float64(len(values))))
	return values[max(1, rank)-1]
}

// median returns the median of one figure over some samples.
func median[T any](samples []T, figure func(T) float64) float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = figure(s)
	}
	return quantile(values, 0.5)
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
