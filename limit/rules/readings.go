package rules

import (
	"net/url"
	"path"
	"slices"
	"strings"
)

// readings returns the escaped paths for which a server behind the rules may take an escaped path. It may
// match the path as it was sent or after %2F has become a slash; as it stands, without dot segments, or also
// without double slashes, which go before the dot segments or after them; without a trailing slash; and, as
// servlets do, without what follows a semicolon in a segment. A path of plain names has one reading. The
// paths are as a mux has them, so that it redirects none.
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
		resolved := withoutDots(segments)
		all = append(all, resolved, withoutEmpty(resolved), withoutDots(withoutEmpty(segments)))
	}
	for _, segments := range all {
		if slices.Contains(segments, "/") {
			all = append(all, slashesNamed(segments))
		}
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

// withoutDots returns segments without dot segments, as RFC 3986, section 5.2.4, has it: ".." removes the
// segment before it, also an empty one. The last segment is empty if the path ends in a slash or a dot
// segment.
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

// withoutEmpty returns segments without empty ones, except at the end: path.Clean merges slashes before it
// resolves dot segments, so that its ".." removes a name.
func withoutEmpty(segments []string) []string {
	var merged []string
	for i, s := range segments {
		if s != "" || i == len(segments)-1 {
			merged = append(merged, s)
		}
	}
	return merged
}

// slashesNamed returns segments in which a wildcard matches %2F, as in chi and gin. For http.ServeMux a
// segment of %2F is a slash at the end, which no wildcard of one segment matches. escape makes a dot a
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
