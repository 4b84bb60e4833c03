package redistest

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"time"
)

// answers returns nil if the process pid is who answers at addr. Being answered
// is not enough: the port may have gone to a server of somebody else between
// being picked and being bound, and that one would be taken for ours, with its
// data.
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

// identify returns nil if info is the answer of process pid to INFO. A server
// that wants a password first answers too, but doesn't tell who it is.
func identify(info string, pid int) error {
	if strings.HasPrefix(info, "-NOAUTH") {
		return nil
	}
	if !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", pid)) {
		return fmt.Errorf("process %d does not answer, but somebody does: %.60q", pid, info)
	}
	return nil
}
