// Package slidingwindow looks back over an interval at every moment, so that there is no
// end of a window at which twice as much goes through. It has two limiters.
//
// [Log] notes when permits were taken. It never passes the limit: no interval, wherever
// it begins, has more than the rate, and a permit comes back exactly an interval after it
// was taken. It needs room for up to 1,000 grants.
//
// [Counter] counts the permits of the parts of an interval, and needs room for as many
// numbers: 11, unless told otherwise. It is right on average. A burst at the end of a part
// comes back a part too early: see there how much that is.
package slidingwindow
