package prometheus

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	client "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/ebb-agent/ebb/agent/cluster"
	"github.com/ebb-agent/ebb/agent/node"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/tools/prometheus"
)

// registries are those of both programs, as they are at the start.
func registries() map[string]*client.Registry {
	return map[string]*client.Registry{"node": node.Registry(config.Default()), "controller": cluster.NewMetrics().Registry}
}

// What a scrape gives follows Prometheus' conventions, as promtool knows them. The
// dashboard's test asks the same of a running agent.
func TestScrapesFollowConventions(t *testing.T) {
	needPrometheus(t)
	for component, registry := range registries() {
		answer := httptest.NewRecorder()
		program.Metrics(registry).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		complaints, err := prometheus.Lint(t.Context(), answer.Body.String())
		if err != nil || len(complaints) > 0 {
			t.Errorf("%s: %v, %q", component, err, complaints)
		}
	}
}

var (
	// internal words mean nothing to whoever reads a metric.
	internal = regexp.MustCompile(`_(look|looks|mended|spared|told|unsettled|counts|heard|given_up|holders)(_|$)`)
	// percents and multiples of a unit are not base units.
	derived = regexp.MustCompile(`_(percent|percentage|milliseconds|ms|minutes|hours|kib|mib|kilobytes)(_|$)`)
)

// promtool does not know that histograms here are of durations, which component a metric
// belongs to, or our own words.
func TestNamesFollowConventions(t *testing.T) {
	for component, registry := range registries() {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			name := f.GetName()
			if !strings.HasPrefix(name, "ebb_") || name == "ebb_build_info" {
				continue
			}
			if complaint := complainOf(name, component, f.GetType()); complaint != "" {
				t.Errorf("%s: %s", name, complaint)
			}
		}
	}
}

func complainOf(name, component string, kind dto.MetricType) string {
	switch {
	case !strings.HasPrefix(name, "ebb_"+component+"_"):
		return "metrics of this program begin with ebb_" + component + "_"
	case derived.MatchString(name):
		return "units are base units, and shares are ratios"
	case internal.MatchString(name):
		return "the name has a word of ours"
	case (kind == dto.MetricType_COUNTER) != strings.HasSuffix(name, "_total"):
		return "counters, and only these, end with _total"
	case (kind == dto.MetricType_HISTOGRAM) != strings.HasSuffix(name, "_duration_seconds"):
		return "histograms are of durations, and durations are histograms"
	}
	return ""
}

// Without this, the test of names could never fail.
func TestComplaintsAreFound(t *testing.T) {
	for name, kind := range map[string]dto.MetricType{
		"ebb_queue_length": dto.MetricType_GAUGE, "ebb_node_used_percent": dto.MetricType_GAUGE, "ebb_node_images_spared_total": dto.MetricType_COUNTER,
		"ebb_node_removed": dto.MetricType_COUNTER, "ebb_node_images_total": dto.MetricType_GAUGE, "ebb_node_request_seconds": dto.MetricType_HISTOGRAM,
	} {
		if complainOf(name, "node", kind) == "" {
			t.Errorf("%s: no complaint", name)
		}
	}
}
