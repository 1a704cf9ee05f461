// Package agent has no code of its own.
package agent

import (
	"go/ast"
	"go/parser"
	"go/token"
	iofs "io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestShape: a new concern is a type or a package of its own, not one more field, method or branch. It is not in
// agent/node, whose tests run on other kernels, too, without these files.
func TestShape(t *testing.T) {
	const mostFields, mostMethods, mostLines = 15, 30, 60
	const mostPromoted = 44 // with those of embedded structs of the same package: looks has them, and more would be worse
	for _, root := range []string{"node", "../bpf"} {
		fields, methods, embedded := map[string]int{}, map[string]int{}, map[string][]string{}
		set := token.NewFileSet()
		err := filepath.WalkDir(root, func(path string, d iofs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			dir := filepath.Dir(path) + "."
			for _, decl := range file.Decls {
				switch decl := decl.(type) {
				case *ast.GenDecl:
					for _, spec := range decl.Specs {
						if s, ok := spec.(*ast.TypeSpec); ok {
							name := dir + s.Name.Name
							var names []string
							fields[name], names = fieldsOf(s)
							for _, of := range names {
								embedded[name] = append(embedded[name], dir+of)
							}
						}
					}
				case *ast.FuncDecl:
					if on := receiver(decl); on != "" {
						methods[dir+on]++
					}
					if lines := set.Position(decl.End()).Line - set.Position(decl.Pos()).Line + 1; lines > mostLines {
						t.Errorf("%s: %s has %d lines, more than %d", path, decl.Name.Name, lines, mostLines)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var promoted func(string) int
		promoted = func(name string) int {
			n := fields[name]
			for _, of := range embedded[name] {
				if fields[of] > 0 {
					n += promoted(of) - 1
				}
			}
			return n
		}
		for name, n := range methods {
			if all := promoted(name); all > mostPromoted {
				t.Errorf("%s has %d fields with those of embedded structs, more than %d", name, all, mostPromoted)
			}
			if n > mostMethods {
				t.Errorf("%s has %d methods, more than %d", name, n, mostMethods)
			}
			if fields[name] > mostFields {
				t.Errorf("%s has %d fields, more than %d", name, fields[name], mostFields)
			}
		}
		if len(methods) < 5 {
			t.Errorf("%s: only %d types with methods were found", root, len(methods))
		}
	}
}

// fieldsOf counts the fields of a struct; each embedded one is one. It returns the names of those that are of the
// same package.
func fieldsOf(s *ast.TypeSpec) (n int, embedded []string) {
	st, ok := s.Type.(*ast.StructType)
	if !ok {
		return 0, nil
	}
	for _, f := range st.Fields.List {
		n += max(1, len(f.Names))
		of := f.Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		if id, ok := of.(*ast.Ident); ok && len(f.Names) == 0 {
			embedded = append(embedded, id.Name)
		}
	}
	return n, embedded
}

// receiver is the type whose pointer has a method, which holds state; "" for others, and for options.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	star, ok := f.Recv.List[0].Type.(*ast.StarExpr)
	if !ok {
		return ""
	}
	name := star.X
	if of, ok := name.(*ast.IndexExpr); ok {
		name = of.X
	}
	if id, ok := name.(*ast.Ident); ok && id.Name != "Options" {
		return id.Name
	}
	return ""
}

// TestArrowsPointDown: a package imports only packages that come after it in the table of docs/architecture.md.
func TestArrowsPointDown(t *testing.T) {
	page, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Packages")
	rank, parent := map[string]int{}, ""
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]*)\|`).FindAllStringSubmatch(table, -1) {
		for i, m := range regexp.MustCompile("`([a-z/]+)`").FindAllStringSubmatch(row[1], -1) {
			name := m[1]
			if i == 0 {
				parent = path.Dir(name)
			} else {
				name = path.Join(parent, name) // "`agent/cluster/discovery`, `limiter`"
			}
			rank[name] = len(rank) + 1
		}
	}
	listed := func(p string) string { // a package that is not in the table belongs to the one above it
		for ; rank[p] == 0 && p != "."; p = path.Dir(p) {
		}
		return p
	}
	const module = "github.com/ebb-agent/ebb/"
	checked := 0
	for _, root := range []string{"agent", "bpf", "cmd", "policy", "runtime"} {
		err := filepath.WalkDir("../"+root, func(file string, d iofs.DirEntry, err error) error {
			if err != nil || filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
				return err
			}
			from := strings.TrimPrefix(path.Dir(file), "../")
			if strings.HasSuffix(from, "test") { // fixtures
				return nil
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			if listed(from) == "." && len(parsed.Imports) > 0 {
				t.Errorf("%s is not in the table of docs/architecture.md", from)
			}
			for _, i := range parsed.Imports {
				to, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module)
				if a, b := listed(from), listed(to); ours && a != b && rank[a] > rank[b] && b != "deploy" {
					t.Errorf("%s imports %s, which comes before it in docs/architecture.md", from, to)
				}
				checked++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if checked < 500 {
		t.Errorf("only %d imports were checked", checked)
	}
}
