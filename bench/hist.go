package main

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// A hist counts durations in buckets. Callers of a batch can share one, and its
// size does not depend on how many calls a batch makes.
type hist struct{ counts [36 << subBits]atomic.Uint32 }

// subBits is how many bits of buckets each power of two has: with 5 a bucket is
// at most 3 % wide, less than two runs differ by.
const subBits = 5

// bucket returns the bucket of a duration. Below 32 ns buckets are exact; one
// bucket holds everything from nine minutes on.
func bucket(d time.Duration) int {
	ns := uint64(min(max(0, d), 1<<39))
	shift := max(0, bits.Len64(ns)-subBits-1)
	return shift<<subBits + int(ns>>shift)
}

// middle returns the duration that stands for all in a bucket.
func middle(bucket int) time.Duration {
	shift := max(0, bucket>>subBits-1)
	return time.Duration(bucket-shift<<subBits)<<shift + time.Duration(1)<<shift/2
}

// add counts one duration.
func (h *hist) add(d time.Duration) { h.counts[bucket(d)].Add(1) }

// merge adds the counts of others.
func (h *hist) merge(others []hist) {
	for i := range others {
		for j := range others[i].counts {
			h.counts[j].Add(others[i].counts[j].Load())
		}
	}
}

// total returns how many durations were counted.
func (h *hist) total() (n int64) {
	for i := range h.counts {
		n += int64(h.counts[i].Load())
	}
	return n
}

// quantile returns the least duration that a part of all, 0 to 1, does not
// exceed, and 0 if none was counted.
func (h *hist) quantile(part float64) time.Duration {
	left := max(1, int64(math.Ceil(part*float64(h.total()))))
	for i := range h.counts {
		if left -= int64(h.counts[i].Load()); left <= 0 {
			return middle(i)
		}
	}
	return 0
}
