package prometheus

import (
	"os"
	"regexp"
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

// ruleFiles are pages, and tickets.
var ruleFiles = []string{"rules.yaml", "optional.yaml"}

func readRules(t *testing.T, files ...string) (rules []rule) {
	t.Helper()
	for _, name := range files {
		var file struct {
			Groups []struct {
				Name  string `json:"name"`
				Rules []rule `json:"rules"`
			} `json:"groups"`
		}
		read(t, name, &file)
		for _, g := range file.Groups {
			rules = append(rules, g.Rules...)
		}
	}
	if len(rules) < 10 {
		t.Fatalf("only %d rules are read", len(rules))
	}
	return rules
}

// alertsOf are the names of the alerts of a file.
func alertsOf(t *testing.T, files ...string) (names []string) {
	t.Helper()
	for _, r := range readRules(t, files...) {
		if r.Alert != "" {
			names = append(names, r.Alert)
		}
	}
	return names
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
	for _, args := range [][]string{{"check", "rules", "rules.yaml", "optional.yaml"}, {"test", "rules", "rules_test.yaml", "optional_test.yaml"}} {
		if _, err := prometheus.Promtool(t.Context(), ".", args...); err != nil {
			t.Error(err)
		}
	}
}

// series is one that a story gives.
type series struct {
	Series string `json:"series"`
	Values string `json:"values"`
}

// unitTests is as much of a file of unit tests as is judged here.
type unitTests struct {
	RuleFiles []string   `json:"rule_files"`
	Interval  string     `json:"evaluation_interval"`
	Tests     []unitTest `json:"tests"`
}

type unitTest struct {
	Name     string   `json:"name"`
	Interval string   `json:"interval"`
	Input    []series `json:"input_series"`
	Alerts   []struct {
		At       string `json:"eval_time"`
		Name     string `json:"alertname"`
		Expected []struct {
			Labels      map[string]string `json:"exp_labels"`
			Annotations map[string]string `json:"exp_annotations,omitempty"`
		} `json:"exp_alerts"`
	} `json:"alert_rule_test"`
}

// Promtool would be content with tests that expect nothing, or of alerts that do not
// exist. Within one story each alert has to be quiet, to fire, and to be over.
func TestEveryAlertFiresAndIsOver(t *testing.T) {
	for file, unitTests := range map[string]string{"rules.yaml": "rules_test.yaml", "optional.yaml": "optional_test.yaml"} {
		provesAll(t, alertsOf(t, file), unitTests)
	}
}

func provesAll(t *testing.T, alerts []string, file string) {
	t.Helper()
	var tests unitTests
	read(t, file, &tests)
	proven := map[string]bool{}
	for _, test := range tests.Tests {
		var seen string // of the alert, in the order of time: quiet, Firing
		var last time.Duration
		for i, a := range test.Alerts {
			if !slices.Contains(alerts, a.Name) {
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
	for _, name := range alerts {
		if !proven[name] {
			t.Errorf("%s: no story in %s in which it is quiet, fires and is over", name, file)
		}
	}
}

// TestFourteenPages: fourteen alerts page, and all others can wait. A person who loads rules.yaml is woken for nothing
// else.
func TestFourteenPages(t *testing.T) {
	pages := alertsOf(t, "rules.yaml")
	if len(pages) != 14 {
		t.Errorf("%d alerts page: %q", len(pages), pages)
	}
	for file, severity := range map[string]string{"rules.yaml": "critical", "optional.yaml": "warning"} {
		for _, r := range readRules(t, file) {
			if r.Alert != "" && r.Labels["severity"] != severity {
				t.Errorf("%s: severity %s in %s, which has %s", r.Alert, r.Labels["severity"], file, severity)
			}
			if r.Record != "" && file != "rules.yaml" {
				t.Errorf("%s: recorded series are in rules.yaml, which everybody loads", r.Record)
			}
		}
	}
}

// action matches the beginning of an instruction.
var action = regexp.MustCompile(`(^|[.:?,)] )(Look|Run|Find out|Set|Check|Give|Ask|Report)\b`)

func TestAlertsHaveHelp(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range readRules(t, ruleFiles...) {
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
		case len(a) != 3 || a["summary"] == "" || len(a["description"]) < 60:
			t.Errorf("%s: wants summary, description and runbook_url", r.Alert)
		case !action.MatchString(a["description"]):
			t.Errorf("%s: the description does not say what to do", r.Alert)
		case len(a["summary"]) > 110 || strings.HasSuffix(a["summary"], "."):
			t.Errorf("%s: a summary is one short line", r.Alert)
		}
		seen[r.Alert] = true
	}
}

// grouping is the list of labels by which an expression groups or matches series.
var grouping = regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)

// TestRulesKeepClustersApart: an expression names cluster wherever it groups or matches, and also
// whatever drops it otherwise.
func TestRulesKeepClustersApart(t *testing.T) {
	for _, r := range readRules(t, ruleFiles...) {
		for _, m := range grouping.FindAllStringSubmatch(r.Expr, -1) {
			if !strings.HasPrefix(m[1], "cluster, ") {
				t.Errorf("%s%s: %s does not begin with cluster", r.Alert, r.Record, m[0])
			}
		}
		if whole := regexp.MustCompile(`\b(sum|count|max|min|avg) ?\(`); whole.MatchString(r.Expr) {
			t.Errorf("%s%s: %s adds up all clusters", r.Alert, r.Record, whole.FindString(r.Expr))
		}
	}
}

// targetLabels are those of every series, by prometheus.yml; cluster is missing where there is
// only one.
var targetLabels = []string{"job", "instance", "node", "pod", "cluster"}

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
	exported, err := prometheus.Gather(node.Registry(config.Default()), node.Registry(other), cluster.NewMetrics().Registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range readRules(t, ruleFiles...) {
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
