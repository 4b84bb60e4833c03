// Package form makes the two forms of a limiter of one algorithm: in memory and on
// Redis, each with one limit or with one for each key. An algorithm is a [Rule]: its
// numbers, what it does in Go, and the script that does the same in Redis. Both go by
// time in µs, so that they decide alike.
//
// A script has one key, and so runs on a cluster. Its reply is that of Rule.Take.
// Its Lua keeps the rules of docs/architecture.md.
package form
