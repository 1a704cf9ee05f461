package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/ebb-agent/ebb/tools/node"
)

// evil is what a name must not be able to do: end a label, a line or a string, begin a
// series of its own, move a cursor.
const evil = "a\"} 1\nebb_node_ready 7\n# HELP x \\ \x1b[31m{\u2028\u202e\u00a0"

const evilContainers = 12

// TestHostileNames: who may talk to the runtime may call things as he likes. Names reach
// metrics, pages and the log as text, and are no more series than the configuration allows.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.Debian, plain("app", layerBytes), plain("victim", layerBytes))
	b.config.Writers.Top = 3
	in := namespaces.WithNamespace(b.ctx, node.CRINamespace)
	store := b.node.Client().ImageService()
	victim, err := store.Get(in, ref("victim"))
	b.must(err)
	for n := range 20 {
		_, err := store.Create(in, images.Image{Name: fmt.Sprint(evil, n), Target: victim.Target, Labels: map[string]string{"x": evil}})
		b.must(err)
	}
	b.start()
	before := b.scrape()
	for n := range evilContainers {
		_, err := b.node.Run(b.ctx, node.RunSpec{ID: fmt.Sprint("evil", n), Image: ref("app"), Args: []string{"/bin/sh", "-c", "dd if=/dev/zero of=/file bs=64k count=4 && sync && sleep 1h"},
			Labels: map[string]string{"io.kubernetes.pod.name": fmt.Sprint(n, evil), "io.kubernetes.pod.namespace": evil, "io.kubernetes.container.name": evil, "io.kubernetes.pod.uid": evil}})
		b.must(err)
	}
	var families map[string]*dto.MetricFamily
	b.eventually("growth of containers", func() error {
		families = b.scrape()
		if n := len(families["ebb_node_container_growth_bytes"].GetMetric()); n != 3 {
			return fmt.Errorf("%d series", n)
		}
		return nil
	})
	b.checkSeries(before, families)
	for _, page := range []string{"/images", "/containers", "/writers", "/heat"} {
		body, err := b.agent.Get(b.ctx, page)
		b.must(err)
		if !json.Valid([]byte(body)) || strings.ContainsAny(body, "\x1b\u2028") {
			t.Errorf("%s: %.2000q", page, body)
		}
	}
	mark := b.journal.mark()
	b.cross()
	b.journal.await(t, mark, "image removed")
	b.checkLogLines()
}

// scrape reads /metrics with Prometheus' own parser.
func (b *fixture) scrape() map[string]*dto.MetricFamily {
	b.Helper()
	body, err := b.agent.Get(b.ctx, "/metrics")
	b.must(err)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		b.Fatalf("Prometheus cannot read /metrics: %v\n%.4000s", err, body)
	}
	return families
}

// checkSeries: names are in labels of containers alone, and are printable there.
func (b *fixture) checkSeries(before, after map[string]*dto.MetricFamily) {
	b.Helper()
	if r := after["ebb_node_ready"].GetMetric(); len(r) != 1 || r[0].GetGauge().GetValue() != 1 {
		b.Errorf("ebb_node_ready is %v", r)
	}
	for name, f := range after {
		own := strings.HasPrefix(name, "ebb_node_container_")
		// Some come with time, for each filesystem; one for each container is what must not be.
		if had := len(before[name].GetMetric()); !own && strings.HasPrefix(name, "ebb_") && len(f.GetMetric()) >= had+evilContainers {
			b.Errorf("%s has %d series, %d before", name, len(f.GetMetric()), had)
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if strings.IndexFunc(l.GetValue(), func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 || len(l.GetValue()) > 253 {
					b.Errorf("%s: label %s is %q", name, l.GetName(), l.GetValue())
				}
				if !own && strings.Contains(l.GetValue(), "HELP") {
					b.Errorf("%s: label %s is %q", name, l.GetName(), l.GetValue())
				}
			}
		}
	}
}

// checkLogLines: each line is one record, whatever it reports.
func (b *fixture) checkLogLines() {
	b.Helper()
	log, err := os.ReadFile(filepath.Join(b.node.Dir(), "agent.log"))
	b.must(err)
	named := false
	for line := range strings.Lines(string(log)) {
		if !json.Valid([]byte(line)) || strings.ContainsAny(line, "\x1b\u2028") {
			b.Errorf("line of the log: %.1000q", line)
		}
		named = named || strings.Contains(line, "HELP")
	}
	if !named {
		b.Error("the log does not have the names of what was removed: nothing was tested")
	}
}
