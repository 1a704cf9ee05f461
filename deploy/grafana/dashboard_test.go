package grafana

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/ebb-agent/ebb/agent/cluster"
	"github.com/ebb-agent/ebb/agent/node"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/tools/prometheus"
)

// source of data, as panels and queries name it.
type source struct{ Type, UID string }

// panel is as much of a panel as is judged here.
type panel struct {
	ID          int
	Type        string
	Title       string
	Description string
	Datasource  source
	GridPos     struct{ X, Y, W, H int }
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []target
}

type target struct {
	RefID        string
	Expr         string
	LegendFormat string
	Instant      bool
	Datasource   source
}

type board struct {
	UID           string
	Title         string
	SchemaVersion int
	Panels        []panel
	Templating    struct {
		List []struct {
			Name, Type string
			Definition string
		}
	}
	Annotations struct{ List []struct{ Expr string } }
}

func readBoard(t *testing.T) (b board) {
	t.Helper()
	text, err := os.ReadFile("ebb.json")
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Panels) < 30 {
		t.Fatalf("only %d panels are read", len(b.Panels))
	}
	return b
}

func TestPanelsHavePlacesOfTheirOwn(t *testing.T) {
	taken := map[[2]int]string{}
	bottom := 0
	for _, p := range readBoard(t).Panels {
		at := p.GridPos
		if at.W < 1 || at.H < 1 || at.X < 0 || at.X+at.W > 24 {
			t.Errorf("%s stands at %+v: there are 24 columns", p.Title, at)
		}
		if p.Type == "row" && at.Y < bottom {
			t.Errorf("the row %s begins at %d, what is above ends at %d", p.Title, at.Y, bottom)
		}
		bottom = max(bottom, at.Y+at.H)
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok {
					t.Fatalf("%s lies on %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

func TestPanelsTellPeople(t *testing.T) {
	b := readBoard(t)
	if b.UID == "" || b.Title == "" || b.SchemaVersion < 36 {
		t.Errorf("a dashboard %q, %q, of schema %d", b.UID, b.Title, b.SchemaVersion)
	}
	var variables []string
	for _, v := range b.Templating.List {
		variables = append(variables, v.Name+" "+v.Type)
	}
	if !slices.Equal(variables, []string{"datasource datasource", "cluster query", "node query"}) {
		t.Errorf("variables: %v", variables)
	}
	ids, titles := map[int]bool{}, map[string]bool{}
	for _, p := range b.Panels {
		if ids[p.ID] || p.ID == 0 || titles[p.Title] || p.Title == "" {
			t.Errorf("panel %d, %q: names and numbers are its own", p.ID, p.Title)
		}
		ids[p.ID], titles[p.Title] = true, true
		if p.Type == "row" {
			continue
		}
		if len(p.Description) < 80 || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
			t.Errorf("%s: wants a unit, a query, and a description that teaches", p.Title)
		}
		for i, q := range p.Targets {
			mine := source{"prometheus", "${datasource}"}
			if q.RefID != string(rune('A'+i)) || q.Datasource != mine || p.Datasource != mine {
				t.Errorf("%s: query %d is %+v", p.Title, i, q)
			}
			if (p.Type == "timeseries" || len(p.Targets) > 1 && p.Type != "table") && q.LegendFormat == "" {
				t.Errorf("%s: the series of %s have no name", p.Title, q.Expr)
			}
		}
	}
}

// expressions are all of the dashboard, by what they are for.
func (b board) expressions() map[string]string {
	all := map[string]string{}
	for _, p := range b.Panels {
		for _, q := range p.Targets {
			all[p.Title+" "+q.RefID] = q.Expr
		}
	}
	for i, a := range b.Annotations.List {
		all[fmt.Sprintf("annotation %d", i)] = a.Expr
	}
	return all
}

var variable = regexp.MustCompile(`\$\w+`)

// filledIn is an expression as Grafana sends it, with a window for rates.
func filledIn(expr, window string) string {
	return variable.ReplaceAllStringFunc(expr, func(name string) string {
		switch name {
		case "$cluster", "$node":
			return ".*"
		case "$__rate_interval":
			return window
		}
		return name // which no query survives
	})
}

func TestExpressionsAreValid(t *testing.T) {
	if why := prometheus.Missing(); why != "" {
		t.Skip("SKIPPED: " + why)
	}
	type rule = map[string]string
	var rules []rule
	for name, expr := range readBoard(t).expressions() {
		rules = append(rules, rule{"alert": "x", "expr": filledIn(expr, "5m")})
		if strings.Contains(filledIn(expr, "5m"), "$") {
			t.Errorf("%s: a variable that nobody knows in %s", name, expr)
		}
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := prometheus.Promtool(t.Context(), dir, "check", "rules", "--lint=none", "rules.yaml"); err != nil {
		t.Error(err)
	}
}

// targetLabels are those of every series, by deploy/prometheus/prometheus.yml; cluster is
// missing where there is only one.
var targetLabels = []string{"job", "instance", "node", "pod", "cluster"}

var legend = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)

func TestExpressionsNameKnownMetrics(t *testing.T) {
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
	exported, err := prometheus.Gather(node.Registry(config.Default()), cluster.NewMetrics().Registry)
	if err != nil {
		t.Fatal(err)
	}
	b := readBoard(t)
	legends := map[string]string{}
	for _, p := range b.Panels {
		for _, q := range p.Targets {
			legends[p.Title+" "+q.RefID] = q.LegendFormat
		}
	}
	for what, expr := range b.expressions() {
		uses, groups := prometheus.Uses(expr, "ebb_", "ebb:")
		labels := slices.Clone(targetLabels)
		for _, use := range uses {
			its, ok := known[use.Name]
			if !ok {
				t.Errorf("%s: there is no metric %s", what, use.Name)
			}
			for _, m := range use.Matchers {
				if !slices.Contains(its, m.Label) {
					t.Errorf("%s: %s has no label %s", what, use.Name, m.Label)
				}
			}
			for _, s := range exported.Strange(use) {
				t.Errorf("%s: %s", what, s)
			}
			labels = append(labels, its...)
		}
		for _, m := range legend.FindAllStringSubmatch(legends[what], -1) {
			groups = append(groups, m[1])
		}
		for _, l := range groups {
			if !slices.Contains(labels, l) {
				t.Errorf("%s: nothing in it has the label %s", what, l)
			}
		}
	}
}
