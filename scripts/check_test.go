package scripts_test

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// The checker holds the headers of Lua scripts against their code. NAME.lua is an
// operation, parts/NAME.lua is a part that several of them include:
//
//	-- include parts/NAME.lua
//
// Such a line is replaced by the text of the part. So the top-level locals of a
// part are visible behind it.
//
// A header is the run of comment lines that a file begins with. Its first line is
// `-- NAME.lua: ...`. An operation has a line `-- Reply: ...`. A part has these
// fields, once each:
//
//	-- in:       rate, interval (in ms), value   names that must be defined where it is included; no globals
//	-- out:      gone, head the oldest record    its locals at the top level, with those of its includes
//	-- changes:  value                           names of in: that it assigns to
//	-- ends the script: no                       whether it has a `return` that is not in a function
//	-- writes: yes                               whether it calls a Redis command that is not in luaReads
//
// A field goes on in the next lines where these are indented deeper: `-- `. A
// list is separated by commas. Each item is a name, and free text after a space;
// commas within parentheses do not separate. An empty list is `none`. Behind yes
// or no, too, any text may follow.
//
// What a part does to the elements of a table is not seen: `t[1] = x` changes no name.

// luaGlobals are the names that Redis defines, as far as scripts use them.
var luaGlobals = luaSet("redis KEYS ARGV tonumber tostring type pairs ipairs unpack select next " +
	"error assert math string table")

// luaReads are the commands that write nothing.
var luaReads = luaSet("GET HMGET HGET HLEN HSCAN HGETALL HKEYS ZRANGE ZREVRANGE ZRANGEBYSCORE " +
	"ZREVRANGEBYSCORE ZCARD ZCOUNT ZSCORE TIME PTTL EXISTS TYPE")

// luaKeyless are the commands that name no key, luaManyKeys those whose arguments are all keys.
var (
	luaKeyless  = luaSet("TIME PUBLISH SPUBLISH")
	luaManyKeys = luaSet("UNLINK DEL EXISTS TOUCH MGET RENAME RENAMENX")
)

// luaCommandArgument is the operation whose command is ARGV[2], one of a few that Go sends.
const luaCommandArgument = "expire.lua"

// luaNumbers are the numbers above 10 that need no name.
var luaNumbers = map[float64]string{
	256:        "bytes are taken apart: 2^8",
	65536:      "2^16",
	16777216:   "2^24",
	4294967296: "2^32",
	4294967295: "the most that four bytes hold",
	1000:       "the ms of a second, the us of a ms",
	1000000:    "the us of a second",
}

var (
	luaInclude  = regexp.MustCompile(`^[ \t]*-- include (parts/[a-z0-9_]+\.lua)[ \t]*$`)
	luaAlmost   = regexp.MustCompile(`^[ \t]*--+[ \t]*include\b.*\.lua`)
	luaName     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	luaConstant = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
	luaKeyIndex = regexp.MustCompile(`^[1-9][0-9]*$`)
)

// luaMarker stands in the place of an include while a file is parsed on its own,
// so that lines keep their numbers.
const luaMarker = "__include"

func luaSet(words string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

// luaPos is a line of a file.
type luaPos struct {
	file string
	line int
}

func (p luaPos) String() string { return fmt.Sprintf("%s:%d", p.file, p.line) }

// luaFile is a file, parsed on its own.
type luaFile struct {
	name     string
	lines    []string
	stmts    []ast.Stmt
	includes map[int]string // by line, the files that are included
	header   luaHeader
}

func (f *luaFile) isPart() bool { return strings.HasPrefix(f.name, "parts/") }

// luaChecker collects what is wrong.
type luaChecker struct {
	fsys  fs.FS
	files map[string]*luaFile
	found map[luaPos][]string
	calls int // of Redis commands
}

// checkLua returns a checker that has checked all the scripts of a file system.
func checkLua(fsys fs.FS) *luaChecker {
	c := &luaChecker{fsys: fsys, files: map[string]*luaFile{}, found: map[luaPos][]string{}}
	c.load()
	for _, f := range c.sorted() {
		c.checkTop(f)
		c.checkIncludes(f)
		c.checkLoops(f)
		c.checkCalls(f)
		c.checkNumbers(f)
	}
	c.checkIncluded()
	for _, f := range c.sorted() {
		u := c.expand(f) // finds names that are taken twice, assigned globals and functions that are values
		if f.isPart() {
			c.checkPart(u)
		} else {
			c.checkOperation(u)
		}
	}
	return c
}

func (c *luaChecker) sorted() []*luaFile {
	return slices.SortedFunc(maps.Values(c.files), func(a, b *luaFile) int {
		return cmp.Compare(a.name, b.name)
	})
}

// errorf notes what is wrong in a line, once: many operations may include it.
func (c *luaChecker) errorf(at luaPos, format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(c.found[at], text) {
		c.found[at] = append(c.found[at], text)
	}
}

// errors returns what is wrong, by file and line.
func (c *luaChecker) errors() []string {
	var all []string
	for _, at := range slices.SortedFunc(maps.Keys(c.found), func(a, b luaPos) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
	}) {
		for _, text := range c.found[at] {
			all = append(all, at.String()+": "+text)
		}
	}
	return all
}

