package redistest

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"time"
)

// answers returns nil if the process pid answers at addr. An answer alone is not
// enough: between the choice of the port and the bind another server may have
// taken it. A test would take that server and its data for its own.
func answers(addr string, pid int) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Write([]byte("INFO server\r\n")); err != nil {
		return err
	}
	reply, _, err := appendFrame(nil, bufio.NewReader(conn))
	if err != nil {
		return err
	}
	return identify(string(reply), pid)
}

// identify returns nil if info is the reply of process pid to INFO. A server that
// wants a password first replies as well, but without its pid.
func identify(info string, pid int) error {
	if strings.HasPrefix(info, "-NOAUTH") {
		return nil
	}
	if !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", pid)) {
		return fmt.Errorf("process %d does not reply, but another one does: %.60q", pid, info)
	}
	return nil
}
