// Package shares measures how callers divide a limit that is too small for all of
// them: callers of Go beside callers of Java, and Go processes among themselves.
//
//	peer, err := javapeer.Start(ctx, "")
//	...
//	several, err := shares.Repeat(ctx, peer, shares.Scenarios[0], 10*time.Second, 3)
//	fmt.Println(several.Java().Median, several.Used().Median)
//
// Each run has its own redis-server, limiter and clients. Every caller acquires
// with a timeout, in a loop, so all of them wait most of the time.
//
// A grant counts for the part of its interval that lies in the measured span. The
// grants of a limit that is always used up then add up to exactly
// rate × span / interval, wherever the span begins: a burst at its edge does not
// matter. A permit that lies idle for a while reduces the sum by that
// part of its interval.
package shares
