package cluster

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestShape: a new concern is a type or a package of its own, not one more field.
func TestShape(t *testing.T) {
	const most = 15
	if n := reflect.TypeFor[Controller]().NumField(); n > most {
		t.Errorf("Controller has %d fields, more than %d", n, most)
	}
}

// TestArrows: a package of the controller imports those before it in this list, and none after it.
func TestArrows(t *testing.T) {
	order := []string{"breaker", "config", "limiter", "discovery", "election", "events", "drivers", "gate", "journal"}
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		if strings.HasSuffix(file, "_test.go") || dir == "apitest" || dir == "e2e" {
			continue
		}
		from := slices.Index(order, dir)
		if from < 0 {
			t.Errorf("%s: the order does not have its package", file)
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range parsed.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			to, ours := strings.CutPrefix(path, "github.com/ebb-agent/ebb/agent/cluster")
			if at := slices.Index(order, strings.TrimPrefix(to, "/")); ours && (at < 0 || at >= from) {
				t.Errorf("%s imports %s, which is above it", file, path)
			}
		}
	}
}
