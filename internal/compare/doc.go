// Package compare plays random sequences of calls in which Redisson and this library take turns on
// one limiter, and reports the first step that is wrong.
//
// A sequence is 20 [Step] values that follow from a seed. After each step everything that Redis
// holds of the limiter is read and decoded: the state. The answer and the state after it are the
// outcome of the step.
//
// Go must do exactly what a model says, whatever Java has left before. The model is a sliding log,
// exact to the ms, without the faults of Redisson. Less is expected of Java: it may not change the
// pair of another client, and value and records must agree after its steps. Steps by which Java would
// harm the limit for all clients are left to Go. A ledger of all grants, by the answers alone, never
// holds more than the rate in any window. A difference is a [Divergence].
package compare
