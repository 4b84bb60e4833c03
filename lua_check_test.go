package rratelimiter_test

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// The checker holds the headers of Lua scripts against their code. NAME.lua is an operation, parts/NAME.lua is a
// part that several of them include:
//
//	-- include parts/NAME.lua
//
// Such a line is replaced by the text of the part. So the top-level locals of a part are visible behind it.
//
// A header is the run of comment lines that a file begins with. Its first line is `-- NAME.lua: ...`. An operation
// has a line `-- Reply: ...`. A part has these fields, once each:
//
//	-- in:       rate, interval (in ms), value   names that must be defined where it is included; no globals
//	-- out:      gone, head the oldest record    its locals at the top level, also those of what it includes there
//	-- changes:  value                           names of in: that it assigns to
//	-- ends the script: no                       whether it has a `return` that is not in a function
//	-- writes: yes                               whether it calls a Redis command that is not in luaReads
//
// A field goes on in the next lines where these are indented deeper: `--   `. A list is separated by commas. Each
// item is a name, and free text after a space; commas within parentheses do not separate. An empty list is `none`.
// Behind yes or no, too, any text may follow.
//
// What a part does to the elements of a table is not seen: `t[1] = x` changes no name.

// luaGlobals are the names that Redis defines, as far as scripts use them.
var luaGlobals = luaSet("redis KEYS ARGV tonumber tostring type pairs ipairs unpack select next error assert math " +
	"string table")

// luaReads are the commands that write nothing.
var luaReads = luaSet("GET HMGET HGET HLEN HSCAN HGETALL HKEYS ZRANGE ZREVRANGE ZRANGEBYSCORE ZREVRANGEBYSCORE " +
	"ZCARD ZCOUNT ZSCORE TIME PTTL EXISTS TYPE")

// luaKeyless are the commands that name no key, luaManyKeys those whose arguments are all keys.
var (
	luaKeyless  = luaSet("TIME PUBLISH")
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

// luaMarker stands in the place of an include while a file is parsed on its own, so that lines keep their numbers.
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
	return slices.SortedFunc(maps.Values(c.files), func(a, b *luaFile) int { return cmp.Compare(a.name, b.name) })
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
	f := &luaFile{name: name, lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n"), includes: map[int]string{}}
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

// checkIncludes: an include stands where a statement may stand, not in a function; its file is there, and does not
// include itself.
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

// checkLoops: every loop has a bound that stands beside it.
//
// A numeric for evaluates its limit and its step once. It ends, unless the step is 0 or the limit is infinite. Lua
// leaves a loop with step 0 alone when the limit is above the start, and runs it for ever when it is not.
func (c *luaChecker) checkLoops(f *luaFile) {
	luaInspect(f.stmts, func(node any) bool {
		switch n := node.(type) {
		case *ast.WhileStmt:
			c.errorf(luaPos{f.name, n.Line()}, "while has no bound")
		case *ast.RepeatStmt:
			c.errorf(luaPos{f.name, n.Line()}, "repeat has no bound")
		case *ast.GotoStmt:
			c.errorf(luaPos{f.name, n.Line()}, "goto has no bound, and Redis does not know it")
		case *ast.LabelStmt:
			c.errorf(luaPos{f.name, n.Line()}, "Redis does not know labels")
		case *ast.NumberForStmt:
			if !luaBound(n.Limit) {
				c.errorf(luaPos{f.name, n.Line()}, "a limit is made of numbers, names, #, math.min and math.max")
			}
			if n.Step != nil && !luaStep(n.Step) {
				c.errorf(luaPos{f.name, n.Line()}, "the step may be 0: write a number, a constant or math.max(1, ...)")
			}
		case *ast.GenericForStmt:
			c.checkIterator(f, n)
		}
		return true
	})
}

// luaBound reports whether a limit is there before the loop begins: no function makes it, and it is not infinite.
func luaBound(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.NumberExpr, *ast.IdentExpr:
		return true
	case *ast.AttrGetExpr:
		_, named := e.Key.(*ast.StringExpr)
		return luaGlobal(e.Object) != "math" && luaBound(e.Object) && (named || luaBound(e.Key))
	case *ast.UnaryLenOpExpr:
		return luaBound(e.Expr)
	case *ast.UnaryMinusOpExpr:
		return luaBound(e.Expr)
	case *ast.ArithmeticOpExpr:
		return strings.Contains("+-*", e.Operator) && luaBound(e.Lhs) && luaBound(e.Rhs)
	case *ast.RelationalOpExpr:
		return luaBound(e.Lhs) && luaBound(e.Rhs)
	case *ast.LogicalOpExpr:
		return luaBound(e.Lhs) && luaBound(e.Rhs)
	case *ast.FuncCallExpr:
		lib, name := luaFunction(e)
		endless := func(arg ast.Expr) bool { return !luaBound(arg) }
		return lib == "math" && (name == "min" || name == "max") && !slices.ContainsFunc(e.Args, endless)
	}
	return false
}

// luaStep reports whether a step is certainly not 0.
func luaStep(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.NumberExpr:
		return luaNumber(e) > 0
	case *ast.UnaryMinusOpExpr:
		return luaStep(e.Expr)
	case *ast.IdentExpr:
		return luaConstant.MatchString(e.Value)
	case *ast.FuncCallExpr:
		lib, name := luaFunction(e)
		return lib == "math" && name == "max" && slices.ContainsFunc(e.Args, func(a ast.Expr) bool {
			n, ok := a.(*ast.NumberExpr)
			return ok && luaNumber(n) > 0
		})
	}
	return false
}

