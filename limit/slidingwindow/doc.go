// Package slidingwindow looks back over an interval at every moment, so there is no window boundary at
// which twice the rate passes. It has two limiters.
//
// [Log] records the time of each grant. It never exceeds the limit: no interval, wherever it begins, has
// more than the rate, and a permit comes back exactly an interval after it was taken. It needs room for
// up to 1,000 grants.
//
// [Counter] counts the permits of each part of an interval, and needs room for one more number than there
// are parts: 11 by default. It is right on average. A burst at the end of a part comes back a part too
// early; the documentation of Counter has the figures.
package slidingwindow
