package rules

import (
	"net/url"
	"path"
	"slices"
	"strings"
)

// readings returns the escaped paths for which a server behind the rules may take an escaped path. It may
// match the path as it was sent or after %2F has become a slash; as it stands or without dot segments and
// double slashes; without a trailing slash; and, as servlets do, without what follows a semicolon in a
// segment. A path of plain names has one reading. The paths are as a mux has them, so that it redirects
// none.
func readings(escaped string) []string {
	if !strings.ContainsAny(escaped, "%;") && path.Clean(escaped) == escaped && escaped[0] == '/' {
		return []string{escaped}
	}
	sent := strings.Split(strings.TrimPrefix(escaped, "/"), "/")
	for i, s := range sent {
		if plain, err := url.PathUnescape(s); err == nil {
			sent[i] = plain
		}
	}
	all := [][]string{sent, strings.Split(strings.Join(sent, "/"), "/")}
	for _, segments := range all {
		all = append(all, withoutParameters(segments))
	}
	for _, segments := range all {
		all = append(all, cleaned(segments))
	}
	var paths []string
	for _, segments := range all {
		p := escape(segments)
		paths = append(paths, p)
		if p != "/" {
			paths = append(paths, strings.TrimSuffix(p, "/"))
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

func withoutParameters(segments []string) []string {
	plain := make([]string, len(segments))
	for i, s := range segments {
		plain[i], _, _ = strings.Cut(s, ";")
	}
	return plain
}

// cleaned returns segments without dot segments and empty ones, as RFC 3986, section 5.2.4, has it. The last
// one is empty if the path ends in a slash or a dot segment.
func cleaned(segments []string) []string {
	var clean []string
	for i, s := range segments {
		if s == ".." && len(clean) > 0 {
			clean = clean[:len(clean)-1]
		}
		if dots := s == "" || s == "." || s == ".."; !dots {
			clean = append(clean, s)
		} else if i == len(segments)-1 {
			clean = append(clean, "")
		}
	}
	return clean
}

// escape returns the path of segments. An empty one that is not the last becomes a dot, which a route matches
// by a wildcard only, as it would the empty one.
func escape(segments []string) string {
	var b strings.Builder
	for i, s := range segments {
		b.WriteByte('/')
		switch {
		case s == "." || s == "" && i < len(segments)-1:
			b.WriteString("%2e")
		case s == "..":
			b.WriteString("%2e%2e")
		default:
			b.WriteString(url.PathEscape(s))
		}
	}
	return b.String()
}
