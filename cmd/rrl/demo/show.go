package demo

import (
	"fmt"
	"strconv"
	"strings"
)

// reply returns a reply of Redis as redis-cli shows it on a terminal.
func reply(v any) string {
	switch v := v.(type) {
	case nil:
		return "(nil)\n"
	case string:
		return quote(v) + "\n"
	case int64:
		return fmt.Sprintf("(integer) %d\n", v)
	case []any:
		return numbered(v)
	}
	return fmt.Sprintf("%v\n", v)
}

// numbered returns the items of an array. Their numbers are as wide as the last one.
func numbered(items []any) string {
	if len(items) == 0 {
		return "(empty array)\n"
	}
	var b strings.Builder
	width := len(strconv.Itoa(len(items)))
	for i, item := range items {
		fmt.Fprintf(&b, "%*d) %s", width, i+1, reply(item))
	}
	return b.String()
}

// quote quotes a string as redis-cli does (sdscatrepr in its source): every byte that
// is not printable ASCII is escaped. strconv.Quote would join bytes that happen to
// be UTF-8.
func quote(s string) string {
	b := []byte{'"'}
	for i := range len(s) {
		b = appendByte(b, s[i])
	}
	return string(append(b, '"'))
}

// appendByte appends one byte of a quoted string.
func appendByte(b []byte, c byte) []byte {
	switch c {
	case '\\', '"':
		return append(b, '\\', c)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	case '\a':
		return append(b, `\a`...)
	case '\b':
		return append(b, `\b`...)
	}
	if c < ' ' || c > '~' {
		return fmt.Appendf(b, `\x%02x`, c)
	}
	return append(b, c)
}
