// Package live shows limiters as they change: on a terminal, or as a line for each look. It reads each
// limiter at most once a second, a bounded part of it, and writes nothing to Redis.
//
// A [Watch] names the limiters. Each look at a limiter goes to its panel, which keeps the history of the
// limiter. [Watch.Run] draws the panels, [Watch.Lines] prints a line for each look.
package live
