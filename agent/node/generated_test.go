package node

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/tools/golden"
)

// descFields reads a Desc, which offers its parts only as text.
var descFields = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: "((?:[^"\\]|\\.)*)", unit: "[^"]*", constLabels: \{.*\}, variableLabels: \{(.*)\}\}$`)

// metricsDoc lists what the registry can export, from its own descriptions.
func metricsDoc(t *testing.T) string {
	t.Helper()
	rows := make(map[string]string)
	r := Registry(config.Default())
	out := make(chan *prometheus.Desc)
	go func() { r.Describe(out); close(out) }()
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
	b.WriteString("# Metrics of ebb-agent\n\nThis page is for people who write queries or alerts for the agent. [monitoring.md](monitoring.md) says how to scrape it.\nThe Go runtime's metrics (`go_*`) and the process's (`process_*`) are exported, too. `make generate` writes this page\nfrom the registry.\n\n| name | labels | meaning |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		b.WriteString(rows[name])
	}
	return b.String()
}

func configDoc(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	if err := config.Print(&b, config.Default()); err != nil {
		t.Fatal(err)
	}
	return "# Configuration of ebb-agent\n\nThis page is for operators who configure the agent. [operate.md](operate.md#tune) has what is changed most often. The\nagent refuses unknown fields. `ebb-agent config default` prints the same. `make generate` writes this page.\n\n```yaml\n" +
		b.String() + "```\n"
}

func TestGeneratedDocuments(t *testing.T) {
	for path, want := range map[string]string{"../../docs/metrics.md": metricsDoc(t), "../../docs/config.md": configDoc(t)} {
		golden.Check(t, path, want)
	}
}
