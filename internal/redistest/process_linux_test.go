package redistest_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A server dies with its test binary, even if that is killed and runs no cleanup.
func TestServerDiesWithTestBinary(t *testing.T) {
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
		t.Errorf("nobody listens at %s", addr)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	eventually(t, "end of the server", func() bool { return !listening(addr) })
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

// The parent-death signal comes when the thread that forked ends. A server must not
// depend on the thread of its caller.
func TestServerOutlivesThread(t *testing.T) {
	redistest.Require(t, "redis-server")
	var f fakeTB
	defer func() {
		for _, g := range slices.Backward(f.cleanups) {
			g()
		}
	}()
	var s *redistest.Server
	thread := onDyingThread(t, func() { s = redistest.Start(&f) })
	eventually(t, "end of the thread", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", thread))
		return os.IsNotExist(err)
	})
	if err := s.Admin().Ping(t.Context()).Err(); err != nil {
		t.Error("the server is gone:", err)
	}
}

// onDyingThread calls f on a thread that ends after it, and returns its id.
func onDyingThread(t *testing.T, f func()) (thread int) {
	ran := make(chan int)
	over := make(chan struct{})
	defer close(over)
	for range 2 {
		go func() {
			runtime.LockOSThread()
			if syscall.Gettid() == os.Getpid() { // the first thread never ends: keep it busy
				ran <- 0
				<-over
				runtime.UnlockOSThread()
				return
			}
			f()
			ran <- syscall.Gettid() // and end, still locked, which ends the thread
		}()
		if thread = <-ran; thread != 0 {
			return thread
		}
	}
	t.Fatal("there is only one thread")
	return 0
}
