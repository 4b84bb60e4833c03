// Command prose finds English that reads as if it were translated, in the comments and error texts of Go
// files, the comments of Lua files, and Markdown:
//
//	prose dir
//
// It prints a line for each finding, and fails if there is one.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A passage is a piece of text that is read as a whole: a comment, an error text or a paragraph.
type passage struct {
	line   int // of its first line
	text   string
	inFunc bool // a comment inside a function
}

// A finding is one match of a pattern.
type finding struct {
	file    string
	line    int
	pattern pattern
	text    string
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %q; %s", f.file, f.line, f.pattern.name, f.text, f.pattern.instead)
}

func main() {
	flag.Parse()
	all, err := findAll(cmp.Or(flag.Arg(0), "."))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	for _, f := range all {
		fmt.Println(f)
	}
	if len(all) > 0 {
		fmt.Printf("%d findings\n", len(all))
		os.Exit(1)
	}
}

// findAll returns the findings in all files below a directory. Hidden directories and testdata are left out,
// and so is this command, which contains every pattern.
func findAll(root string) (all []finding, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root &&
			(strings.HasPrefix(name, ".") || name == "testdata" || strings.HasSuffix(path, "tools/prose")):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		read := readers[filepath.Ext(name)]
		if read == nil {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found, err := read(source)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		relative, err := filepath.Rel(root, path)
		for _, f := range found {
			f.file = relative
			all = append(all, f)
		}
		return err
	})
	return all, err
}

// check returns the findings in a passage.
func check(p passage) (found []finding) {
	flat := strings.ReplaceAll(p.text, "\n", " ")
	all := patterns
	if p.inFunc {
		all = append(slices.Clip(patterns), narration)
	}
	for _, pattern := range all {
		for _, at := range pattern.match.FindAllStringIndex(flat, -1) {
			// A match may begin with the end of the sentence before.
			text := strings.TrimLeft(flat[at[0]:at[1]], ".!?: ")
			if pattern.except != nil && pattern.except.MatchString(text) {
				continue
			}
			line := p.line + strings.Count(p.text[:at[1]-len(text)], "\n")
			found = append(found, finding{line: line, pattern: pattern, text: strings.TrimSpace(text)})
		}
	}
	return found
}
