// Package slidingwindow looks back over an interval at every moment, so that there is no end of a window
// at which twice the rate passes. It has two limiters.
//
// [Log] records the time of each grant. It never exceeds the limit: no interval, wherever it begins, has
// more than the rate, and a permit comes back exactly an interval after it was taken. It needs room for
// up to 1,000 grants.
//
// [Counter] counts the permits of the parts of an interval, and needs room for one number more than there
// are parts: 11 by default. It is right on average. A burst at the end of a part comes back a part too
// early; its documentation has the figures.
package slidingwindow
