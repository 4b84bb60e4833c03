// Package redistest starts the servers that tests talk to: redis-server
// processes alone, as a cluster or under sentinels, the embedded miniredis, and
// a TCP proxy that loses, delays and holds back what passes through it.
//
// Everything that is started belongs to the test that started it and is gone,
// with its process, port and directory, when that test ends. Nothing is shared
// and nothing of the machine's own is touched: a test may flush, kill or
// reconfigure what it was given.
package redistest
