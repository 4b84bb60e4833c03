package rratelimiter_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// exports are the names of a package: functions, types, values, and methods and fields as Type.Name.
type exports map[string]bool

// has reports whether a package has a name, also as a method.
func (e exports) has(name string) bool {
	for n := range e {
		if n == name || strings.HasSuffix(n, "."+name) {
			return true
		}
	}
	return false
}

// publicPackages returns the exports of each package that users import, and the comments of its files.
func publicPackages(t *testing.T) (names map[string]exports, comments map[string][]string) {
	t.Helper()
	names, comments = map[string]exports{}, map[string][]string{}
	hidden := []string{"internal", "test", "tools", "bench", "compat_test", "testdata", "cmd", "examples"}
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." &&
			(slices.Contains(hidden, d.Name()) || strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		of := file.Name.Name
		if names[of] == nil {
			names[of] = exports{}
		}
		names[of].add(file)
		for _, c := range file.Comments {
			comments[of] = append(comments[of], c.Text())
		}
		return nil
	})
	if err != nil || len(names) < 10 {
		t.Fatalf("%d packages, %v", len(names), err)
	}
	names["rratelimiter"].addAliases(names["limit"])
	return names, comments
}

// addAliases adds the fields and methods of type Result = limit.Result, and of Reservation.
func (e exports) addAliases(of exports) {
	for name := range of {
		for _, alias := range []string{"Result", "Reservation"} {
			if strings.HasPrefix(name, alias+".") {
				e[name] = true
			}
		}
	}
}

// add adds the names that a file declares.
func (e exports) add(file *ast.File) {
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			name := decl.Name.Name
			if decl.Recv != nil {
				typ := decl.Recv.List[0].Type
				if star, ok := typ.(*ast.StarExpr); ok {
					typ = star.X
				}
				if id, ok := typ.(*ast.Ident); ok {
					name = id.Name + "." + name
				}
			}
			e[name] = true
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, id := range spec.Names {
						e[id.Name] = true
					}
				case *ast.TypeSpec:
					e[spec.Name.Name] = true
					ast.Inspect(spec.Type, func(n ast.Node) bool {
						if field, ok := n.(*ast.Field); ok {
							for _, id := range field.Names {
								e[spec.Name.Name+"."+id.Name] = true
							}
							if id, ok := field.Type.(*ast.Ident); ok && field.Names == nil {
								e.embeds(spec.Name.Name, id.Name)
							}
						}
						return true
					})
				}
			}
		}
	}
}

// embeds adds the methods of an embedded type, whose file may be read later.
func (e exports) embeds(outer, inner string) { e[outer+"<"+inner] = true }

// of reports whether a type has a method or field, perhaps by a type that it embeds.
func (e exports) of(typ, name string) bool {
	for n := range e {
		if outer, inner, ok := strings.Cut(n, "<"); ok && outer == typ && e[inner+"."+name] {
			return true
		}
	}
	return e[typ+"."+name]
}

var (
	qualified = regexp.MustCompile(`\b([A-Za-z]\w*)\.([A-Z]\w*(?:\.[A-Z]\w*)?)`)
	// errors and options, which users type as they read them; not part of a longer name
	typed = regexp.MustCompile(`(?:^|[^\w.])((?:Err|With)[A-Z]\w*)`)
)

// missing returns the names in a text that do not exist: pkg.Name of our packages, Type.Name of package of,
// and errors and options that exists refuses.
func missing(names map[string]exports, of, text string, exists func(name string) bool) (all []string) {
	for _, found := range qualified.FindAllStringSubmatch(text, -1) {
		first, rest := found[1], found[2]
		switch {
		case first == "RateType": // of Java
		case names[first] != nil && !names[first][rest],
			names[first] == nil && names[of][first] && ast.IsExported(first) && !names[of].of(first, rest):
			all = append(all, found[0])
		}
	}
	for _, found := range typed.FindAllStringSubmatch(text, -1) {
		if !exists(found[1]) {
			all = append(all, found[1])
		}
	}
	return all
}

// Names in the comments of a package exist there, or in the package that is named before the dot.
func TestCommentsNameWhatExists(t *testing.T) {
	names, comments := publicPackages(t)
	for of, texts := range comments {
		exists := names[of].has
		if of == "rlock" { // its errors.go says so
			exists = func(name string) bool { return names[of].has(name) || names["rratelimiter"].has(name) }
		}
		for _, text := range texts {
			for _, name := range missing(names, of, text, exists) {
				t.Errorf("package %s: no %s, in %q", of, name, text)
			}
		}
	}
}

// Names in the pages exist in some package. Blocks are compiled (TestBlocks).
func TestPagesNameWhatExists(t *testing.T) {
	names, _ := publicPackages(t)
	somewhere := func(name string) bool {
		for _, e := range names {
			if e.has(name) {
				return true
			}
		}
		return false
	}
	blocks, codes := regexp.MustCompile("(?s)```.*?```"), regexp.MustCompile("`[^`\n]+`")
	for file, text := range pages(t) {
		if file == "docs/moving.md" || file == "CHANGELOG.md" { // other projects, and what is gone
			continue
		}
		for _, code := range codes.FindAllString(blocks.ReplaceAllString(text, ""), -1) {
			for _, name := range missing(names, "", code, somewhere) {
				t.Errorf("%s: no %s, in %s", file, name, code)
			}
		}
	}
}
