// Package faults breaks Redis and the network while callers of Go and of Java share
// a limiter, and reports the effects.
//
//	testbed := faults.NewTestbed(ctx, t, peer, fault.Setup)
//	report, err := testbed.Play(ctx, fault)
//	... report.Wrong ...
//
// Each fault is an entry of a table ([OfServer], [OfNetwork], [OfSentinel],
// [OfCluster]): what it needs, what it does, which errors callers may get, and what
// Redis may forget. All are played alike: eight callers of Go in three Clients and
// four threads of Java in two instances work, something breaks and heals, both are
// served again, and then
//
//   - no window was over the limit, but for what the fault explains,
//   - all permits are back one interval after the last call,
//   - no caller of Go was late by more than 50 ms,
//   - each error is of a kind that the documentation names,
//   - no goroutine is left.
package faults
