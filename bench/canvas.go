package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"

	// The formats of the pictures.
	_ "gonum.org/v1/plot/vg/vgimg"
	_ "gonum.org/v1/plot/vg/vgsvg"
)

// format returns the format of a picture: the end of its name.
func format(file string) string { return strings.TrimPrefix(filepath.Ext(file), ".") }

// writeCanvas writes a picture. An SVG names only the font that the layout was
// measured with, so fonts of the same width are added for readers without it.
func writeCanvas(c io.WriterTo, file string) error {
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	picture := b.Bytes()
	if format(file) == "svg" {
		const font = "font-family:Liberation Sans"
		picture = bytes.ReplaceAll(picture, []byte(font), []byte(font+",Arial,Helvetica,sans-serif"))
	}
	return os.WriteFile(file, picture, 0o644)
}
