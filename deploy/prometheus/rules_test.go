package prometheus

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/ebb-agent/ebb/agent/cluster"
	"github.com/ebb-agent/ebb/agent/node"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/tools/prometheus"
)

// rule is an alert, or a recorded series.
type rule struct {
	Alert       string            `json:"alert,omitempty"`
	Record      string            `json:"record,omitempty"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func readRules(t *testing.T) (rules []rule) {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []rule `json:"rules"`
		} `json:"groups"`
	}
	read(t, "rules.yaml", &file)
	for _, g := range file.Groups {
		rules = append(rules, g.Rules...)
	}
	if len(rules) < 10 {
		t.Fatalf("only %d rules are read", len(rules))
	}
	return rules
}

func read(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err == nil {
		err = yaml.UnmarshalStrict(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func needPrometheus(t *testing.T) {
	t.Helper()
	if why := prometheus.Missing(); why != "" {
		t.Skip("SKIPPED: " + why)
	}
}

func TestPromtool(t *testing.T) {
	needPrometheus(t)
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "rules_test.yaml"}} {
		if _, err := prometheus.Promtool(t.Context(), ".", args...); err != nil {
			t.Error(err)
		}
	}
}

// unitTests is as much of rules_test.yaml as is judged here.
type unitTests struct {
	RuleFiles []string `json:"rule_files"`
	Interval  string   `json:"evaluation_interval"`
	Tests     []struct {
		Name     string `json:"name"`
		Interval string `json:"interval"`
		Input    []any  `json:"input_series"`
		Alerts   []struct {
			At       string `json:"eval_time"`
			Name     string `json:"alertname"`
			Expected []any  `json:"exp_alerts"`
		} `json:"alert_rule_test"`
	} `json:"tests"`
}

// Promtool would be content with tests that expect nothing, or of alerts that do not
// exist. Within one story each alert has to be quiet, to fire, and to be over.
func TestEveryAlertFiresAndIsOver(t *testing.T) {
	var tests unitTests
	read(t, "rules_test.yaml", &tests)
	proven, alerts := map[string]bool{}, map[string]bool{}
	for _, r := range readRules(t) {
		if r.Alert != "" {
			alerts[r.Alert] = true
		}
	}
	for _, test := range tests.Tests {
		var seen string // of the alert, in the order of time: quiet, Firing
		var last time.Duration
		for i, a := range test.Alerts {
			if !alerts[a.Name] {
				t.Errorf("%s: there is no alert %s", test.Name, a.Name)
			}
			at, err := time.ParseDuration(a.At)
			if err != nil || i > 0 && (at <= last || a.Name != test.Alerts[0].Name) {
				t.Errorf("%s: %s at %s: one alert a story, in the order of time", test.Name, a.Name, a.At)
			}
			last = at
			if len(a.Expected) == 0 {
				seen += "q"
			} else {
				seen += "F"
			}
		}
		if strings.Contains(seen, "qFq") {
			proven[test.Alerts[0].Name] = true
		}
	}
	for name := range alerts {
		if !proven[name] {
			t.Errorf("%s: no story in rules_test.yaml in which it is quiet, fires and is over", name)
		}
	}
}

func TestAlertsTellPeople(t *testing.T) {
	severities := []string{"info", "warning", "critical"}
	seen := map[string]bool{}
	for _, r := range readRules(t) {
		if r.Record != "" {
			if !strings.HasPrefix(r.Record, "ebb:") || strings.Count(r.Record, ":") != 2 {
				t.Errorf("%s: recorded series are named ebb:what:how", r.Record)
			}
			continue
		}
		switch a := r.Annotations; {
		case seen[r.Alert]:
			t.Errorf("%s: twice", r.Alert)
		case !strings.HasPrefix(r.Alert, "Ebb"):
			t.Errorf("%s: names begin with Ebb", r.Alert)
		case !slices.Contains(severities, r.Labels["severity"]):
			t.Errorf("%s: severity is none of %v", r.Alert, severities)
		case len(a) != 3 || a["summary"] == "" || len(a["description"]) < 60:
			t.Errorf("%s: wants summary, description and runbook_url", r.Alert)
		case len(a["summary"]) > 110 || strings.HasSuffix(a["summary"], "."):
			t.Errorf("%s: a summary is one short line", r.Alert)
		}
		seen[r.Alert] = true
	}
}

// targetLabels are those of every series, by prometheus.yml.
var targetLabels = []string{"job", "instance", "node", "pod"}

func TestRulesNameKnownMetrics(t *testing.T) {
	known := map[string][]string{}
	for _, page := range []string{"metrics.md", "controller-metrics.md"} {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		for name, labels := range prometheus.Documented(string(text)) {
			known[name] = append(labels, targetLabels...)
		}
	}
	other := config.Default()
	other.Mode, other.Kernel.Enabled = config.ModeEnforce, false
	exported, err := prometheus.Gather(node.NewMetrics(config.Default()).Registry, node.NewMetrics(other).Registry, cluster.NewMetrics().Registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range readRules(t) {
		uses, groups := prometheus.Uses(r.Expr, "ebb_", "ebb:")
		var all []string // labels of what the expression is made of
		for _, use := range uses {
			labels, ok := known[use.Name]
			if !ok {
				t.Errorf("%s%s: there is no metric %s", r.Alert, r.Record, use.Name)
			}
			for _, m := range use.Matchers {
				if !slices.Contains(labels, m.Label) {
					t.Errorf("%s%s: %s has no label %s", r.Alert, r.Record, use.Name, m.Label)
				}
			}
			for _, s := range exported.Strange(use) {
				t.Errorf("%s%s: %s", r.Alert, r.Record, s)
			}
			all = append(all, labels...)
		}
		for _, l := range groups {
			if !slices.Contains(all, l) {
				t.Errorf("%s%s: nothing in it has the label %s", r.Alert, r.Record, l)
			}
		}
		if r.Record != "" { // for those that come later
			known[r.Record] = all
		}
	}
}
