package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// quantile returns the least value that a part of all values, 0 to 1, does not
// exceed, and the zero value if there are no values. It sorts them.
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

// micros returns a duration in µs.
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// millis returns a duration in ms.
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// sum returns the sum of all values.
func sum[T cmp.Ordered](values ...T) (total T) {
	for _, v := range values {
		total += v
	}
	return total
}
