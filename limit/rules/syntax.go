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

// document returns the root of the only document of a file, nil after a mistake.
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

// mostSearched is how large a file may be, in bytes, in which the line of an error is looked
// for: it is read about as often as its number of lines has bits.
const mostSearched = 64 << 10

// What package yaml says before the reason. Its line is that where something began, or that
// before, or is not there.
var beforeReason = regexp.MustCompile(`^yaml: (line \d+: )?`)

// syntax notes an error of package yaml, with the line where it is.
func (p *parser) syntax(data []byte, err error) {
	line := 0
	if len(data) <= mostSearched {
		line = lineOf(data, err)
	}
	p.note(line, "%s", beforeReason.ReplaceAllString(err.Error(), ""))
}

// lineOf returns the line of an error: the first one for which the file up to it has the same
// error, whatever follows. If there is none, what is wrong is that the file ends.
func lineOf(data []byte, err error) int {
	lines := bytes.SplitAfter(bytes.TrimRight(data, "\n"), []byte("\n"))
	// It ends far behind the file, or an error of the end had the same line by chance.
	end := strings.Repeat("\n", len(lines)+1)
	line := 1 + sort.Search(len(lines), func(i int) bool {
		_, cut := decode(append(bytes.Join(lines[:i+1], nil), end...))
		return cut != nil && cut.Error() == err.Error()
	})
	return min(line, len(lines))
}
