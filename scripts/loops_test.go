package scripts_test

import (
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

// checkLoops: every loop has a bound that stands beside it.
//
// A numeric for evaluates its limit and its step once. It ends, unless the step
// is 0 or the limit is infinite. Lua leaves a loop with step 0 alone when the
// limit is above the start, and runs it for ever when it is not.
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
				c.errorf(luaPos{f.name, n.Line()},
					"a limit is made of numbers, names, #, math.min and math.max")
			}
			if n.Step != nil && !luaStep(n.Step) {
				c.errorf(luaPos{f.name, n.Line()},
					"the step may be 0: write a number, a constant or math.max(1, ...)")
			}
		case *ast.GenericForStmt:
			c.checkIterator(f, n)
		}
		return true
	})
}

// luaBound reports whether a limit is there before the loop begins: no function
// makes it, and it is not infinite.
func luaBound(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.NumberExpr, *ast.IdentExpr:
		return true
	case *ast.AttrGetExpr:
		_, named := e.Key.(*ast.StringExpr)
		return luaGlobal(e.Object) != "math" && luaBound(e.Object) && (named || luaBound(e.Key))
	case *ast.ArithmeticOpExpr:
		return strings.Contains("+-*", e.Operator) && luaBounds(e.Lhs, e.Rhs)
	case *ast.UnaryLenOpExpr, *ast.UnaryMinusOpExpr, *ast.RelationalOpExpr, *ast.LogicalOpExpr:
		return !slices.ContainsFunc(luaParts(e), func(part any) bool { return !luaBound(part.(ast.Expr)) })
	case *ast.FuncCallExpr:
		lib, name := luaFunction(e)
		return lib == "math" && (name == "min" || name == "max") && luaBounds(e.Args...)
	}
	return false
}

// luaBounds reports whether each of the expressions is a bound.
func luaBounds(exprs ...ast.Expr) bool {
	return !slices.ContainsFunc(exprs, func(e ast.Expr) bool { return !luaBound(e) })
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

// checkIterator: a generic for runs over a table or a text, and does not change
// it: ipairs finds what is added.
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
	c.checkUnchanged(f, loop, over.Value)
}

// checkUnchanged: a loop does not change the table that it runs over.
func (c *luaChecker) checkUnchanged(f *luaFile, loop *ast.GenericForStmt, table string) {
	is := func(e ast.Expr) bool {
		name, ok := e.(*ast.IdentExpr)
		return ok && name.Value == table
	}
	luaInspect(loop.Stmts, func(node any) bool {
		switch n := node.(type) {
		case *ast.AssignStmt:
			for _, lhs := range n.Lhs {
				if element, ok := lhs.(*ast.AttrGetExpr); ok && is(element.Object) {
					c.errorf(luaPos{f.name, n.Line()}, "the loop changes %s, which it runs over", table)
				}
			}
		case *ast.FuncCallExpr:
			if lib, _ := luaFunction(n); lib == "table" && len(n.Args) > 0 && is(n.Args[0]) {
				c.errorf(luaPos{f.name, n.Line()}, "the loop changes %s, which it runs over", table)
			}
		}
		return true
	})
}