// load reads and parses all files.
func (c *luaChecker) load() {
	err := fs.WalkDir(c.fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".lua" {
			return err
		}
		if dir := path.Dir(name); dir != "." && dir != "parts" {
			c.errorf(luaPos{name, 1}, "neither an operation (*.lua) nor a part (parts/*.lua)")
		}
		text, err := fs.ReadFile(c.fsys, name)
		if err == nil {
			c.parse(name, string(text))
		}
		return err
	})
	if err != nil {
		c.errorf(luaPos{".", 0}, "%v", err)
	}
}

func (c *luaChecker) parse(name, text string) {
	f := &luaFile{name: name, lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n"),
		includes: map[int]string{}}
	c.files[name] = f
	marked := slices.Clone(f.lines)
	for i, line := range f.lines {
		if m := luaInclude.FindStringSubmatch(line); m != nil {
			f.includes[i+1] = m[1]
			marked[i] = luaMarker + "('" + m[1] + "');"
		} else if luaAlmost.MatchString(line) {
			c.errorf(luaPos{name, i + 1}, "an include is a line of its own, `-- include parts/NAME.lua`")
		}
	}
	var err error
	f.stmts, err = parse.Parse(strings.NewReader(strings.Join(marked, "\n")+"\n"), name)
	if err != nil {
		line := len(f.lines)
		if e, ok := err.(*parse.Error); ok && e.Pos.Line > 0 {
			line = e.Pos.Line
		}
		c.errorf(luaPos{name, line}, "%s", strings.TrimSpace(err.Error()))
	}
	f.header = c.parseHeader(f)
}

// checkIncludes: an include stands where a statement may stand, not in a
// function; its file is there, and does not include itself.
func (c *luaChecker) checkIncludes(f *luaFile) {
	statements := map[int]bool{}
	luaInspect(f.stmts, func(node any) bool {
		if line, ok := f.include(node); ok {
			statements[line] = true
		}
		if fn, ok := node.(*ast.FunctionExpr); ok {
			luaInspect(fn.Stmts, func(node any) bool {
				if line, ok := f.include(node); ok {
					c.errorf(luaPos{f.name, line}, "an include in a function")
				}
				return true
			})
		}
		return true
	})
	for line, name := range f.includes {
		at := luaPos{f.name, line}
		if !statements[line] && len(f.stmts) > 0 {
			c.errorf(at, "an include that is no statement")
		}
		if c.files[name] == nil {
			c.errorf(at, "%s is missing", name)
		} else if c.includes(name, f.name, map[string]bool{}) {
			c.errorf(at, "%s includes %s again: a cycle", name, f.name)
		}
	}
}

// include reports whether a statement stands for an include, and its line.
func (f *luaFile) include(node any) (int, bool) {
	stmt, ok := node.(*ast.FuncCallStmt)
	if !ok || f.includes[stmt.Line()] == "" {
		return 0, false
	}
	name, ok := stmt.Expr.(*ast.FuncCallExpr).Func.(*ast.IdentExpr)
	return stmt.Line(), ok && name.Value == luaMarker
}

// includes reports whether a file includes another, or is it.
func (c *luaChecker) includes(name, other string, seen map[string]bool) bool {
	if name == other {
		return true
	}
	f := c.files[name]
	if f == nil || seen[name] {
		return false
	}
	seen[name] = true
	for _, next := range f.includes {
		if c.includes(next, other, seen) {
			return true
		}
	}
	return false
}

