package rratelimiter_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// exports are the names that a package declares: of functions, types, values, methods and fields.
type exports map[string]bool

// add adds the names that a file declares.
func (e exports) add(file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		var names []*ast.Ident
		switch n := n.(type) {
		case *ast.FuncDecl:
			names = []*ast.Ident{n.Name}
		case *ast.TypeSpec:
			names = []*ast.Ident{n.Name}
		case *ast.ValueSpec:
			names = n.Names
		case *ast.Field:
			names = n.Names
		}
		for _, name := range names {
			e[name.Name] = true
		}
		return true
	})
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
	maps.Copy(names["rratelimiter"], names["limit"]) // type Result = limit.Result
	return names, comments
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
		first, in := found[1], names[found[1]]
		if in == nil && names[of][first] && ast.IsExported(first) {
			in = names[of]
		}
		for name := range strings.SplitSeq(found[2], ".") {
			if in != nil && !in[name] && first != "RateType" { // of Java
				all = append(all, found[0])
			}
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
		exists := func(name string) bool { return names[of][name] }
		if of == "rlock" { // its errors.go says so
			exists = func(name string) bool { return names[of][name] || names["rratelimiter"][name] }
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
			if e[name] {
				return true
			}
		}
		return false
	}
	blocks, codes := regexp.MustCompile("(?s)```.*?```"), regexp.MustCompile("`[^`\n]+`")
	for file, text := range pages(t) {
		switch file {
		case "CHANGELOG.md": // has what is gone
			continue
		case "docs/moving.md": // whose first columns are other projects
			text = regexp.MustCompile(`(?m)^\|[^|]*\|`).ReplaceAllString(text, "|")
		}
		for _, code := range codes.FindAllString(blocks.ReplaceAllString(text, ""), -1) {
			for _, name := range missing(names, "", code, somewhere) {
				t.Errorf("%s: no %s, in %s", file, name, code)
			}
		}
	}
}

// Tests, rows and files that docs/testing.md names exist: go test takes a name that matches none for success.
func TestTestingNamesWhatExists(t *testing.T) {
	var tests strings.Builder
	for _, glob := range []string{"*/*_test.go", "*/*/*_test.go", "*/*/testdata/*.txt", "*/testdata/*.txt",
		"internal/faults/*.go"} {
		files, err := filepath.Glob(glob)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", glob, len(files), err)
		}
		for _, file := range files {
			tests.WriteString(read(t, file))
		}
	}
	page := read(t, "docs/testing.md")
	for _, name := range regexp.MustCompile(`\bTest[A-Z]\w*`).FindAllString(page, -1) {
		if !strings.Contains(tests.String(), "func "+name+"(") {
			t.Errorf("there is no %s", name)
		}
	}
	for _, file := range regexp.MustCompile("`([a-z_/]+\\.(?:txt|go))`").FindAllStringSubmatch(page, -1) {
		_ = read(t, file[1])
	}
	rows := regexp.MustCompile(`-run '?Test\w+\$?/(?:[^'\s]*(?:/|:_))?([^'\s]+)|-ginkgo\.focus '([^']+)'`).
		FindAllStringSubmatch(page, -1)
	if len(rows) < 4 {
		t.Errorf("%d rows", len(rows))
	}
	for _, row := range rows {
		if name := strings.ReplaceAll(row[1]+row[2], "_", " "); !strings.Contains(tests.String(), name) {
			t.Errorf("there is no row %q", name)
		}
	}
}
