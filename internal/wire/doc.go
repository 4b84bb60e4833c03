// Package wire defines the bytes that Go and Java share: the names of the keys of a
// limiter or a lock, the fields of the limiter's hash, and the formats of its records.
// It does not ask Redis.
package wire
