// Package live shows limiters as they change: on a terminal, or as a line for each look. It
// reads each limiter at most once a second, a bounded part of it, and writes nothing to Redis.
//
// A [Watch] says which limiters. Each look at one of them goes to its panel, which is what is known
// of it. [Watch.Run] draws the panels, [Watch.Lines] prints what each look has found.
package live
