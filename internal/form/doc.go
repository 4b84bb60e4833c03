// Package form makes the forms of a limiter from its algorithm: in memory and on Redis, each with one
// limit or with one for each key. An algorithm is a [Rule]: its numbers, its decision in Go, and a
// script that decides the same in Redis. Both count time in µs, so that they decide alike.
//
// A script has one key, and so runs on a cluster. Its reply holds the numbers of a [Decision]. Its Lua
// keeps the rules of docs/architecture.md.
package form
