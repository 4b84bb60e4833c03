package redistest_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A server dies with its test binary, even if that is killed and runs no cleanup.
func TestAServerDiesWithTheTestBinary(t *testing.T) {
	redistest.Require(t, "redis-server")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), orphanEnv+"=1", "TMPDIR="+t.TempDir())
	in, err := cmd.StdinPipe() // stays open: the binary waits for it to end
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out := redistest.Must(cmd.StdoutPipe())(t)
	redistest.NoError(t, cmd.Start())
	var addr string
	if _, err := fmt.Fscanln(out, &addr); err != nil {
		t.Fatalf("no server: %v", err)
	}
	defer shutDown(addr) // whatever this test finds
	if !listening(addr) {
		t.Errorf("no server listens at %s", addr)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	redistest.Until(t, "end of the server", func() error {
		if listening(addr) {
			return errors.New("the server still accepts connections")
		}
		return nil
	})
}

// shutDown ends the server at addr, if there is one, by asking it to.
func shutDown(addr string) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "SHUTDOWN NOSAVE\r\n")
	_, _ = io.ReadAll(conn)
}

// listening reports whether a server accepts connections at addr.
func listening(addr string) bool {
	conn, err := net.Dial("tcp", addr)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}
