// Package faults breaks Redis and the network while callers of Go and of Java share a limiter.
//
// Each [Fault] is an entry of a table ([OfServer], [OfMemory], [OfNetwork], [OfLeases], [OfSentinel],
// [OfCluster]): what it needs, what it does, which errors callers may get, and what Redis may forget.
// [Testbed.Play] plays each in the same way: eight callers of Go in three Clients and four threads of Java in
// two instances work, something breaks and heals, both sides are served again, and then
//
//   - no window was over the limit, except by grants that Redis may have forgotten,
//   - all permits are back one interval after the last call,
//   - no caller of Go was late by more than a busy machine explains,
//   - each error is of a kind that the documentation names.
//
// No goroutine is left when all faults have been played.
package faults
