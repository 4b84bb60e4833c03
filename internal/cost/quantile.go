package main

import (
	"cmp"
	"math"
	"slices"
)

// quantile returns the least value that a part of all values, 0 to 1, does not
// exceed. It sorts them; there must be one.
func quantile[T cmp.Ordered](values []T, part float64) T {
	slices.Sort(values)
	rank := int(math.Ceil(part * float64(len(values))))
	return values[max(1, rank)-1]
}

// median returns the median of one figure over the samples.
func median[T any](samples []T, figure func(T) float64) float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = figure(s)
	}
	return quantile(values, 0.5)
}
