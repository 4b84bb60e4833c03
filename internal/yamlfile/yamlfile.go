// Package yamlfile reads configuration files as YAML nodes: it collects mistakes with their lines, finds the
// line of an error, which package yaml often does not know, and watches for changes.
package yamlfile

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Decode returns the first two documents of a file that are not empty. A template may leave an empty document
// at the end of a file.
func Decode(data []byte) (documents []*yaml.Node, err error) {
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
		if root := n.Content[0]; root.Tag != "!!null" || root.Value != "" {
			documents = append(documents, n)
		}
	}
	return documents, nil
}

// mostSearched bounds the size of a file, in bytes, in which Locate looks for the line of an error: a binary
// search decodes the file once for each step.
const mostSearched = 64 << 10

// beforeReason matches the text of package yaml before the reason. Its line is where something began, or the
// line before, or missing.
var beforeReason = regexp.MustCompile(`^yaml: (line \d+: )?`)

// Locate returns the line of an error of Decode and its reason. The line is the first one up to which
// the file has the same error, whatever follows; the last one if the mistake is that the file ends; and 0
// in a file of more than 64 KiB.
func Locate(data []byte, err error) (line int, reason string) {
	reason = beforeReason.ReplaceAllString(err.Error(), "")
	if len(data) > mostSearched {
		return 0, reason
	}
	lines := bytes.SplitAfter(bytes.TrimRight(data, "\n"), []byte("\n"))
	// The end is moved far away. Otherwise an error at the end could have the same line by chance.
	end := strings.Repeat("\n", len(lines)+1)
	line = 1 + sort.Search(len(lines), func(i int) bool {
		_, cut := Decode(append(bytes.Join(lines[:i+1], nil), end...))
		return cut != nil && cut.Error() == err.Error()
	})
	return min(line, len(lines)), reason
}
