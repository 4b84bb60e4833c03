package scripts_test

import (
	"strconv"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

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

// luaElement reports whether an expression is table[index] with a number that is
// written out; any number if empty.
func luaElement(e ast.Expr, table, index string) bool {
	element, ok := e.(*ast.AttrGetExpr)
	if !ok || luaGlobal(element.Object) != table {
		return false
	}
	n, ok := element.Key.(*ast.NumberExpr)
	return ok && luaKeyIndex.MatchString(n.Value) && (index == "" || n.Value == index)
}

// luaFunction returns the name of a called function: math and min for math.min,
// nothing and pairs for pairs.
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

func luaNumber(n *ast.NumberExpr) float64 {
	if number, err := strconv.ParseFloat(n.Value, 64); err == nil {
		return number
	}
	number, _ := strconv.ParseUint(n.Value, 0, 64)
	return float64(number)
}

// luaInspect visits a node and, where visit returns true, what it is made of, in
// the order of the text.
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

// luaChildren returns what a node is made of.
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
	case ast.Expr:
		return luaParts(n)
	}
	return nil
}

// luaParts returns what an expression is made of.
func luaParts(e ast.Expr) []any {
	switch n := e.(type) {
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
