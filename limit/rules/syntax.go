package rules

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"
)

// document returns the root of the only document of a file, or nil after a mistake.
func (p *parser) document(data []byte) *yaml.Node {
	documents, err := decode(data)
	switch {
	case err != nil:
		p.syntax(data, err)
	case len(documents) == 0:
		p.wrong(1, "the file is empty, must have rules")
	case len(documents) > 1:
		p.wrong(documents[1].Line, "a second document begins, must be one")
	default:
		return documents[0].Content[0]
	}
	return nil
}

// decode returns the first two documents of a file.
func decode(data []byte) (documents []*yaml.Node, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for len(documents) < 2 {
		n := new(yaml.Node)
		err := decoder.Decode(n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		documents = append(documents, n)
	}
	return documents, nil
}

// mostSearched bounds the size of a file, in bytes, in which lineOf looks for the line of an error: it
// reads the file about as often as the number of lines has bits.
const mostSearched = 64 << 10

// The text of package yaml before the reason. Its line is where something began, or the line before, or
// missing.
var beforeReason = regexp.MustCompile(`^yaml: (line \d+: )?`)

// syntax reports an error of package yaml, with its line.
func (p *parser) syntax(data []byte, err error) {
	line := 0
	if len(data) <= mostSearched {
		line = lineOf(data, err)
	}
	p.note(line, "%s", beforeReason.ReplaceAllString(err.Error(), ""))
}

// lineOf returns the line of an error: the first line up to which the file has the same error, whatever
// follows. If there is none, the mistake is that the file ends.
func lineOf(data []byte, err error) int {
	lines := bytes.SplitAfter(bytes.TrimRight(data, "\n"), []byte("\n"))
	// The end is moved far away, or an error at the end could have the same line by chance.
	end := strings.Repeat("\n", len(lines)+1)
	line := 1 + sort.Search(len(lines), func(i int) bool {
		_, cut := decode(append(bytes.Join(lines[:i+1], nil), end...))
		return cut != nil && cut.Error() == err.Error()
	})
	return min(line, len(lines))
}
