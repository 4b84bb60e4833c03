// Package shares measures how callers divide a limit that is too small for all
// of them: those of Go beside those of Java, and Go processes among one
// another.
//
//	peer, err := javapeer.Start(ctx, "")
//	...
//	several, err := shares.Repeat(ctx, peer, shares.Scenarios[0], 10*time.Second, 3)
//	fmt.Println(several.Java().Median, several.Used().Median)
//
// Each run has a redis-server, a limiter and clients of its own. Every caller
// asks with a timeout, in a loop, so all of them wait most of the time.
//
// A grant counts for that part of its interval which lies in the measured
// span. The grants of a limit that is always used up then amount to exactly
// rate × span / interval, whichever moment the span begins at: a burst at its
// edge does not matter. A permit that lies idle for a while is missing by as
// much.
package shares
