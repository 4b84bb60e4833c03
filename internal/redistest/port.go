package redistest

import (
	"net"
	"strconv"
)

// busOffset is what a cluster node adds to its port for the bus between nodes.
const busOffset = 10000

// freePort returns a loopback port that was free a moment ago, and so was the port
// busOffset above it. Another process may take either before the server does, so
// the caller must be ready to try another.
func freePort() (int, error) {
	for {
		port, err := listenOnce("127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		if port+busOffset > 65535 {
			continue
		}
		if _, err := listenOnce(loopback(port + busOffset)); err == nil {
			return port, nil
		}
	}
}

// listenOnce listens on addr, stops at once and returns the port.
func listenOnce(addr string) (int, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// loopback returns the address of port on this machine. It is always IPv4, so a
// cluster or a sentinel announces the address that the server was started with.
func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
