package httplimit_test

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
)

// An sfItem is an item of a List of RFC 9651. A value is an int64, a string or an sfToken; a parameter
// may also be true.
type sfItem struct {
	value  any
	params map[string]any
}

type sfToken string

// The grammar of RFC 9651, section 3, of the types that the fields of limits have: Strings, Tokens and
// Integers.
const (
	sfString  = `"(?:[ !#-\[\]-~]|\\["\\])*"`
	sfName    = "[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*"
	sfInteger = `-?[0-9]{1,15}`
	sfBare    = "(" + sfString + "|" + sfName + "|" + sfInteger + ")"
)

var (
	sfValue     = regexp.MustCompile("^" + sfBare)
	sfParameter = regexp.MustCompile("^; *([a-z*][a-z0-9_.*-]*)(?:=" + sfBare + ")?")
)

var errSyntax = errors.New("not a List of Strings, Tokens and Integers")

// parseList parses a List strictly (section 4.2).
func parseList(text string) (items []sfItem, err error) {
	rest, ok := strings.Trim(text, " "), true
	for rest != "" {
		value := sfValue.FindString(rest)
		if value == "" {
			return nil, errSyntax
		}
		item := sfItem{bareItem(value), map[string]any{}}
		rest = rest[len(value):]
		for p := sfParameter.FindStringSubmatch(rest); p != nil; p = sfParameter.FindStringSubmatch(rest) {
			item.params[p[1]] = bareItem(p[2])
			rest = rest[len(p[0]):]
		}
		items = append(items, item)
		if rest = strings.TrimLeft(rest, " \t"); rest == "" {
			break
		}
		if rest, ok = strings.CutPrefix(rest, ","); !ok || strings.Trim(rest, " \t") == "" {
			return nil, errSyntax
		}
		rest = strings.TrimLeft(rest, " \t")
	}
	return items, nil
}

// bareItem returns the value of a text of the grammar. An empty text is a parameter without a value.
func bareItem(text string) any {
	switch {
	case text == "":
		return true
	case text[0] == '"':
		return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(text[1 : len(text)-1])
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	return sfToken(text)
}
