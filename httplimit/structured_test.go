package httplimit_test

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// A sfItem is an item of a List of RFC 9651. A value is an int64, a string, a sfToken, a
// float64, a bool or []byte.
type sfItem struct {
	value  any
	params map[string]any
}

type sfToken string

// parseList reads a List as RFC 9651 says, section 4.2.1, for the types of which fields for
// limits are made: no inner lists, dates or display strings. It is strict: whatever the
// algorithm says fails, fails.
func parseList(text string) (items []sfItem, err error) {
	p := &sfParser{rest: strings.Trim(text, " ")}
	defer func() {
		if failure, ok := recover().(sfError); ok {
			items, err = nil, fmt.Errorf("%s before %q of %q", string(failure), p.rest, text)
		}
	}()
	for p.rest != "" {
		items = append(items, sfItem{p.bareItem(), p.parameters()})
		p.skip(" \t")
		if p.rest == "" {
			return items, nil
		}
		p.expect(",")
		p.skip(" \t")
		if p.rest == "" {
			p.fail("a comma at the end")
		}
	}
	return items, nil
}

type sfError string

type sfParser struct{ rest string }

func (p *sfParser) fail(why string) { panic(sfError(why)) }

func (p *sfParser) skip(chars string) { p.rest = strings.TrimLeft(p.rest, chars) }

func (p *sfParser) expect(text string) {
	if !p.accept(text) {
		p.fail("no " + text)
	}
}

func (p *sfParser) accept(text string) bool {
	rest, ok := strings.CutPrefix(p.rest, text)
	p.rest = rest
	return ok
}

// take takes the leading characters that are among chars.
func (p *sfParser) take(chars string) string {
	rest := strings.TrimLeft(p.rest, chars)
	taken := p.rest[:len(p.rest)-len(rest)]
	p.rest = rest
	return taken
}

const (
	sfDigits = "0123456789"
	sfLower  = "abcdefghijklmnopqrstuvwxyz"
	sfUpper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	sfTchars = "!#$%&'*+-.^_`|~" + sfDigits + sfLower + sfUpper
)

func (p *sfParser) bareItem() any {
	if p.rest == "" {
		p.fail("no item")
	}
	switch c := p.rest[:1]; {
	case c == `"`:
		return p.string()
	case strings.Contains("-"+sfDigits, c):
		return p.number()
	case c == "?":
		p.expect("?")
		value := p.accept("1")
		if !value {
			p.expect("0")
		}
		return value
	case c == ":":
		p.expect(":")
		encoded := p.take("+/=" + sfDigits + sfLower + sfUpper)
		p.expect(":")
		bytes, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			p.fail(err.Error())
		}
		return bytes
	case strings.Contains("*"+sfLower+sfUpper, c):
		return sfToken(p.take(sfTchars + ":/"))
	}
	p.fail("no type of items")
	return nil
}

// string is section 4.2.5.
func (p *sfParser) string() string {
	p.expect(`"`)
	for value := ""; ; {
		switch {
		case p.rest == "":
			p.fail("no end of a string")
		case p.accept(`"`):
			return value
		case p.accept(`\`):
			if p.rest == "" || p.rest[0] != '"' && p.rest[0] != '\\' {
				p.fail("a backslash before neither quote nor backslash")
			}
			value, p.rest = value+p.rest[:1], p.rest[1:]
		case p.rest[0] < 0x20 || p.rest[0] > 0x7e:
			p.fail("a character that cannot be printed")
		default:
			value, p.rest = value+p.rest[:1], p.rest[1:]
		}
	}
}

// number is section 4.2.4.
func (p *sfParser) number() any {
	sign := int64(1)
	if p.accept("-") {
		sign = -1
	}
	whole := p.take(sfDigits)
	if whole == "" {
		p.fail("no digit")
	}
	if !p.accept(".") {
		n, err := strconv.ParseInt(whole, 10, 64)
		if err != nil || len(whole) > 15 {
			p.fail("more than 15 digits")
		}
		return sign * n
	}
	fraction := p.take(sfDigits)
	if len(whole) > 12 || len(fraction) < 1 || len(fraction) > 3 {
		p.fail("not a decimal")
	}
	f, err := strconv.ParseFloat(whole+"."+fraction, 64)
	if err != nil {
		p.fail(err.Error())
	}
	return float64(sign) * f
}

// parameters is section 4.2.3.2.
func (p *sfParser) parameters() map[string]any {
	all := map[string]any{}
	for p.accept(";") {
		p.skip(" ")
		if p.rest == "" || !strings.Contains("*"+sfLower, p.rest[:1]) {
			p.fail("no key")
		}
		key := p.take("_-.*" + sfLower + sfDigits)
		all[key] = true
		if p.accept("=") {
			all[key] = p.bareItem()
		}
	}
	return all
}

// The parser is strict, or it proves nothing.
func TestStrictParser(t *testing.T) {
	for _, good := range []string{
		"", `"a"`, `"a";q=1`, `"a";q=1,  "b";x`, `"\"\\"`, `tok;a="x,y;z"`, `1, -2, 1.5, ?1, :aGk=:`,
		` "a" `, "999999999999999",
	} {
		if _, err := parseList(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{
		`"a`, `"a";`, `"a",`, `"a" "b"`, `"a";Q=1`, `"a";q=`, `"a" ;q=1`, "\"\x7f\"", `"\a"`,
		"1000000000000000", `"ä"`, `?2`, `:a:`, `1.`, `-`, `,`, `"a";q =1`, `{}`, "\"a\"\n",
	} {
		if items, err := parseList(bad); err == nil {
			t.Errorf("%q is %v, want an error", bad, items)
		}
	}
}
