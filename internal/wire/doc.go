// Package wire is what Go shares with Java byte by byte: the names of the keys of
// a limiter, the fields of its hash, and the formats of its records. It asks Redis
// nothing. Whoever reads or writes the keys takes their names from here: the
// library, the command line, benchmarks and tests.
package wire
