package scripts_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

// luaUse is a name, or a thing that is done, and where.
type luaUse struct {
	name string
	pos  luaPos
	line int // of the file that was expanded: an include there leads to pos
}

func luaUses(uses []luaUse, name string) bool {
	return slices.ContainsFunc(uses, func(use luaUse) bool { return use.name == name })
}

// luaUnit is a file with what it includes: what it takes from outside, and what it does.
type luaUnit struct {
	c    *luaChecker
	root *luaFile

	free     []luaUse // names that are used and not defined, each once
	assigned []luaUse // those of them that are assigned to
	outs     []luaUse // locals at the top level
	returns  []luaUse // not those of functions
	writes   []luaUse // commands that write
	last     ast.Stmt // of the top level

	open      []luaOpen    // the files that are being expanded
	scopes    []luaScope   // the blocks that are open
	functions []*luaSymbol // the functions whose bodies are open
	over      *luaPos      // a return or break behind which nothing is reached
}

// luaOpen is a file that is being expanded, and the line of the include in it that is followed.
type luaOpen struct {
	file *luaFile
	line int
}

type luaScope map[string]*luaSymbol

// luaSymbol is a local.
type luaSymbol struct {
	name     string
	pos      luaPos
	function bool
}

// expand goes through a file and all it includes, as Redis sees them.
func (c *luaChecker) expand(f *luaFile) *luaUnit {
	u := &luaUnit{c: c, root: f, scopes: []luaScope{{}}}
	u.file(f)
	return u
}

func (u *luaUnit) file(f *luaFile) {
	if f == nil || slices.ContainsFunc(u.open, func(o luaOpen) bool { return o.file == f }) {
		return // checkIncludes has told
	}
	u.open = append(u.open, luaOpen{f, 0})
	u.stmts(f.stmts)
	u.open = u.open[:len(u.open)-1]
}

func (u *luaUnit) current() *luaOpen { return &u.open[len(u.open)-1] }

func (u *luaUnit) pos(line int) luaPos { return luaPos{u.current().file.name, line} }

// use returns what is noted of a name in a line of the file that is current.
func (u *luaUnit) use(name string, line int) luaUse {
	at := u.open[0].line
	if len(u.open) == 1 {
		at = line
	}
	return luaUse{name, u.pos(line), at}
}

// here returns the line of the root in which something is used.
func (u *luaUnit) here(use luaUse) luaPos { return luaPos{u.root.name, use.line} }

// through tells the line of the part that is to blame, unless it is the root's own.
func (u *luaUnit) through(use luaUse) string {
	if use.pos == u.here(use) {
		return ""
	}
	return fmt.Sprintf(" (%s)", use.pos)
}

// within tells the operation, where a line is in a part.
func (u *luaUnit) within(pos luaPos) string {
	if pos.file == u.root.name {
		return ""
	}
	return " in " + u.root.name
}

// block goes through statements with locals of their own.
func (u *luaUnit) block(stmts []ast.Stmt, line int, names ...string) {
	u.scopes = append(u.scopes, luaScope{})
	for _, name := range names {
		u.declare(name, line, false)
	}
	u.stmts(stmts)
	u.scopes = u.scopes[:len(u.scopes)-1]
}

// branch goes through a block that may be passed over, so that what follows it is reached.
func (u *luaUnit) branch(stmts []ast.Stmt, line int, names ...string) {
	u.block(stmts, line, names...)
	u.over = nil
}

func (u *luaUnit) stmts(stmts []ast.Stmt) {
	for _, s := range stmts {
		if line, ok := u.current().file.include(s); ok {
			u.current().line = line
			u.file(u.c.files[u.current().file.includes[line]])
			continue
		}
		if u.over != nil {
			u.c.errorf(u.pos(s.Line()), "never reached: %s has ended it%s", u.over, u.within(u.pos(s.Line())))
			u.over = nil
		}
		if len(u.scopes) == 1 {
			u.last = s
		}
		u.stmt(s)
	}
}

func (u *luaUnit) stmt(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.LocalAssignStmt:
		u.local(s)
	case *ast.AssignStmt:
		u.exprs(s.Rhs...)
		for _, lhs := range s.Lhs {
			u.assign(lhs)
		}
	case *ast.FuncCallStmt:
		u.exprs(s.Expr)
	case *ast.DoBlockStmt:
		u.block(s.Stmts, s.Line())
	case *ast.WhileStmt:
		u.exprs(s.Condition)
		u.branch(s.Stmts, s.Line())
	case *ast.RepeatStmt:
		u.branch(s.Stmts, s.Line())
		u.exprs(s.Condition)
	case *ast.IfStmt:
		u.exprs(s.Condition)
		u.branch(s.Then, s.Line())
		u.branch(s.Else, s.Line())
	case *ast.NumberForStmt:
		u.exprs(s.Init, s.Limit, s.Step)
		u.branch(s.Stmts, s.Line(), s.Name)
	case *ast.GenericForStmt:
		u.exprs(s.Exprs...)
		u.branch(s.Stmts, s.Line(), s.Names...)
	case *ast.FuncDefStmt:
		u.c.errorf(u.pos(s.Line()), "a function is declared as local function")
		u.function(s.Func, nil)
	case *ast.ReturnStmt:
		u.exprs(s.Exprs...)
		at := u.pos(s.Line())
		u.over = &at
		if len(u.functions) == 0 {
			u.returns = append(u.returns, u.use("return", s.Line()))
		}
	case *ast.BreakStmt:
		at := u.pos(s.Line())
		u.over = &at
	}
}

