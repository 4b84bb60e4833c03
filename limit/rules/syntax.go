package rules

import (
	"go.yaml.in/yaml/v3"

	"github.com/redisson-go/rratelimiter/internal/yamlfile"
)

// document returns the root of the only document of a file, or nil after a mistake.
func (p *parser) document(data []byte) *yaml.Node {
	documents, err := yamlfile.Decode(data)
	switch {
	case err != nil:
		line, reason := yamlfile.Locate(data, err)
		p.note(line, "%s", reason)
	case len(documents) == 0:
		p.wrong(1, "the file is empty, must have rules")
	case len(documents) > 1:
		p.wrong(documents[1].Line, "a second document begins, must be one")
	default:
		return documents[0].Content[0]
	}
	return nil
}
