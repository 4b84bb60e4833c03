package redistest

import (
	"bufio"
	"net"
	"strings"
)

// Monitor notes the commands that the server carries out (MONITOR), including those of scripts,
// until stop is called. stop returns their names in lower case, in order.
func (s *Server) Monitor(t TB) (stop func() []string) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr)
	check(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20)
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil || !lines.Scan() || lines.Text() != "+OK" {
		t.Fatalf("redistest: MONITOR: %q, %v, %v", lines.Text(), err, lines.Err())
	}
	const end = "redistest: end of the monitor"
	names := make(chan []string, 1)
	go func() {
		var all []string
		for lines.Scan() && !strings.Contains(lines.Text(), end) {
			// +1763713071.123456 [0 127.0.0.1:51234] "hget" "api" "rate"
			if _, after, ok := strings.Cut(lines.Text(), `] "`); ok {
				name, _, _ := strings.Cut(after, `"`)
				all = append(all, strings.ToLower(name))
			}
		}
		names <- all
	}()
	return func() []string {
		t.Helper()
		last, err := net.Dial("tcp", s.Addr) // go-redis would send other commands
		if err == nil {
			defer last.Close()
			_, err = last.Write([]byte("ECHO \"" + end + "\"\r\n"))
		}
		check(t, err)
		return <-names
	}
}