// checkIncluded: somebody includes each part.
func (c *luaChecker) checkIncluded() {
	wanted := map[string]bool{}
	for _, f := range c.files {
		for _, name := range f.includes {
			wanted[name] = true
		}
	}
	for _, f := range c.files {
		if f.isPart() && !wanted[f.name] {
			c.errorf(luaPos{f.name, 1}, "nobody includes it")
		}
	}
}

// checkCalls: every command is written out, and every key is written as
// KEYS[number]. Some servers refuse anything else.
func (c *luaChecker) checkCalls(f *luaFile) {
	fine := map[any]bool{}
	for _, s := range f.aliases() {
		for _, e := range s.Exprs {
			fine[e] = true
		}
	}
	luaInspect(f.stmts, func(node any) bool {
		switch n := node.(type) {
		case *ast.FuncCallExpr:
			fine[n.Func] = true
			if _, ok := luaCommand(n); ok {
				c.calls++
				c.checkCall(f, n)
			}
		case *ast.AttrGetExpr:
			if luaGlobal(n.Object) == "redis" {
				fine[n.Object] = true
				if !fine[n] {
					c.errorf(luaPos{f.name, n.Line()}, "a function of redis is called, and nothing else")
				}
				if _, ok := n.Key.(*ast.StringExpr); !ok {
					c.errorf(luaPos{f.name, n.Line()}, "the function of redis is not written out")
				}
			}
		case *ast.IdentExpr:
			if n.Value == "redis" && !fine[n] {
				c.errorf(luaPos{f.name, n.Line()}, "redis is a value: its calls could not be seen")
			}
		}
		return true
	})
}

func (c *luaChecker) checkCall(f *luaFile, call *ast.FuncCallExpr) {
	at := luaPos{f.name, call.Line()}
	command, _ := luaCommand(call)
	sent := f.name == luaCommandArgument && len(call.Args) > 0 && luaElement(call.Args[0], "ARGV", "2")
	if command == "" && !sent {
		c.errorf(at, "the command is not written out")
		return
	}
	if luaKeyless[command] {
		return
	}
	keys := call.Args[1:]
	if !luaManyKeys[command] {
		keys = keys[:min(1, len(keys))]
	}
	if len(keys) == 0 {
		c.errorf(at, "%s without a key", command)
	}
	for _, key := range keys {
		if !luaElement(key, "KEYS", "") {
			c.errorf(at, "a key of %s is not written as KEYS[number]", cmp.Or(command, "ARGV[2]"))
		}
	}
}

// checkNumbers: a number above 10 has a name in capitals. luaNumbers need none.
func (c *luaChecker) checkNumbers(f *luaFile) {
	named := map[any]bool{}
	luaInspect(f.stmts, func(node any) bool {
		switch n := node.(type) {
		case *ast.LocalAssignStmt:
			if !slices.ContainsFunc(n.Names, func(name string) bool {
				return !luaConstant.MatchString(name)
			}) {
				luaInspect(n.Exprs, func(node any) bool {
					named[node] = true
					return true
				})
			}
		case *ast.AttrGetExpr: // the header says what stands there
			if name, ok := n.Object.(*ast.IdentExpr); ok && name.Value == "ARGV" {
				named[n.Key] = true
			}
		case *ast.NumberExpr:
			if number := luaNumber(n); number > 10 && luaNumbers[number] == "" && !named[n] {
				c.errorf(luaPos{f.name, n.Line()}, "%s has no name: local NAME = %s", n.Value, n.Value)
			}
		}
		return true
	})
}

// aliases returns the statements `local x = x` at the top of a file: Lua finds
// locals faster than globals.
func (f *luaFile) aliases() []*ast.LocalAssignStmt {
	var all []*ast.LocalAssignStmt
	for _, s := range f.stmts {
		local, ok := s.(*ast.LocalAssignStmt)
		if !ok || len(local.Names) != len(local.Exprs) {
			return all
		}
		for i, e := range local.Exprs {
			if name, ok := e.(*ast.IdentExpr); !ok || name.Value != local.Names[i] ||
				!luaGlobals[name.Value] {
				return all
			}
		}
		all = append(all, local)
	}
	return all
}
