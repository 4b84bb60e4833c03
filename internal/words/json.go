package words

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
)

// JSON writes v as JSON with an indent, which may be empty. It escapes all that is no printable character,
// such as DEL, U+0080 to U+009F and marks of direction, because names may contain anything and a terminal
// obeys it.
func JSON(w io.Writer, v any, indent string) error {
	var plain bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	var safe bytes.Buffer
	for _, r := range plain.String() {
		if unicode.IsPrint(r) || r == '\n' {
			safe.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&safe, `\u%04x`, unit)
		}
	}
	_, err := safe.WriteTo(w)
	return err
}
