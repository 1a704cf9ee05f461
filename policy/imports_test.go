package policy_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "github.com/ebb-agent/ebb/"
	self   = module + "policy/"
)

// banned standard packages and everything below them. Third-party packages are
// banned altogether, see importProblem.
var banned = map[string]string{
	"os":            "a decision reads no files and no environment: what it needs is in the snapshot",
	"io":            "a decision reads and writes nothing",
	"net":           "a decision asks nobody",
	"syscall":       "a decision asks the kernel nothing",
	"context":       "a decision cannot block, so there is nothing to cancel",
	"log":           "a plan carries its reasons; who executes it logs them",
	"math/rand":     "the same snapshot gives the same plan",
	"crypto/rand":   "the same snapshot gives the same plan",
	"sync":          "a decision shares no state",
	"runtime":       "a decision does not depend on the machine it is made on",
	"unsafe":        "a decision has no need of it",
	"C":             "a decision is plain Go",
	"database":      "state belongs to the caller",
	"encoding/gob":  "state belongs to the caller",
	"encoding/json": "adapters decide how a plan is encoded",
}

// bannedTime are the parts of package time that are not values.
var bannedTime = map[string]string{
	"Now":       "the time is an argument",
	"Since":     "it reads the clock; use now.Sub",
	"Until":     "it reads the clock; use Sub",
	"Sleep":     "a decision does not wait",
	"After":     "a decision does not wait: it returns the next deadline",
	"AfterFunc": "a decision does not wait: it returns the next deadline",
	"Tick":      "a decision does not wait: it returns the next deadline",
	"NewTimer":  "a decision does not wait: it returns the next deadline",
	"NewTicker": "a decision does not wait: it returns the next deadline",
	"Local":     "a decision does not depend on the machine's time zone",
}

// impurities lists what a source file must not do.
func impurities(file string, source any) ([]string, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []string
	report := func(pos token.Pos, format string, args ...any) {
		found = append(found, fmt.Sprintf("%s: %s", fset.Position(pos), fmt.Sprintf(format, args...)))
	}
	timeName := ""
	for _, spec := range f.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		if problem := importProblem(path); problem != "" {
			report(spec.Pos(), "imports %s: %s", path, problem)
		}
		if path == "time" {
			timeName = "time"
			if spec.Name != nil {
				timeName = spec.Name.Name
			}
		}
	}
	if timeName == "." {
		report(f.Pos(), "imports time into its own scope: then nobody sees what it uses")
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == timeName {
				if reason, bad := bannedTime[n.Sel.Name]; bad {
					report(n.Pos(), "uses time.%s: %s", n.Sel.Name, reason)
				}
			}
		case *ast.GoStmt:
			report(n.Pos(), "starts a goroutine: a decision is one sequence of steps")
		}
		return true
	})
	return found, nil
}

func importProblem(path string) string {
	if strings.HasPrefix(path, self) && strings.HasSuffix(path, "test") {
		return "it serves tests alone"
	}
	if strings.HasPrefix(path, self) {
		return ""
	}
	if strings.HasPrefix(path, module) {
		return "policy knows only policy; adapters know both sides"
	}
	first, _, _ := strings.Cut(path, "/")
	if strings.Contains(first, ".") {
		return "no third-party code (client-go, containerd, ebpf, ...): a decision is about values of our own"
	}
	for name, reason := range banned {
		if path == name || strings.HasPrefix(path, name+"/") {
			return reason
		}
	}
	return ""
}

func TestPolicyIsPure(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		// What serves tests alone may use their libraries: no decision imports it, see importProblem.
		if entry.IsDir() && strings.HasSuffix(entry.Name(), "test") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files++
		found, err := impurities(path, nil)
		for _, problem := range found {
			t.Error(problem)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 2 {
		t.Fatalf("saw %d source files: looked in the wrong folder", files)
	}
}

// The check itself is checked: it must see each kind of thing it bans.
func TestImpuritiesAreSeen(t *testing.T) {
	for _, test := range []struct {
		source string
		want   string // "" for a pure file
	}{
		{`import "time"; var d time.Duration; var t = time.Unix(0, 0)`, ""},
		{`import "github.com/ebb-agent/ebb/policy/image"`, ""},
		{`import "math/bits"`, ""},
		{`import "github.com/ebb-agent/ebb/policy/gc/gctest"`, "serves tests alone"},
		{`import "os"`, "imports os:"},
		{`import "os/exec"`, "imports os/exec:"},
		{`import "log/slog"`, "imports log/slog:"},
		{`import "net/netip"`, "imports net/netip:"},
		{`import "context"`, "imports context:"},
		{`import "k8s.io/client-go/rest"`, "no third-party code"},
		{`import _ "github.com/cilium/ebpf"`, "no third-party code"},
		{`import "github.com/ebb-agent/ebb/runtime/inventory"`, "policy knows only policy"},
		{`import "time"; var t = time.Now()`, "uses time.Now"},
		{`import clock "time"; var f = clock.Since`, "uses time.Since"},
		{`import . "time"`, "into its own scope"},
		{`func f() { go f() }`, "starts a goroutine"},
	} {
		found, err := impurities("file.go", "package p; "+test.source)
		if err != nil {
			t.Fatalf("%s: %v", test.source, err)
		}
		if test.want == "" && len(found) > 0 {
			t.Errorf("%s: reported %q", test.source, found)
		}
		if test.want != "" && !slices.ContainsFunc(found, func(s string) bool { return strings.Contains(s, test.want) }) {
			t.Errorf("%s: reported %q, want %q", test.source, found, test.want)
		}
	}
}
