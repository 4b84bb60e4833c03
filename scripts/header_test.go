package scripts_test

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

// luaFields are the fields in the header of a part.
var luaFields = []string{"in", "out", "changes", "ends the script", "writes"}

var (
	luaField    = regexp.MustCompile(`^-- (` + strings.Join(luaFields, "|") + `):[ \t]*(.*)$`)
	luaGoesOn   = regexp.MustCompile(`^--[ \t]{3,}(.*)$`)
	luaWord     = regexp.MustCompile(`^(yes|no)\b`)
	luaInParens = regexp.MustCompile(`\([^()]*\)`)
)

// luaHeader holds the fields of a header.
type luaHeader map[string]*luaEntry

// luaEntry is a field: its names, or yes.
type luaEntry struct {
	line  int
	text  string
	names []string
	yes   bool
}

// parseHeader reads the fields of a part. It does not ask whether they are true.
func (c *luaChecker) parseHeader(f *luaFile) luaHeader {
	header := luaHeader{}
	if !f.isPart() {
		return header
	}
	var last *luaEntry
	for i, line := range f.top() {
		if m := luaField.FindStringSubmatch(line); m != nil {
			if header[m[1]] != nil {
				c.errorf(luaPos{f.name, i + 1}, "a second `%s:`", m[1])
			}
			last = &luaEntry{line: i + 1, text: m[2]}
			header[m[1]] = last
		} else if m := luaGoesOn.FindStringSubmatch(line); m != nil && last != nil {
			last.text += " " + m[1]
		} else {
			last = nil
		}
	}
	for _, field := range luaFields {
		if entry := header[field]; entry == nil {
			c.errorf(luaPos{f.name, 1}, "the header has no `%s:`", field)
			header[field] = &luaEntry{line: 1}
		} else if field == "writes" || field == "ends the script" {
			entry.yes = strings.HasPrefix(entry.text, "yes")
			if !luaWord.MatchString(entry.text) {
				c.errorf(luaPos{f.name, entry.line}, "`%s:` is yes or no", field)
			}
		} else {
			c.parseNames(f, field, entry)
		}
	}
	return header
}

// parseNames reads a list of names, each with free text behind it.
func (c *luaChecker) parseNames(f *luaFile, field string, entry *luaEntry) {
	at := luaPos{f.name, entry.line}
	text := strings.TrimSpace(luaInParens.ReplaceAllString(entry.text, ""))
	if first, _, _ := strings.Cut(text, " "); first == "none" {
		return
	}
	for item := range strings.SplitSeq(text, ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(item), " ")
		switch {
		case !luaName.MatchString(name):
			c.errorf(at, "`%s:` %q is no name", field, name)
		case luaGlobals[name]:
			c.errorf(at, "`%s:` %s is a global", field, name)
		case slices.Contains(entry.names, name):
			c.errorf(at, "`%s:` %s twice", field, name)
		default:
			entry.names = append(entry.names, name)
		}
	}
}

// top returns the comment lines that a file begins with.
func (f *luaFile) top() []string {
	for i, line := range f.lines {
		if !strings.HasPrefix(line, "--") || f.includes[i+1] != "" {
			return f.lines[:i]
		}
	}
	return f.lines
}

// checkTop: a file begins with its name, and an operation tells its reply.
func (c *luaChecker) checkTop(f *luaFile) {
	if begin := "-- " + path.Base(f.name) + ": "; !strings.HasPrefix(f.lines[0], begin) {
		c.errorf(luaPos{f.name, 1}, "the first line begins with `%s`", begin)
	}
	if !f.isPart() && !slices.ContainsFunc(f.top(), func(line string) bool {
		return strings.HasPrefix(line, "-- Reply: ")
	}) {
		c.errorf(luaPos{f.name, 1}, "the header has no `-- Reply: `")
	}
}

