package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Users match these messages and keys, so they are string literals of the programs. Some messages are
// one of several kinds with one ending, for instance " removed".
func TestLogLinesAreThere(t *testing.T) {
	literals := map[string]bool{}
	err := filepath.WalkDir("../agent", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		ast.Inspect(file, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				text, _ := strconv.Unquote(l.Value)
				literals[text] = true
			}
			return true
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	known := func(text string) bool {
		before, after := strings.LastIndex(text, " "), strings.Index(text, " ")
		return literals[text] || before > 0 && (literals[text[before:]] || literals[text[:before+1]]) || after > 0 && literals[text[after:]]
	}
	page, err := os.ReadFile("logs.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| (`.*)").FindAllStringSubmatch(string(page), -1)
	if len(rows) < 15 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			if !known(m[1]) {
				t.Errorf("no program logs %q", m[1])
			}
		}
	}
}