// checkIterator: a generic for runs over a table or a text, and does not change it: ipairs finds what is added.
func (c *luaChecker) checkIterator(f *luaFile, loop *ast.GenericForStmt) {
	at := luaPos{f.name, loop.Line()}
	call, ok := loop.Exprs[0].(*ast.FuncCallExpr)
	lib, name := luaFunction(call)
	full := strings.TrimPrefix(lib+"."+name, ".")
	if !ok || len(loop.Exprs) > 1 || full != "ipairs" && full != "pairs" && full != "string.gmatch" {
		c.errorf(at, "a generic for runs over ipairs(...), pairs(...) or string.gmatch(...)")
		return
	}
	if len(call.Args) == 0 {
		return
	}
	over, ok := call.Args[0].(*ast.IdentExpr)
	if !ok {
		return
	}
	is := func(e ast.Expr) bool {
		name, ok := e.(*ast.IdentExpr)
		return ok && name.Value == over.Value
	}
	luaInspect(loop.Stmts, func(node any) bool {
		switch n := node.(type) {
		case *ast.AssignStmt:
			for _, lhs := range n.Lhs {
				if element, ok := lhs.(*ast.AttrGetExpr); ok && is(element.Object) {
					c.errorf(luaPos{f.name, n.Line()}, "the loop changes %s, which it runs over", over.Value)
				}
			}
		case *ast.FuncCallExpr:
			if lib, _ := luaFunction(n); lib == "table" && len(n.Args) > 0 && is(n.Args[0]) {
				c.errorf(luaPos{f.name, n.Line()}, "the loop changes %s, which it runs over", over.Value)
			}
		}
		return true
	})
}

// checkCalls: every command is written out, and every key is written as KEYS[number]. Some servers refuse anything
// else.
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

// luaCommand returns the command of a call of Redis, which is empty where it is not written out.
func luaCommand(call *ast.FuncCallExpr) (command string, ok bool) {
	lib, name := luaFunction(call)
	if lib != "redis" || name != "call" && name != "pcall" {
		return "", false
	}
	if len(call.Args) > 0 {
		if text, ok := call.Args[0].(*ast.StringExpr); ok {
			return strings.ToUpper(text.Value), true
		}
	}
	return "", true
}

// luaElement reports whether an expression is table[index] with a number that is written out; any number if empty.
func luaElement(e ast.Expr, table, index string) bool {
	element, ok := e.(*ast.AttrGetExpr)
	if !ok || luaGlobal(element.Object) != table {
		return false
	}
	n, ok := element.Key.(*ast.NumberExpr)
	return ok && luaKeyIndex.MatchString(n.Value) && (index == "" || n.Value == index)
}

// luaFunction returns the name of a called function: math and min for math.min, nothing and pairs for pairs.
func luaFunction(call *ast.FuncCallExpr) (lib, name string) {
	if call == nil {
		return "", ""
	}
	switch fn := call.Func.(type) {
	case *ast.IdentExpr:
		return "", fn.Value
	case *ast.AttrGetExpr:
		if key, ok := fn.Key.(*ast.StringExpr); ok {
			return luaGlobal(fn.Object), key.Value
		}
	}
	return "", ""
}

