// Package picture draws the screen of a terminal as SVG, for the pages of docs.
package picture

import (
	"fmt"
	"html"
	"strings"

	"github.com/hinshun/vt10x"
)

// The measures, in px.
const (
	cellWidth, cellHeight = 9.0, 20.0
	margin                = 16.0
	fontSize              = 15
)

// colors are those of the picture, by number of the terminal.
var colors = map[vt10x.Color]string{
	vt10x.DefaultFG: "#d4d8dd", vt10x.Red: "#f47067", vt10x.Green: "#57ab5a", vt10x.Yellow: "#daaa3f",
	vt10x.Blue: "#539bf5", vt10x.Cyan: "#39c5cf", vt10x.DarkGrey: "#8b949e",
}

// SVG returns the screen of a terminal of the given size as SVG. The label is for screen readers.
func SVG(screen string, columns, rows int, label string) string {
	term := vt10x.New(vt10x.WithSize(columns, rows))
	const faint, grey = "\x1b[2m", "\x1b[90m" // vt10x does not know the first
	_, _ = term.Write([]byte(strings.NewReplacer("\n", "\r\n", faint, grey).Replace(screen)))
	width, height := float64(columns)*cellWidth+2*margin, float64(rows)*cellHeight+2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" role="img" aria-label="%s">
<rect width="%g" height="%g" rx="10" fill="#1c2128"/>
<g font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="%d">
`, width, height, html.EscapeString(label), width, height, fontSize)
	for y := range rows {
		for x := 0; x < columns; {
			end, cell, word := x, term.Cell(x, y), ""
			for ; end < columns && alike(term.Cell(end, y), cell); end++ {
				word += string(term.Cell(end, y).Char)
			}
			if word != "" {
				fmt.Fprintf(&b, `<text x="%g" y="%g" fill="%s" textLength="%g"%s>%s</text>`+"\n",
					margin+float64(x)*cellWidth, margin+(float64(y)+0.75)*cellHeight, colors[cell.FG],
					float64(end-x)*cellWidth, weight(cell), html.EscapeString(word))
			}
			x = max(end, x+1)
		}
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}

// alike reports whether two cells belong to one word: they have the same style, and are no blanks.
func alike(a, b vt10x.Glyph) bool {
	return a.FG == b.FG && a.Mode == b.Mode && a.Char != ' ' && b.Char != ' '
}

// weight returns the attribute of bold text.
func weight(cell vt10x.Glyph) string {
	const bold = 1 << 2
	if cell.Mode&bold != 0 {
		return ` font-weight="600"`
	}
	return ""
}
