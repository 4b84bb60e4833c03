package scripts_test

import (
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

// The checker finds what no run shows on every server. NAME.lua is an operation; a line
// `-- include parts/NAME.lua` in it stands for the text of that part. The rules:
//
//   - A file begins with its name, and an operation tells its reply.
//   - Each command is a literal text, and each key is KEYS[number]. Some servers refuse anything else.
//   - Each name is a local that was declared before, or a global of every server. No global is assigned to,
//     no local takes the name of a global, and a file takes no name of the functions before it.
//   - No local is assigned to where gopher-lua would keep its value (lost).
//   - A loop has a bound beside it, and no function calls itself: so every script ends.
//   - A number above 10 has a name.

// luaGlobals are the names that every server defines, as far as scripts use them.
var luaGlobals = luaSet("redis KEYS ARGV tonumber tostring type pairs ipairs unpack select next " +
	"error assert math string table")

// luaKeyless are the commands that name no key, luaManyKeys those whose arguments are all keys.
var (
	luaKeyless  = luaSet("TIME PUBLISH SPUBLISH")
	luaManyKeys = luaSet("UNLINK DEL EXISTS TOUCH MGET RENAME RENAMENX")
)

// luaNumbers are the numbers above 10 that need no name: powers of two that take bytes apart, the most that
// four bytes hold, and the factors between s, ms and us.
var luaNumbers = []float64{256, 65536, 16777216, 4294967296, 4294967295, 1000, 1000000}

var (
	luaInclude  = regexp.MustCompile(`^[ \t]*-- include (parts/[a-z0-9_]+\.lua)[ \t]*$`)
	luaConstant = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
)

func luaSet(words string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

// A luaLine is a line of a script, and where it comes from.
type luaLine struct {
	file string
	line int
	text string
}

// A luaChecker collects what is wrong.
type luaChecker struct {
	fsys     fs.FS
	included map[string]bool
	files    int
	found    map[string]bool

	// Of the operation that is being checked.
	lines     []luaLine
	calls     int // of Redis commands, in all operations
	scopes    []map[string]*luaLocal
	functions []*luaLocal // the functions whose bodies are open
}

// A luaLocal is a name that is declared.
type luaLocal struct{ file string }

// checkLua returns a checker that has checked all operations of a file system, with the parts they include.
func checkLua(fsys fs.FS) *luaChecker {
	c := &luaChecker{fsys: fsys, included: map[string]bool{}, found: map[string]bool{}}
	operations, _ := fs.Glob(fsys, "*.lua")
	parts, _ := fs.Glob(fsys, "parts/*.lua")
	c.files = len(operations) + len(parts)
	for _, name := range operations {
		c.operation(name)
	}
	for _, name := range parts {
		if !c.included[name] {
			c.found[name+":1: no operation includes it"] = true
		}
	}
	return c
}

// errors returns what is wrong, by file and line.
func (c *luaChecker) errors() []string { return slices.Sorted(maps.Keys(c.found)) }

// errorf notes what is wrong in a line of the operation, once: many operations may include the line.
func (c *luaChecker) errorf(line int, format string, args ...any) {
	at := c.lines[min(max(line, 1), len(c.lines))-1]
	c.found[fmt.Sprintf("%s:%d: %s", at.file, at.line, fmt.Sprintf(format, args...))] = true
}

// file adds the lines of a file, with those of the parts it includes. open are the files that include it.
func (c *luaChecker) file(name string, open ...string) {
	text, err := fs.ReadFile(c.fsys, name)
	if err != nil || slices.Contains(open, name) {
		c.errorf(len(c.lines), "%s is missing, or includes itself", name)
		return
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	reply := strings.Contains(string(text), "\n-- Reply: ")
	for i, line := range lines {
		c.lines = append(c.lines, luaLine{name, i + 1, line})
		if m := luaInclude.FindStringSubmatch(line); m != nil {
			c.included[m[1]] = true
			c.file(m[1], append(open, name)...)
		}
		if i > 0 {
			continue
		}
		if begin := "-- " + path.Base(name) + ": "; !strings.HasPrefix(line, begin) {
			c.errorf(len(c.lines), "the first line begins with `%s`", begin)
		}
		if len(open) == 0 && !reply {
			c.errorf(len(c.lines), "the header has no `-- Reply: `")
		}
	}
}

// operation checks an operation.
func (c *luaChecker) operation(name string) {
	c.lines, c.scopes = nil, []map[string]*luaLocal{{}}
	c.file(name)
	var text strings.Builder
	for _, line := range c.lines {
		text.WriteString(line.text + "\n")
	}
	stmts, err := parse.Parse(strings.NewReader(text.String()), name)
	if err != nil {
		line := len(c.lines)
		if e, ok := err.(*parse.Error); ok {
			line = e.Pos.Line
		}
		c.errorf(line, "%s", strings.TrimSpace(err.Error()))
		return
	}
	if _, ok := stmts[len(stmts)-1].(*ast.ReturnStmt); !ok {
		c.errorf(len(c.lines), "the last statement is no return")
	}
	c.stmts(stmts)
	c.checkNumbers(stmts)
	luaInspect(stmts, func(node any) bool {
		c.checkLoop(node)
		if call, ok := node.(*ast.FuncCallExpr); ok {
			c.checkCall(call)
		}
		return true
	})
}

// checkCall checks a call of Redis: the command and its keys are written out.
func (c *luaChecker) checkCall(call *ast.FuncCallExpr) {
	lib, name := luaFunction(call)
	if lib != "redis" || name != "call" && name != "pcall" {
		return
	}
	c.calls++
	command := luaText(call.Args)
	if command == "" {
		c.errorf(call.Line(), "the command is not written out")
	}
	if command == "" || luaKeyless[command] {
		return
	}
	keys := call.Args[1:]
	if !luaManyKeys[command] {
		keys = keys[:min(1, len(keys))]
	}
	if len(keys) == 0 || slices.ContainsFunc(keys, func(key ast.Expr) bool { return !luaKey(key) }) {
		c.errorf(call.Line(), "a key of %s is not written as KEYS[number]", command)
	}
}

// checkNumbers checks that a number above 10 has a name in capitals, unless it is one of luaNumbers.
func (c *luaChecker) checkNumbers(stmts []ast.Stmt) {
	named := map[any]bool{}
	luaInspect(stmts, func(node any) bool {
		switch n := node.(type) {
		case *ast.LocalAssignStmt:
			if luaConstant.MatchString(n.Names[0]) {
				luaInspect(n.Exprs, func(node any) bool {
					named[node] = true
					return true
				})
			}
		case *ast.AttrGetExpr: // the header says what stands there
			named[n.Key] = luaGlobal(n.Object) == "ARGV"
		case *ast.TableExpr: // as ARGV
			for _, field := range n.Fields {
				named[field.Key] = true
			}
		case *ast.NumberExpr:
			if number := luaNumber(n); number > 10 && !slices.Contains(luaNumbers, number) && !named[n] {
				c.errorf(n.Line(), "%s has no name: local NAME = %s", n.Value, n.Value)
			}
		}
		return true
	})
}

// checkLoop checks that a loop has a bound that stands beside it. A numeric for evaluates its limit and its
// step once. It ends, unless the step is 0 or the limit is infinite.
func (c *luaChecker) checkLoop(node any) {
	switch n := node.(type) {
	case *ast.WhileStmt:
		c.errorf(n.Line(), "while has no bound")
	case *ast.RepeatStmt:
		c.errorf(n.Line(), "repeat has no bound")
	case *ast.GotoStmt:
		c.errorf(n.Line(), "goto has no bound, and Redis does not know it")
	case *ast.NumberForStmt:
		if !luaBound(n.Limit) {
			c.errorf(n.Line(), "a limit is made of numbers, names, #, math.min and math.max")
		}
		if n.Step != nil && !luaStep(n.Step) {
			c.errorf(n.Line(), "the step may be 0: write a number, a constant or math.max(1, ...)")
		}
	case *ast.GenericForStmt:
		call, _ := n.Exprs[0].(*ast.FuncCallExpr)
		lib, name := luaFunction(call)
		full := strings.TrimPrefix(lib+"."+name, ".")
		if len(n.Exprs) > 1 || full != "ipairs" && full != "pairs" && full != "string.gmatch" {
			c.errorf(n.Line(), "a generic for runs over ipairs(...), pairs(...) or string.gmatch(...)")
		}
	}
}

// luaBound reports whether a limit is known before the loop begins: no function computes it, and it is not
// infinite.
func luaBound(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.NumberExpr, *ast.IdentExpr:
		return true
	case *ast.AttrGetExpr:
		_, named := e.Key.(*ast.StringExpr)
		return luaGlobal(e.Object) != "math" && luaBound(e.Object) && (named || luaBound(e.Key))
	case *ast.ArithmeticOpExpr:
		return strings.Contains("+-*", e.Operator) && luaBounds(e.Lhs, e.Rhs)
	case *ast.UnaryLenOpExpr:
		return luaBound(e.Expr)
	case *ast.RelationalOpExpr:
		return luaBounds(e.Lhs, e.Rhs)
	case *ast.LogicalOpExpr:
		return luaBounds(e.Lhs, e.Rhs)
	case *ast.FuncCallExpr:
		lib, name := luaFunction(e)
		return lib == "math" && (name == "min" || name == "max") && luaBounds(e.Args...)
	}
	return false
}

// luaBounds reports whether all expressions are bounds.
func luaBounds(all ...ast.Expr) bool {
	return !slices.ContainsFunc(all, func(e ast.Expr) bool { return !luaBound(e) })
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

// luaText returns the first argument, a literal text, in capitals; "" if it is none.
func luaText(args []ast.Expr) string {
	if len(args) == 0 {
		return ""
	}
	text, ok := args[0].(*ast.StringExpr)
	if !ok {
		return ""
	}
	return strings.ToUpper(text.Value)
}
