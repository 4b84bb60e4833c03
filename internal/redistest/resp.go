package redistest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// errProtocol is the error for malformed RESP.
var errProtocol = errors.New("redistest: not RESP")

// appendLine appends the next line of r, with its end, to dst and returns both.
func appendLine(dst []byte, r *bufio.Reader) (all, line []byte, err error) {
	start := len(dst)
	for {
		part, err := r.ReadSlice('\n')
		dst = append(dst, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return dst, dst[start:], err
		}
	}
}

// appendBytes appends the next n bytes of r to dst.
func appendBytes(dst []byte, r *bufio.Reader, n int) ([]byte, error) {
	start := len(dst)
	if n > cap(dst)-start {
		dst = append(dst, make([]byte, n)...)
	}
	dst = dst[:start+n]
	_, err := io.ReadFull(r, dst[start:])
	return dst, err
}

// length returns the number after the type byte of line. The bound is what Redis
// allows in a string, so that garbage cannot make the proxy allocate more.
func length(line []byte) (int, error) {
	n, err := strconv.Atoi(string(bytes.TrimRight(line[1:], "\r\n")))
	if err != nil || n < -1 || n > 512<<20 {
		return 0, fmt.Errorf("%w: length in %.40q", errProtocol, line)
	}
	return n, nil
}

// appendFrame appends the next reply or push message of r to dst, in RESP2 or RESP3
// and with all that is nested in it. It also returns the type byte.
func appendFrame(dst []byte, r *bufio.Reader) (frame []byte, kind byte, err error) {
	start := len(dst)
	for missing := 1; missing > 0; missing-- {
		var line []byte
		if dst, line, err = appendLine(dst, r); err != nil {
			return dst, 0, err
		}
		bulk, nested, err := follows(line)
		if err != nil {
			return dst, 0, err
		}
		if dst, err = appendBytes(dst, r, bulk); err != nil {
			return dst, 0, err
		}
		missing += nested
	}
	return dst, dst[start], nil
}

// follows returns what comes after line, the begin of an element: the number of
// bytes, with the line end after them, and of nested elements.
func follows(line []byte) (bulk, nested int, err error) {
	switch line[0] {
	case '+', '-', ':', ',', '#', '_', '(':
		return 0, 0, nil
	case '$', '=', '!', '*', '~', '>', '%', '|':
	default:
		return 0, 0, fmt.Errorf("%w: %.40q", errProtocol, line)
	}
	n, err := length(line)
	if err != nil || n < 0 {
		return 0, 0, err
	}
	switch line[0] {
	case '$', '=', '!':
		return n + len("\r\n"), 0, nil
	case '%':
		return 0, 2 * n, nil
	case '|': // attributes stand before the element they describe
		return 0, 2*n + 1, nil
	}
	return 0, n, nil
}
