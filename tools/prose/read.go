package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// readers find the findings in the source of a file, by its extension.
var readers = map[string]func(source []byte) ([]finding, error){
	".go": readGo, ".lua": readLua, ".md": readMarkdown,
}

// code matches spans of code in prose, which are replaced by x.
var code = regexp.MustCompile("`[^`\n]+`|\\[[A-Z]\\w*(?:\\.\\w+)*\\]|\"[^\"\n]*\"")

func withoutCode(text string) string {
	return code.ReplaceAllStringFunc(text, func(span string) string { return strings.Repeat("x", len(span)) })
}

// readGo checks comments, the texts of errors, and the names of variables and fields.
func readGo(source []byte) (found []finding, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	lineOf := func(p token.Pos) int { return files.Position(p).Line }
	var bodies []*ast.BlockStmt
	documented := map[*ast.CommentGroup][]*ast.Ident{} // the names that a comment documents
	ast.Inspect(file, func(n ast.Node) bool {
		if doc, names := docOf(n); doc != nil {
			documented[doc] = append(documented[doc], names...)
		}
		if f, ok := n.(*ast.FuncDecl); ok && f.Body != nil {
			bodies = append(bodies, f.Body)
		}
		if text, at := errorText(n); at != nil {
			found = append(found, check(passage{line: lineOf(at.Pos()), text: text})...)
		}
		for _, name := range declared(n) {
			if participleName.match.MatchString(name.Name) {
				found = append(found, finding{"", lineOf(name.Pos()), participleName, name.Name})
			}
		}
		return true
	})
	for _, group := range file.Comments {
		p := passage{line: lineOf(group.Pos())}
		p.inFunc = slices.ContainsFunc(bodies, func(body *ast.BlockStmt) bool {
			return body.Pos() < group.Pos() && group.End() < body.End()
		})
		for _, comment := range group.List {
			line := strings.TrimPrefix(strings.TrimPrefix(comment.Text, "//"), " ")
			if strings.HasPrefix(line, "\t") { // code
				line = ""
			}
			p.text += withoutCode(line) + "\n"
		}
		for _, name := range documented[group] { // a comment begins with the name, whatever its word
			if rest, ok := strings.CutPrefix(p.text, name.Name+" "); ok {
				p.text = strings.Repeat("x", len(name.Name)) + " " + rest
			}
		}
		found = append(found, check(p)...)
	}
	return found, nil
}

// docOf returns the doc comment of a declaration, and the names that the comment may begin with.
func docOf(n ast.Node) (doc *ast.CommentGroup, names []*ast.Ident) {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return n.Doc, []*ast.Ident{n.Name}
	case *ast.Field:
		return n.Doc, n.Names
	case *ast.ValueSpec:
		return n.Doc, n.Names
	case *ast.TypeSpec:
		return n.Doc, []*ast.Ident{n.Name}
	case *ast.GenDecl: // the comment of a declaration without parentheses
		for _, spec := range n.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, spec.Name)
			case *ast.ValueSpec:
				names = append(names, spec.Names...)
			}
		}
		return n.Doc, names
	}
	return nil, nil
}

// declared returns the names that a node declares.
func declared(n ast.Node) (names []*ast.Ident) {
	switch n := n.(type) {
	case *ast.Field:
		return n.Names
	case *ast.ValueSpec:
		return n.Names
	case *ast.AssignStmt:
		for _, e := range n.Lhs {
			if name, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
				names = append(names, name)
			}
		}
	}
	return names
}

// errorText returns the text and the literal of a call of errors.New or fmt.Errorf.
func errorText(n ast.Node) (text string, at *ast.BasicLit) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return "", nil
	}
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || function.Sel.Name != "Errorf" && function.Sel.Name != "New" || len(call.Args) == 0 {
		return "", nil
	}
	literal, ok := call.Args[0].(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", nil
	}
	text, err := strconv.Unquote(literal.Value)
	if err != nil {
		return "", nil
	}
	return text, literal
}

// readLua checks comments; consecutive lines are one passage.
func readLua(source []byte) ([]finding, error) {
	return paragraphs(string(source), func(line string) string {
		_, comment, _ := strings.Cut(line, "--")
		return strings.TrimPrefix(comment, " ")
	}), nil
}

// readMarkdown checks paragraphs, headings, and the cells of tables, without code.
func readMarkdown(source []byte) ([]finding, error) {
	fenced := false
	return paragraphs(string(source), func(line string) string {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			return ""
		}
		if fenced {
			return ""
		}
		return strings.TrimSpace(strings.ReplaceAll(line, "|", ":"))
	}), nil
}

// paragraphs checks the passages between lines for which textOf returns nothing.
func paragraphs(source string, textOf func(line string) string) (found []finding) {
	p := passage{}
	for i, line := range append(strings.Split(source, "\n"), "") {
		text := withoutCode(textOf(line))
		switch {
		case text != "" && p.text == "":
			p = passage{line: i + 1, text: text}
		case text != "":
			p.text += "\n" + text
		case p.text != "":
			found = append(found, check(p)...)
			p.text = ""
		}
	}
	return found
}
