// Package redistest starts the servers that tests use: single redis-server
// processes, clusters, servers under sentinels, the embedded miniredis, and a TCP
// proxy that loses, delays and holds back what passes through it.
//
// Everything belongs to the test that started it. When that test ends, its
// processes, ports and directories are gone. Nothing is shared, so a test may
// flush, kill or reconfigure its servers.
package redistest
