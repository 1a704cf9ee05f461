// Package agent has no code of its own.
package agent

import (
	"go/ast"
	"go/parser"
	"go/token"
	iofs "io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestShape: a new concern is a type or a package of its own, not one more field, method or branch. It is not in
// agent/node, whose tests run on other kernels, too, without these files.
func TestShape(t *testing.T) {
	const mostFields, mostMethods, mostLines = 15, 30, 60
	for _, root := range []string{"node", "../bpf"} {
		fields, methods := map[string]int{}, map[string]int{}
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
							fields[dir+s.Name.Name] = fieldsOf(s)
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
		for name, n := range methods {
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

// fieldsOf counts the fields of a struct, with those that are embedded.
func fieldsOf(s *ast.TypeSpec) (n int) {
	st, ok := s.Type.(*ast.StructType)
	if !ok {
		return 0
	}
	for _, f := range st.Fields.List {
		n += max(1, len(f.Names))
	}
	return n
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
