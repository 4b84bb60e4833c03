package redistest

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// clockSource is a library that gives a process another clock.
//
//go:embed testdata/clock.c
var clockSource []byte

// StartClocked starts a redis-server whose clock can be set. set makes the clock differ
// by d from that of the machine, at once. It needs Linux and a C compiler.
func StartClocked(t TB, args ...string) (s *Server, set func(d time.Duration)) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skipf("redistest: the clock of a server is set on Linux only")
	}
	s = newServer(t, append([]string{"--save", "", "--appendonly", "no"}, args...)...)
	source, library := filepath.Join(s.dir, "clock.c"), filepath.Join(s.dir, "clock.so")
	offset := filepath.Join(s.dir, "clock")
	set = func(d time.Duration) {
		t.Helper()
		if err := writeOffset(offset, d); err != nil {
			t.Fatalf("redistest: setting the clock: %v", err)
		}
	}
	set(0)
	check(t, os.WriteFile(source, clockSource, 0o600))
	gcc := exec.Command(Require(t, "gcc"), "-shared", "-fPIC", "-O1", "-o", library, source)
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("redistest: compiling the clock: %v, saying:\n%s", err, out)
	}
	s.lead = []string{"LD_PRELOAD=" + library, "REDISTEST_CLOCK=" + offset, s.binary}
	s.binary = Require(t, "env")
	s.start(t)
	return s, set
}

// writeOffset changes the file in place: the server has mapped it.
func writeOffset(path string, d time.Duration) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(d.Milliseconds())), 0)
	return err
}
