package scripts_test

import (
	"reflect"
	"strconv"

	"github.com/yuin/gopher-lua/ast"
)

// luaKey reports whether an expression is KEYS[number].
func luaKey(e ast.Expr) bool {
	element, ok := e.(*ast.AttrGetExpr)
	if !ok || luaGlobal(element.Object) != "KEYS" {
		return false
	}
	number, ok := element.Key.(*ast.NumberExpr)
	return ok && luaNumber(number) >= 1
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

func luaNumber(n *ast.NumberExpr) float64 {
	if number, err := strconv.ParseFloat(n.Value, 64); err == nil {
		return number
	}
	number, _ := strconv.ParseUint(n.Value, 0, 64)
	return float64(number)
}

// luaInspect visits a node, or those of a list, and, where visit returns true, what the node is made of.
func luaInspect(node any, visit func(node any) bool) {
	v := reflect.ValueOf(node)
	switch {
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			luaInspect(v.Index(i).Interface(), visit)
		}
	case v.Kind() == reflect.Pointer && !v.IsNil() && visit(node):
		for _, field := range v.Elem().Fields() {
			if field.Kind() != reflect.Struct { // the embedded position
				luaInspect(field.Interface(), visit)
			}
		}
	}
}
