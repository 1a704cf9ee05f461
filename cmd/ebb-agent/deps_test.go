package main

import (
	"os/exec"
	"strings"
	"testing"
)

// banned are packages that the agent must not link, each with the reason. The
// agent runs on every node: what it links, every node pays for.
var banned = map[string]string{
	"k8s.io/client-go":                        "typed clients and schemes cost tens of MiB of memory on every node",
	"k8s.io/apimachinery":                     "as client-go: its scheme registers every type at start",
	"k8s.io/api":                              "as client-go",
	"github.com/google/go-containerregistry":  "builds images: for tests and tools only",
	"github.com/ebb-agent/ebb/tools":          "development tools",
	"github.com/ebb-agent/ebb/bench":          "development tools",
	"github.com/ebb-agent/ebb/runtime/fake":   "a fake must not be reachable from the real thing",
	"github.com/ebb-agent/ebb/agent/node/e2e": "tests",
	"testing":        "registers flags and keeps test code alive in the binary",
	"net/http/pprof": "would open profiling on the metrics address by merely being linked",
}

func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}}", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	deps := strings.Fields(string(out))
	if len(deps) < 100 {
		t.Fatalf("go list names only %d packages", len(deps))
	}
	for _, dep := range deps {
		for path, why := range banned {
			if dep == path || strings.HasPrefix(dep, path+"/") {
				t.Errorf("ebb-agent links %s: %s", dep, why)
			}
		}
	}
}