// checkPart: the header of a part says what its text does.
func (c *luaChecker) checkPart(u *luaUnit) {
	f := u.root
	c.checkIn(u)
	c.checkOut(u)
	c.checkChanges(u)
	c.checkSaid(f, "ends the script", u.returns)
	c.checkSaid(f, "writes", u.writes)
}

// checkIn: in: has the names that the part uses and does not define.
func (c *luaChecker) checkIn(u *luaUnit) {
	in := u.root.header["in"]
	for _, use := range u.free {
		if !slices.Contains(in.names, use.name) {
			c.errorf(u.here(use), "uses %s, which `in:` lacks%s", use.name, u.through(use))
		}
	}
	for _, name := range in.names {
		if !luaUses(u.free, name) {
			c.errorf(luaPos{u.root.name, in.line}, "`in:` %s is not used", name)
		}
	}
}

// checkOut: out: has the top-level locals. What nobody needs belongs into a block: do ... end.
func (c *luaChecker) checkOut(u *luaUnit) {
	out := u.root.header["out"]
	for _, use := range u.outs {
		if !slices.Contains(out.names, use.name) {
			c.errorf(u.here(use), "local %s is not in `out:`, nor in a do ... end%s", use.name,
				u.through(use))
		}
	}
	for _, name := range out.names {
		if !luaUses(u.outs, name) {
			c.errorf(luaPos{u.root.name, out.line}, "`out:` %s is no local at the top level", name)
		}
	}
}

// checkChanges: changes: has the names that the part assigns to and does not define.
func (c *luaChecker) checkChanges(u *luaUnit) {
	changes := u.root.header["changes"]
	for _, use := range u.assigned {
		if !slices.Contains(changes.names, use.name) {
			c.errorf(u.here(use), "assigns to %s, which `changes:` lacks%s", use.name, u.through(use))
		}
	}
	for _, name := range changes.names {
		if !luaUses(u.assigned, name) {
			c.errorf(luaPos{u.root.name, changes.line}, "`changes:` %s is not assigned to", name)
		}
	}
}

// checkSaid: a part that says no does nothing of the kind, and one that says yes does.
func (c *luaChecker) checkSaid(f *luaFile, field string, done []luaUse) {
	at := luaPos{f.name, f.header[field].line}
	if yes := f.header[field].yes; yes && len(done) == 0 {
		c.errorf(at, "`%s:` yes, but it does not", field)
	} else if !yes && len(done) > 0 {
		c.errorf(at, "`%s:` no, but %s does: %s", field, done[0].pos, done[0].name)
	}
}

// checkOperation: an operation defines all it uses, and ends with a return.
func (c *luaChecker) checkOperation(u *luaUnit) {
	for _, use := range u.free {
		if !luaUses(u.assigned, use.name) {
			c.errorf(use.pos, "nothing defines %s%s", use.name, u.within(use.pos))
		}
	}
	for _, use := range u.assigned {
		c.errorf(use.pos, "%s is assigned to and not local%s", use.name, u.within(use.pos))
	}
	if _, ok := u.last.(*ast.ReturnStmt); !ok {
		c.errorf(luaPos{u.root.name, len(u.root.lines)}, "the last statement is no return")
	}
}

// headerLines returns the fields that the part should have.
func (u *luaUnit) headerLines() []string {
	yes := func(done []luaUse) string {
		if len(done) > 0 {
			return "yes"
		}
		return "no"
	}
	var lines []string
	for _, list := range []struct {
		field string
		uses  []luaUse
	}{{"in", u.free}, {"out", u.outs}, {"changes", u.assigned}} {
		line := fmt.Sprintf("-- %-9s ", list.field+":")
		if len(list.uses) == 0 {
			line += "none"
		}
		for i, use := range list.uses {
			item := use.name
			if i < len(list.uses)-1 {
				item += ","
			}
			if len(line)+len(item) > 100 {
				lines = append(lines, strings.TrimRight(line, " "))
				line = "--           "
			}
			line += item + " "
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return append(lines, "-- ends the script: "+yes(u.returns), "-- writes: "+yes(u.writes))
}
