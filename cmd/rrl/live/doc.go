// Package live shows limiters as they change: on a terminal, or as a line for each look. It
// reads each limiter at most once a second, a bounded part of it, and writes nothing to Redis.
//
// A [Target] is a limiter to look at, a [Panel] is what is known of it, and [Looks] is what brings
// the one to the other. [Run] shows panels on a terminal, [Lines] prints them.
package live