// luaGlobal returns the name of a global; no local may take it (declare).
func luaGlobal(e ast.Expr) string {
	if name, ok := e.(*ast.IdentExpr); ok && luaGlobals[name.Value] {
		return name.Value
	}
	return ""
}

// checkNumbers: a number above 10 has a name in capitals. luaNumbers need none.
func (c *luaChecker) checkNumbers(f *luaFile) {
	named := map[any]bool{}
	luaInspect(f.stmts, func(node any) bool {
		switch n := node.(type) {
		case *ast.LocalAssignStmt:
			if !slices.ContainsFunc(n.Names, func(name string) bool { return !luaConstant.MatchString(name) }) {
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

func luaNumber(n *ast.NumberExpr) float64 {
	if number, err := strconv.ParseFloat(n.Value, 64); err == nil {
		return number
	}
	number, _ := strconv.ParseUint(n.Value, 0, 64)
	return float64(number)
}

// aliases returns the statements `local x = x` at the top of a file: Lua finds locals faster than globals.
func (f *luaFile) aliases() []*ast.LocalAssignStmt {
	var all []*ast.LocalAssignStmt
	for _, s := range f.stmts {
		local, ok := s.(*ast.LocalAssignStmt)
		if !ok || len(local.Names) != len(local.Exprs) {
			return all
		}
		for i, e := range local.Exprs {
			if name, ok := e.(*ast.IdentExpr); !ok || name.Value != local.Names[i] || !luaGlobals[name.Value] {
				return all
			}
		}
		all = append(all, local)
	}
	return all
}

// luaInspect visits a node and, where visit returns true, what it is made of, in the order of the text.
func luaInspect(node any, visit func(node any) bool) {
	switch n := node.(type) {
	case nil:
		return
	case []ast.Stmt:
		for _, s := range n {
			luaInspect(s, visit)
		}
		return
	case []ast.Expr:
		for _, e := range n {
			luaInspect(e, visit)
		}
		return
	}
	if visit(node) {
		for _, child := range luaChildren(node) {
			luaInspect(child, visit)
		}
	}
}

func luaChildren(node any) []any {
	switch n := node.(type) {
	case *ast.AssignStmt:
		return []any{n.Lhs, n.Rhs}
	case *ast.LocalAssignStmt:
		return []any{n.Exprs}
	case *ast.FuncCallStmt:
		return []any{n.Expr}
	case *ast.DoBlockStmt:
		return []any{n.Stmts}
	case *ast.WhileStmt:
		return []any{n.Condition, n.Stmts}
	case *ast.RepeatStmt:
		return []any{n.Stmts, n.Condition}
	case *ast.IfStmt:
		return []any{n.Condition, n.Then, n.Else}
	case *ast.NumberForStmt:
		return []any{n.Init, n.Limit, n.Step, n.Stmts}
	case *ast.GenericForStmt:
		return []any{n.Exprs, n.Stmts}
	case *ast.FuncDefStmt:
		return []any{n.Name.Func, n.Name.Receiver, n.Func}
	case *ast.ReturnStmt:
		return []any{n.Exprs}
	case *ast.AttrGetExpr:
		return []any{n.Object, n.Key}
	case *ast.TableExpr:
		var all []any
		for _, field := range n.Fields {
			all = append(all, field.Key, field.Value)
		}
		return all
	case *ast.FuncCallExpr:
		return []any{n.Func, n.Receiver, n.Args}
	case *ast.LogicalOpExpr:
		return []any{n.Lhs, n.Rhs}
	case *ast.RelationalOpExpr:
		return []any{n.Lhs, n.Rhs}
	case *ast.StringConcatOpExpr:
		return []any{n.Lhs, n.Rhs}
	case *ast.ArithmeticOpExpr:
		return []any{n.Lhs, n.Rhs}
	case *ast.UnaryMinusOpExpr:
		return []any{n.Expr}
	case *ast.UnaryNotOpExpr:
		return []any{n.Expr}
	case *ast.UnaryLenOpExpr:
		return []any{n.Expr}
	case *ast.FunctionExpr:
		return []any{n.Stmts}
	}
	return nil
}
