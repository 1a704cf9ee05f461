package grafana

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/ebb-agent/ebb/tools/prometheus"
)

const (
	nodes     = 200
	downNodes = 40 // nodes beside these, whose agents do not answer
	maxSeries = 30 // that a person can tell apart in a panel
)

// labelSets has every set of labels that some metrics have on one node. Other metrics have a
// series for each combination of values that labelChoices has.
var labelSets = map[string][]string{
	"ebb_node_container_grown_bytes_total":  containers(),
	"ebb_node_container_growth_bytes":       containers(),
	"ebb_node_container_shrunk_bytes_total": containers(),
	"ebb_node_filesystem_info":              {`filesystem="images",directory="images",device="8:1",type="ext4"`},
}

func containers() (sets []string) {
	for i := range 10 {
		sets = append(sets, fmt.Sprintf(`namespace="shop",pod="web-%d",container="main"`, i))
	}
	return sets
}

// labelChoices are values of labels as agents have them, or as many made up ones.
var labelChoices = map[string][]string{
	"age":        {"in_use", "1h", "6h", "1d", "7d", "30d", "older"},
	"by":         {"ebb", "others"},
	"counters":   {"events", "writers", "heat"},
	"event":      {"exec", "exit", "stamped", "unresolved", "lastuse_missed", "ring_buffer_full", "writers_full"},
	"filesystem": {"images", "kubelet", "logs"},
	"holder":     {"in_use", "wanted", "pinned", "sandbox", "keep_rule", "minimum_age", "leases", "not_images"},
	"kind":       {"container", "sandbox", "log_directory", "log_link"},
	"object":     {"lastuse", "usage_ext4", "usage_xfs", "usage_btrfs", "writers", "writers_ext4", "writers_xfs", "writers_btrfs", "heat"},
	"reason":     {"threshold", "maximum_age", "asked"},
	"resource":   {"bytes", "inodes"},
	"result": {"low_reached", "age_done", "age_capped", "hold", "capped", "shortfall", "incomplete", "observed", "paused", "done", "short",
		"sent", "failed", "dropped"},
	"state": {"blocked", "in_use", "wanted", "pinned", "sandbox", "keep_rule", "use_unknown", "pods_unknown", "minimum_age", "removal_failed", "not_needed",
		"frees_nothing", "futile", "hold", "threshold", "maximum_age", "asked"},
	"threshold": {"high", "low"},
	"tier":      {"fentry"},
	"le":        {"0.05", "0.1", "0.5", "1", "+Inf"},
}

// controllerChoices are values of labels that only the controller has, or that mean something else
// there.
var controllerChoices = map[string][]string{
	"collector": {"owners", "pods", "jobs", "csrs", "nodes", "leases", "volumes"},
	"driver":    {"csi.example"},
	"finalizer": {"foregroundDeletion", "orphan"},
	"state":     {"listing", "unreadable", "synced"},
	"type":      {"pods", "jobs.batch"},
	"verb":      {"delete", "unblock", "remove-finalizer"},
}

// sets lists the label sets of a metric of one program.
func sets(t *testing.T, metric string, labels []string) []string {
	if have, ok := labelSets[metric]; ok {
		return have
	}
	all := []string{""}
	for _, label := range labels {
		values, ok := controllerChoices[label]
		if !ok || strings.HasPrefix(metric, "ebb_node_") {
			values, ok = labelChoices[label]
		}
		if !ok {
			t.Fatalf("%s: no values for the label %s", metric, label)
		}
		var more []string
		for _, set := range all {
			for _, v := range values {
				more = append(more, strings.Trim(fmt.Sprintf("%s,%s=%q", set, label, v), ","))
			}
		}
		all = more
	}
	return all
}

// exposition is what an agent or a controller exports, but for the values of counters: all metrics
// that a page of docs lists. Each disk is over its threshold and will soon be full, and each program
// lacks all that it can lack, so no filter of a query leaves anything out.
func exposition(t *testing.T, page string) (counters, gauges []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	for metric, labels := range prometheus.Documented(string(text)) {
		if metric == "ebb_node_config_info" {
			continue // one for each node, by its mode
		}
		for _, set := range sets(t, metric, labels) {
			series := metric + "{" + set + "} "
			if strings.HasSuffix(metric, "_total") || strings.HasSuffix(metric, "_bucket") {
				counters = append(counters, series)
			} else {
				gauges = append(gauges, series+gauge(metric))
			}
		}
	}
	counters = append(counters, "process_cpu_seconds_total ")
	return counters, append(gauges, "process_resident_memory_bytes 3e7")
}

// gauge is the figure of a gauge of every node.
func gauge(metric string) string {
	switch metric {
	case "ebb_node_ready", "ebb_node_runtime_events_up", "ebb_node_state_writable", "ebb_node_pods_source_up":
		return "0"
	case "ebb_node_paused", "ebb_node_probe_degraded", "ebb_node_filesystem_polled":
		return "1"
	case "ebb_node_filesystem_threshold_ratio":
		return "0.8"
	case "ebb_node_filesystem_used_ratio":
		return "0.85"
	case "ebb_node_filesystem_capacity_bytes":
		return "1e12"
	}
	return "100"
}

