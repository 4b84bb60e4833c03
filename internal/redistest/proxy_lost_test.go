package redistest_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"testing"
	"time"
)

// Half of a reply arrives, and then the connection ends. The script has run.
func TestProxyTearReply(t *testing.T) {
	s, p := proxied(t)
	p.TearReply(1)
	conn := dial(t, p)
	eval := "*3\r\n$4\r\nEVAL\r\n$22\r\nredis.call('incr','a')\r\n$1\r\n0\r\n"
	whole := "$-1\r\n"
	if _, err := io.WriteString(conn, eval); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil || string(got) != whole[:len(whole)/2] {
		t.Errorf("%q, %v; want half of %q", got, err, whole)
	}
	if n := s.Admin().Get(t.Context(), "a").Val(); n != "1" || p.Swallowed() != 1 {
		t.Errorf("a is %q, %d torn", n, p.Swallowed())
	}
	conn = dial(t, p)
	if _, err := io.WriteString(conn, eval); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || line != whole {
		t.Errorf("the next reply is %q, %v", line, err)
	}
}

// What comes over connections that were forgotten is lost, and nobody is told. New
// ones are well again; the others stay lost.
func TestProxyVanish(t *testing.T) {
	s, p := proxied(t)
	ping := func(conn io.ReadWriter) (string, error) {
		if _, err := io.WriteString(conn, "*2\r\n$4\r\nINCR\r\n$1\r\na\r\n"); err != nil {
			return "", err
		}
		return bufio.NewReader(conn).ReadString('\n')
	}
	old := dial(t, p)
	if line, err := ping(old); line != ":1\r\n" || err != nil {
		t.Fatal(line, err)
	}
	appear := p.Vanish()
	during := dial(t, p)
	silent := func(what string, conn interface {
		io.ReadWriter
		SetReadDeadline(time.Time) error
	}) {
		t.Helper()
		_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if line, err := ping(conn); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %q, %v; want silence", what, line, err)
		}
	}
	silent("open before", old)
	silent("opened meanwhile", during)
	appear()
	silent("open before, after", old)
	silent("opened meanwhile, after", during)
	if line, err := ping(dial(t, p)); line != ":2\r\n" || err != nil {
		t.Errorf("a new one: %q, %v", line, err)
	}
	if n := s.Admin().Get(t.Context(), "a").Val(); n != "2" {
		t.Errorf("a is %s: a lost request has arrived", n)
	}
}