// local declares names. The expressions do not see them, but a function sees its own name.
func (u *luaUnit) local(s *ast.LocalAssignStmt) {
	if slices.Contains(u.current().file.aliases(), s) {
		return
	}
	if fn, ok := luaOnlyFunction(s); ok {
		u.function(fn, u.declare(s.Names[0], s.Line(), true))
		return
	}
	u.exprs(s.Exprs...)
	for _, name := range s.Names {
		u.declare(name, s.Line(), false)
	}
}

func luaOnlyFunction(s *ast.LocalAssignStmt) (*ast.FunctionExpr, bool) {
	if len(s.Names) != 1 || len(s.Exprs) != 1 {
		return nil, false
	}
	fn, ok := s.Exprs[0].(*ast.FunctionExpr)
	return fn, ok
}

// declare adds a local to the block. It takes the name of no global, and of no
// local that is visible: a reader of the text behind it would take the one for
// the other. `_` is for what nobody reads.
func (u *luaUnit) declare(name string, line int, function bool) *luaSymbol {
	symbol := &luaSymbol{name, u.pos(line), function}
	if name == "_" {
		return symbol
	}
	if luaGlobals[name] {
		u.c.errorf(symbol.pos, "local %s takes the name of a global", name)
		return symbol
	}
	if old := u.lookup(name); old != nil {
		u.taken(symbol, old)
	}
	u.scopes[len(u.scopes)-1][name] = symbol
	if len(u.scopes) == 1 && !luaUses(u.outs, name) {
		u.outs = append(u.outs, u.use(name, line))
	}
	return symbol
}

// taken tells of two locals of one name, once, in the first operation that has both.
func (u *luaUnit) taken(symbol, old *luaSymbol) {
	text := fmt.Sprintf("local %s takes the name of the one of %s", symbol.name, old.pos)
	if !slices.ContainsFunc(u.c.found[symbol.pos], func(known string) bool {
		return known == text || strings.HasPrefix(known, text+" in ")
	}) {
		u.c.errorf(symbol.pos, "%s%s", text, u.within(symbol.pos))
	}
}

func (u *luaUnit) lookup(name string) *luaSymbol {
	for _, scope := range slices.Backward(u.scopes) {
		if symbol := scope[name]; symbol != nil {
			return symbol
		}
	}
	return nil
}

// assign notes what is assigned to. Globals, constants and functions stay what they are.
func (u *luaUnit) assign(to ast.Expr) {
	name, ok := to.(*ast.IdentExpr)
	if !ok {
		element, _ := to.(*ast.AttrGetExpr)
		if global := luaGlobal(element.Object); global != "" {
			u.c.errorf(u.pos(to.Line()), "the global %s is changed", global)
		}
		u.exprs(to)
		return
	}
	symbol := u.lookup(name.Value)
	switch {
	case luaGlobals[name.Value]:
		u.c.errorf(u.pos(to.Line()), "the global %s is assigned to", name.Value)
	case luaConstant.MatchString(name.Value):
		u.c.errorf(u.pos(to.Line()), "the constant %s is assigned to", name.Value)
	case symbol == nil:
		if !luaUses(u.assigned, name.Value) {
			u.assigned = append(u.assigned, u.use(name.Value, to.Line()))
		}
		u.read(name.Value, to.Line())
	case symbol.function:
		u.c.errorf(u.pos(to.Line()), "the function %s is assigned to", name.Value)
	}
}

// exprs notes the names and calls of expressions.
//
// A function does not see those that are declared behind it. So where functions
// are no values, the only one that can call itself does so by its own name. A
// function may be an argument of string.gsub, table.sort and the like.
func (u *luaUnit) exprs(exprs ...ast.Expr) {
	fine := map[any]bool{}
	for _, e := range exprs {
		luaInspect(e, func(node any) bool {
			switch n := node.(type) {
			case *ast.FuncCallExpr:
				fine[n.Func] = true
				if lib, _ := luaFunction(n); lib == "string" || lib == "table" {
					for _, arg := range n.Args {
						fine[arg] = true
					}
				}
				u.call(n)
			case *ast.IdentExpr:
				u.read(n.Value, n.Line())
				if symbol := u.lookup(n.Value); symbol != nil && symbol.function {
					u.checkFunction(n, symbol, fine[n])
				}
			case *ast.FunctionExpr:
				if !fine[n] {
					u.c.errorf(u.pos(n.Line()),
						"a function is declared as local function, or its calls are not seen")
				}
				u.function(n, nil)
				return false
			}
			return true
		})
	}
}

func (u *luaUnit) checkFunction(name *ast.IdentExpr, symbol *luaSymbol, called bool) {
	if slices.Contains(u.functions, symbol) {
		u.c.errorf(u.pos(name.Line()), "%s calls itself", symbol.name)
	} else if !called {
		u.c.errorf(u.pos(name.Line()), "the function %s is a value: its calls could not be seen", symbol.name)
	}
}

// read notes a name that is not defined.
func (u *luaUnit) read(name string, line int) {
	if !luaGlobals[name] && u.lookup(name) == nil && !luaUses(u.free, name) {
		u.free = append(u.free, u.use(name, line))
	}
}

func (u *luaUnit) function(fn *ast.FunctionExpr, symbol *luaSymbol) {
	over := u.over
	u.functions = append(u.functions, symbol)
	u.block(fn.Stmts, fn.Line(), fn.ParList.Names...)
	u.functions = u.functions[:len(u.functions)-1]
	u.over = over
}

// call notes a command that writes.
func (u *luaUnit) call(call *ast.FuncCallExpr) {
	if command, ok := luaCommand(call); ok && !luaReads[command] {
		if command == "" {
			command = "a command that is not written out"
		}
		u.writes = append(u.writes, u.use(command, call.Line()))
	}
}
