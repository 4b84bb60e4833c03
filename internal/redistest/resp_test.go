package redistest

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// frames are replies of every kind. Each is followed by another one, to prove that
// no byte too many is read.
var frames = []string{
	"+OK\r\n", "-ERR no\r\n", ":-5\r\n", "$-1\r\n", "*-1\r\n", "$0\r\n\r\n", "*0\r\n",
	"$6\r\na\r\nb\r\n\r\n", // a line end within a string
	"*2\r\n$1\r\na\r\n*2\r\n:1\r\n*1\r\n+x\r\n",
	"_\r\n", "#t\r\n", ",1.5\r\n", "(123456789012345678901234567890\r\n",
	"=7\r\ntxt:abc\r\n", "!5\r\nERR x\r\n",
	"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n", "~2\r\n:1\r\n:2\r\n",
	">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n",
	"|1\r\n+ttl\r\n:5\r\n*1\r\n:1\r\n", // attributes and what they describe
	"+" + strings.Repeat("long", 10000) + "\r\n",
	"$40000\r\n" + strings.Repeat("long", 10000) + "\r\n",
}

func TestAppendFrame(t *testing.T) {
	all := strings.Join(frames, "")
	for name, src := range map[string]io.Reader{
		"at once":      strings.NewReader(all),
		"byte by byte": iotest.OneByteReader(strings.NewReader(all)),
	} {
		r := bufio.NewReaderSize(src, 16)
		var buf []byte
		for _, want := range frames {
			frame, kind, err := appendFrame(buf[:0], r)
			if string(frame) != want || kind != want[0] || err != nil {
				t.Fatalf("%s: %.40q became %.40q of kind %q, %v", name, want, frame, kind, err)
			}
			buf = frame
		}
		if _, _, err := appendFrame(nil, r); err != io.EOF {
			t.Errorf("%s: at the end: %v", name, err)
		}
	}
}

func TestAppendFrameBroken(t *testing.T) {
	for _, in := range []string{
		"\r\n", "hello\r\n", "$x\r\n", "*99999999999\r\n", "$-2\r\n", "*\r\n", "*1\r\n\r\n",
	} {
		_, _, err := appendFrame(nil, bufio.NewReader(strings.NewReader(in)))
		if !errors.Is(err, errProtocol) {
			t.Errorf("%q: %v", in, err)
		}
	}
	for _, whole := range frames[:10] {
		_, _, err := appendFrame(nil, bufio.NewReader(strings.NewReader(whole[:len(whole)-1])))
		if err != io.EOF && err != io.ErrUnexpectedEOF {
			t.Errorf("%q cut short: %v", whole, err)
		}
	}
}

func TestRequestRead(t *testing.T) {
	long := strings.Repeat("long", 10000) // longer than the buffer of the reader
	cases := []struct {
		raw  string
		args []string
	}{
		{"*1\r\n$4\r\nPING\r\n", []string{"PING"}},
		{"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\n\r\nv\n\r\n", []string{"SET", "k", "\r\nv\n"}},
		{"*2\r\n$3\r\nGET\r\n$0\r\n\r\n", []string{"GET", ""}},
		{"  SET a  aa a\r\n", []string{"SET", "a", "aa", "a"}},
		{"PING\n", []string{"PING"}},
		{"\r\n", []string{}},
		{"*0\r\n", []string{}},
		{"*1\r\n$40000\r\n" + long + "\r\n", []string{long}},
	}
	var all strings.Builder
	for _, c := range cases {
		all.WriteString(c.raw)
	}
	r := bufio.NewReaderSize(iotest.HalfReader(strings.NewReader(all.String())), 16)
	var q request
	for _, c := range cases {
		if err := q.read(r); err != nil || string(q.raw) != c.raw || !slices.Equal(q.strings(), c.args) {
			t.Errorf("%.40q became %.40q with %.40q, %v", c.raw, q.raw, q.strings(), err)
		}
	}
	if err := q.read(r); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

func TestRequestReadBroken(t *testing.T) {
	for _, in := range []string{"*x\r\n", "*1\r\n:1\r\n", "*1\r\n$-1\r\n", "*1\r\n\r\n"} {
		var q request
		if err := q.read(bufio.NewReader(strings.NewReader(in))); !errors.Is(err, errProtocol) {
			t.Errorf("%q: %v", in, err)
		}
	}
}
