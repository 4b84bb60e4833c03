package scripts_test

import (
	"github.com/yuin/gopher-lua/ast"
)

// declare adds a local to the block.
func (c *luaChecker) declare(name string, line int) *luaLocal {
	local := &luaLocal{c.lines[min(line, len(c.lines))-1].file}
	if luaGlobals[name] {
		c.errorf(line, "local %s takes the name of a global", name)
	}
	top := c.scopes[0][name]
	if len(c.scopes) == 1 && top != nil && top.file != local.file {
		c.errorf(line, "local %s takes the name of the one of %s", name, top.file)
	}
	c.scopes[len(c.scopes)-1][name] = local
	return local
}

func (c *luaChecker) lookup(name string) *luaLocal {
	for i := len(c.scopes) - 1; i >= 0; i-- {
		if local := c.scopes[i][name]; local != nil {
			return local
		}
	}
	return nil
}

// block goes through statements with locals of their own.
func (c *luaChecker) block(stmts []ast.Stmt, line int, names ...string) {
	c.scopes = append(c.scopes, map[string]*luaLocal{})
	for _, name := range names {
		c.declare(name, line)
	}
	c.stmts(stmts)
	c.scopes = c.scopes[:len(c.scopes)-1]
}

func (c *luaChecker) function(fn *ast.FunctionExpr, local *luaLocal) {
	c.functions = append(c.functions, local)
	c.block(fn.Stmts, fn.Line(), fn.ParList.Names...)
	c.functions = c.functions[:len(c.functions)-1]
}

// stmts checks the names of statements: each is declared before it is used.
func (c *luaChecker) stmts(stmts []ast.Stmt) {
	for _, s := range stmts {
		switch s := s.(type) {
		case *ast.LocalAssignStmt:
			c.local(s)
		case *ast.AssignStmt:
			c.exprs(s.Rhs...)
			for i, lhs := range s.Lhs {
				c.assign(lhs)
				if i < len(s.Rhs) {
					c.lost(lhs, s.Rhs[i])
				}
			}
		case *ast.FuncCallStmt:
			c.exprs(s.Expr)
		case *ast.DoBlockStmt:
			c.block(s.Stmts, s.Line())
		case *ast.IfStmt:
			c.exprs(s.Condition)
			c.block(s.Then, s.Line())
			c.block(s.Else, s.Line())
		case *ast.NumberForStmt:
			c.exprs(s.Init, s.Limit, s.Step)
			c.block(s.Stmts, s.Line(), s.Name)
		case *ast.GenericForStmt:
			c.exprs(s.Exprs...)
			c.block(s.Stmts, s.Line(), s.Names...)
		case *ast.FuncDefStmt:
			c.errorf(s.Line(), "a function is declared as local function")
		case *ast.ReturnStmt:
			c.exprs(s.Exprs...)
		}
	}
}

// local declares names. The expressions do not see them, but a function sees its own name.
func (c *luaChecker) local(s *ast.LocalAssignStmt) {
	if len(s.Exprs) == 1 {
		if fn, ok := s.Exprs[0].(*ast.FunctionExpr); ok {
			c.function(fn, c.declare(s.Names[0], s.Line()))
			return
		}
	}
	c.exprs(s.Exprs...)
	for i, name := range s.Names {
		if i < len(s.Exprs) && luaGlobal(s.Exprs[i]) == name {
			continue // local x = x: Lua finds locals faster than globals
		}
		c.declare(name, s.Line())
	}
}

// assign checks what is assigned to. Globals and constants stay what they are.
func (c *luaChecker) assign(to ast.Expr) {
	name, ok := to.(*ast.IdentExpr)
	switch {
	case !ok:
		if element := to.(*ast.AttrGetExpr); luaGlobal(element.Object) != "" {
			c.errorf(to.Line(), "the global %s is changed", luaGlobal(element.Object))
		}
		c.exprs(to)
	case c.lookup(name.Value) == nil:
		c.errorf(to.Line(), "%s is assigned to and not local", name.Value)
	case luaConstant.MatchString(name.Value):
		c.errorf(to.Line(), "the constant %s is assigned to", name.Value)
	}
}

// lost finds what gopher-lua, and so miniredis, does not assign: if x is true in `a and not x and b`, a local
// keeps its value instead of becoming false.
func (c *luaChecker) lost(to, value ast.Expr) {
	if _, ok := to.(*ast.IdentExpr); !ok {
		return
	}
	luaInspect(value, func(node any) bool {
		and, ok := node.(*ast.LogicalOpExpr)
		if !ok || and.Operator != "and" {
			return true
		}
		last := and.Lhs
		if before, ok := last.(*ast.LogicalOpExpr); ok && before.Operator == "and" {
			last = before.Rhs
		}
		if _, ok := last.(*ast.UnaryNotOpExpr); ok {
			c.errorf(to.Line(), "miniredis does not assign false behind not: declare the local here")
		}
		return true
	})
}

// exprs checks the names of expressions. A function does not see those that are declared behind it. So one
// that does not call itself by its own name ends.
func (c *luaChecker) exprs(exprs ...ast.Expr) {
	for _, e := range exprs {
		luaInspect(e, func(node any) bool {
			switch n := node.(type) {
			case *ast.IdentExpr:
				local := c.lookup(n.Value)
				if local == nil && !luaGlobals[n.Value] {
					c.errorf(n.Line(), "nothing defines %s", n.Value)
				}
				for _, open := range c.functions {
					if local != nil && local == open {
						c.errorf(n.Line(), "%s calls itself", n.Value)
					}
				}
			case *ast.FunctionExpr:
				c.function(n, nil)
				return false
			}
			return true
		})
	}
}
