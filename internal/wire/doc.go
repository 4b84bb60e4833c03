// Package wire defines the bytes that Go and Java share: the names of the keys of a
// limiter, the fields of its hash, and the formats of its records. It does not ask
// Redis. All code that reads or writes the keys takes their names from here: the
// library, the command line, benchmarks and tests.
package wire