// startFleet runs a Prometheus with 200 nodes, half of which observe, and forty that do not
// answer. Beside them are a controller, and one that does not answer. Each program is a path of one
// server. Forty alerts fire, each for all that are down.
func startFleet(ctx context.Context, t *testing.T) *prometheus.Server {
	counters, gauges := exposition(t, "metrics.md")
	constant := strings.Join(gauges, "\n") + "\n"
	controllerCounters, controllerGauges := exposition(t, "controller-metrics.md")
	var scrapes atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		growing := fmt.Sprintf("%d\n", scrapes.Add(1)) // of every program
		if r.URL.Path == "/controller" {
			fmt.Fprintf(w, "%s\n%s", strings.Join(controllerGauges, "\n"), strings.Join(controllerCounters, growing)+growing)
			return
		}
		number, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		if err != nil || number >= nodes {
			http.NotFound(w, r)
			return
		}
		mode := [...]string{"observe", "enforce"}[number%2]
		fmt.Fprintf(w, "%sebb_node_config_info{mode=%q,pods=\"apiserver\",kernel=\"true\"} 1\n", constant, mode)
		for _, series := range counters {
			fmt.Fprint(w, series, growing)
		}
	}))
	t.Cleanup(server.Close)

	var config strings.Builder
	config.WriteString("global: {scrape_interval: 3s, evaluation_interval: 1s}\nrule_files: [rules.yaml]\nscrape_configs:\n  - job_name: ebb-agent\n    static_configs:\n")
	for i := range nodes + downNodes {
		fmt.Fprintf(&config, "      - {targets: [%q], labels: {__metrics_path__: /%d, instance: worker-%d, node: worker-%d}}\n", strings.TrimPrefix(server.URL, "http://"), i, i, i)
	}
	config.WriteString("  - job_name: ebb-controller\n    static_configs:\n")
	for i, path := range []string{"controller", "down"} {
		fmt.Fprintf(&config, "      - {targets: [%q], labels: {__metrics_path__: /%s, instance: controller-%d, pod: controller-%d}}\n", strings.TrimPrefix(server.URL, "http://"), path, i, i)
	}
	dir := t.TempDir()
	rules := "groups:\n  - name: x\n    rules:\n"
	for i := range 40 {
		rules += fmt.Sprintf("      - {alert: EbbTest%d, expr: up == 0, labels: {severity: warning}}\n", i)
	}
	if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := prometheus.Start(ctx, dir, config.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	// Two scrapes of each node: only then do its counters grow.
	for expr, want := range map[string]int{
		`count_over_time(ebb_node_ready[1m]) > 1`:               nodes,
		`count_over_time(up[1m]) > 1`:                           nodes + downNodes + 2,
		`count by (alertname) (ALERTS{alertstate="firing"})`:    40,
		`ebb_node_filesystem_used_ratio`:                        nodes * 3 * 2,
		`increase(ebb_node_images_repulled_total[1m]) > 0`:      nodes,
		`ebb_node_config_info{mode="observe"}`:                  nodes / 2,
		`rate(process_cpu_seconds_total[1m]) > 0`:               nodes + 1,
		`ebb_node_container_growth_bytes{container="main"} > 0`: nodes * 10,
	} {
		_, err := p.Await(ctx, expr, func(found model.Vector) error {
			if len(found) != want {
				return fmt.Errorf("%d series, not %d", len(found), want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// ranked is a query whose series depend on the moment.
var ranked = regexp.MustCompile(`\b(topk|bottomk)\b`)

// TestEveryQueryHasData: each query of each dashboard has data if programs export all that they can.
// With 200 such nodes, no query of fleet.json has more series than a person can tell apart.
func TestEveryQueryHasData(t *testing.T) {
	if why := prometheus.Missing(); why != "" {
		t.Skip("SKIPPED: " + why)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	p := startFleet(ctx, t)
	checked := 0
	for name, q := range queries(t) {
		found, err := p.Query(ctx, filledIn(q.expr, "1m"))
		if err == nil && empty(found) {
			err = errors.New("no data, so that nothing is checked")
		}
		most := math.MaxInt // the node's dashboard is for a few nodes
		if strings.HasPrefix(name, "fleet: ") && !strings.HasPrefix(name, "fleet: variable ") {
			most = maxSeries
		}
		if err != nil || len(found) > most {
			t.Errorf("%s: %d series of %s, %v", name, len(found), q.expr, err)
		}
		checked++
	}
	if checked < 120 {
		t.Errorf("only %d queries were checked", checked)
	}
	// At other moments the first of a rank are others: over time they are many series.
	for _, panel := range readBoards(t)["fleet"].Panels {
		if slices.ContainsFunc(panel.Targets, func(q target) bool { return !q.Instant && ranked.MatchString(q.Expr) }) {
			t.Errorf("%s: the series of a rank are many over time", panel.Title)
		}
	}
}
