package rules

import (
	"net/url"
	"path"
	"slices"
	"strings"
)

// readings returns the ways, as escaped paths, in which a server behind the rules may read an escaped path.
// The server may decode %2F to a slash; remove dot segments, and double slashes before or after that, all of
// it before or after it decodes; remove a trailing slash; and, as servlets do, the text behind a semicolon in
// a segment. A path of plain names has one reading. All readings are clean for a mux, so that it redirects
// none.
func (t *routes) readings(escaped string) []string {
	if len(escaped) < 256 && !strings.ContainsAny(escaped, "%;") && path.Clean(escaped) == escaped &&
		escaped[0] == '/' {
		return []string{escaped}
	}
	var all [][]string
	add := func(some ...[]string) {
		for _, s := range some {
			if !slices.ContainsFunc(all, func(there []string) bool { return slices.Equal(there, s) }) {
				all = append(all, s)
			}
		}
	}
	sent := strings.Split(strings.TrimPrefix(escaped, "/"), "/")
	for _, raw := range [][]string{sent, withoutDots(sent), withoutDots(withoutEmpty(sent))} {
		names := decoded(raw)
		add(names, strings.Split(strings.Join(names, "/"), "/"))
	}
	for _, segments := range all {
		add(withoutParameters(segments))
	}
	for _, segments := range all {
		resolved := withoutDots(segments)
		add(resolved, withoutEmpty(resolved), withoutDots(withoutEmpty(segments)))
	}
	for _, segments := range all {
		if slices.Contains(segments, "/") {
			add(slashesNamed(segments))
		}
	}
	var paths []string
	for _, segments := range all {
		p := t.escape(segments)
		paths = append(paths, p)
		if p != "/" {
			paths = append(paths, strings.TrimSuffix(p, "/"))
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// decoded decodes segments, except those that cannot be decoded.
func decoded(segments []string) []string {
	plain := slices.Clone(segments)
	for i, s := range plain {
		if text, err := url.PathUnescape(s); err == nil {
			plain[i] = text
		}
	}
	return plain
}

func withoutParameters(segments []string) []string {
	plain := make([]string, len(segments))
	for i, s := range segments {
		plain[i], _, _ = strings.Cut(s, ";")
	}
	return plain
}

// withoutDots removes dot segments as RFC 3986, section 5.2.4, does: ".." also removes the segment before it,
// even an empty one. The last segment is empty if the path ends in a slash or a dot segment.
func withoutDots(segments []string) []string {
	var resolved []string
	for i, s := range segments {
		if s == ".." && len(resolved) > 0 {
			resolved = resolved[:len(resolved)-1]
		}
		if dots := s == "." || s == ".."; !dots {
			resolved = append(resolved, s)
		} else if i == len(segments)-1 {
			resolved = append(resolved, "")
		}
	}
	return resolved
}

// withoutEmpty removes empty segments, except at the end: path.Clean merges slashes before it resolves dot
// segments, so that its ".." removes a name.
func withoutEmpty(segments []string) []string {
	var merged []string
	for i, s := range segments {
		if s != "" || i == len(segments)-1 {
			merged = append(merged, s)
		}
	}
	return merged
}

// slashesNamed replaces segments of %2F, which a wildcard matches in chi and gin. To http.ServeMux such a
// segment is a slash at the end, which no wildcard of one segment matches. escape turns a dot into a
// segment that only a wildcard matches.
func slashesNamed(segments []string) []string {
	named := slices.Clone(segments)
	for i, s := range named {
		if s == "/" {
			named[i] = "."
		}
	}
	return named
}

// escape returns the path of segments, as far as it makes a difference to a route: one segment more than a
// route has, and one byte more than a name of a route, so that a long path with many readings takes little
// time. An empty segment that is not the last becomes a dot, which only a wildcard matches, as it would match
// the empty segment.
func (t *routes) escape(segments []string) string {
	var b strings.Builder
	for i, s := range segments[:min(len(segments), t.parts+1)] {
		b.WriteByte('/')
		switch {
		case s == "." || s == "" && i < len(segments)-1:
			b.WriteString("%2e")
		case s == "..":
			b.WriteString("%2e%2e")
		default:
			b.WriteString(url.PathEscape(s[:min(len(s), t.longest+1)]))
		}
	}
	return b.String()
}
