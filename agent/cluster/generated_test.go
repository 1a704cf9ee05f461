package cluster

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/tools/golden"
)

// descFields reads a Desc, which offers its parts only as text.
var descFields = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: "((?:[^"\\]|\\.)*)", unit: "[^"]*", constLabels: \{.*\}, variableLabels: \{(.*)\}\}$`)

// metricsDoc lists what the registry can export, from its own descriptions.
func metricsDoc(t *testing.T) string {
	t.Helper()
	rows := make(map[string]string)
	out := make(chan *prometheus.Desc)
	go func() { NewMetrics().Registry.Describe(out); close(out) }()
	for d := range out {
		parts := descFields.FindStringSubmatch(d.String())
		if parts == nil {
			t.Fatalf("a description that cannot be read: %s", d)
		}
		if !strings.HasPrefix(parts[1], "ebb_") {
			continue // the Go runtime's and the process's, documented elsewhere
		}
		labels := strings.ReplaceAll(parts[3], ",", ", ")
		rows[parts[1]] = fmt.Sprintf("| `%s` | %s | %s |\n", parts[1], labels, strings.ReplaceAll(parts[2], "|", "\\|"))
	}
	var b strings.Builder
	b.WriteString("# Metrics of ebb-controller\n\nThis page is for people who write queries or alerts for the controller. [monitoring.md](monitoring.md) says how to\nscrape it. The Go runtime's metrics (`go_*`) and the process's (`process_*`) are exported, too. `make generate` writes\nthis page from the registry.\n\n| name | labels | meaning |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		b.WriteString(rows[name])
	}
	return b.String()
}

func TestGeneratedDocuments(t *testing.T) {
	golden.Check(t, "../../docs/controller-metrics.md", metricsDoc(t))
}
