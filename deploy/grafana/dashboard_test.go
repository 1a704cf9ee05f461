package grafana

import (
	"encoding/json"
	"fmt"
	"maps"
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

// panel has the fields of a panel that are checked here.
type panel struct {
	ID          int
	Type        string
	Title       string
	Description string
	Datasource  source
	GridPos     struct{ X, Y, W, H int }
	FieldConfig struct {
		Defaults struct {
			Unit       string
			Color      struct{ Mode string }
			Thresholds struct{ Steps []struct{ Color string } }
			Links      []link
		}
		Overrides []struct {
			Properties []struct {
				ID    string
				Value json.RawMessage
			}
		}
	}
	Targets []target
}

// target is a query. Grafana asks the panel's data source.
type target struct {
	RefID        string
	Expr         string
	LegendFormat string
	Instant      bool
	Format       string
}

type link struct {
	URL         string
	IncludeVars bool
}

type board struct {
	UID           string
	Title         string
	SchemaVersion int
	Links         []link
	Panels        []panel
	Templating    struct{ List []variable }
	Annotations   struct{ List []struct{ Expr string } }
}

type variable struct {
	Name, Type string
	IncludeAll bool
	Query      json.RawMessage // an object for Type "query", a text for others
}

// variables are those of each dashboard, by its file.
var variables = map[string][]string{
	"fleet":      {"datasource datasource", "cluster query"},
	"node":       {"datasource datasource", "cluster query", "node query"},
	"controller": {"datasource datasource", "cluster query"},
}

// readBoards reads all dashboards, by their files.
func readBoards(t *testing.T) map[string]board {
	t.Helper()
	files, err := filepath.Glob("*.json")
	if err != nil {
		t.Fatal(err)
	}
	boards := map[string]board{}
	for _, file := range files {
		var b board
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &b)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(b.Panels) < 20 {
			t.Fatalf("%s: only %d panels are read", file, len(b.Panels))
		}
		boards[strings.TrimSuffix(file, ".json")] = b
	}
	if got, want := slices.Sorted(maps.Keys(boards)), slices.Sorted(maps.Keys(variables)); !slices.Equal(got, want) {
		t.Fatalf("the files are %q, not %q", got, want)
	}
	return boards
}

func TestPanelsHavePlacesOfTheirOwn(t *testing.T) {
	for name, b := range readBoards(t) {
		t.Run(name, b.checkPlaces)
	}
}

func (b board) checkPlaces(t *testing.T) {
	taken := map[[2]int]string{}
	bottom := 0
	for _, p := range b.Panels {
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

func TestPanelsHaveHelp(t *testing.T) {
	uids := map[string]string{}
	for name, b := range readBoards(t) {
		if other, ok := uids[b.UID]; ok || !uid.MatchString(b.UID) {
			t.Errorf("%s: the UID %q is no word of its own (%s)", name, b.UID, other)
		}
		uids[b.UID] = name
		if b.Title == "" || b.SchemaVersion < 36 {
			t.Errorf("%s: title %q, schema %d", name, b.Title, b.SchemaVersion)
		}
		var have []string
		for _, v := range b.Templating.List {
			have = append(have, v.Name+" "+v.Type)
			if v.IncludeAll != (v.Name == "cluster") {
				t.Errorf("%s: all values of %s can be chosen: %v", name, v.Name, v.IncludeAll)
			}
		}
		if !slices.Equal(have, variables[name]) {
			t.Errorf("%s: variables %v", name, have)
		}
		ids, titles := map[int]bool{}, map[string]bool{}
		for _, p := range b.Panels {
			if ids[p.ID] || p.ID == 0 || titles[p.Title] || p.Title == "" {
				t.Errorf("%s: panel %d, %q: another panel has this number or title", name, p.ID, p.Title)
			}
			ids[p.ID], titles[p.Title] = true, true
			if p.Type != "row" {
				p.checkText(t, name)
			}
		}
	}
}

// uid is what Grafana takes for one.
var uid = regexp.MustCompile(`^[a-z-]{1,40}$`)

// judged are panels that colour a value: without thresholds, Grafana's are red from 80 on.
var judged = []string{"stat", "bargauge", "gauge", "state-timeline"}

func (p panel) checkText(t *testing.T, board string) {
	t.Helper()
	defaults := p.FieldConfig.Defaults
	if len(p.Description) < 80 || defaults.Unit == "" || len(p.Targets) == 0 {
		t.Errorf("%s: %s needs a unit, a query, and a description that teaches", board, p.Title)
	}
	if slices.Contains(judged, p.Type) && defaults.Color.Mode != "fixed" && len(defaults.Thresholds.Steps) == 0 {
		t.Errorf("%s: %s has no colour and no thresholds", board, p.Title)
	}
	if want := (source{"prometheus", "${datasource}"}); p.Datasource != want {
		t.Errorf("%s: %s asks %+v", board, p.Title, p.Datasource)
	}
	for i, q := range p.Targets {
		if q.RefID != string(rune('A'+i)) {
			t.Errorf("%s: %s: query %d is called %q", board, p.Title, i, q.RefID)
		}
		if (p.Type == "timeseries" || len(p.Targets) > 1 && p.Type != "table") && q.LegendFormat == "" {
			t.Errorf("%s: %s: the series of %s have no name", board, p.Title, q.Expr)
		}
		if p.Type == "table" && (!q.Instant || q.Format != "table") {
			t.Errorf("%s: %s: a table needs the values of one moment: %+v", board, p.Title, q)
		}
	}
}

// linked is the UID in a link to a dashboard.
var linked = regexp.MustCompile(`^/d/([^/?]+)`)

// links are those of a panel to other dashboards.
func (p panel) links(t *testing.T) (urls []string) {
	t.Helper()
	all := slices.Clone(p.FieldConfig.Defaults.Links)
	for _, o := range p.FieldConfig.Overrides {
		for _, property := range o.Properties {
			var more []link
			if property.ID != "links" {
				continue
			}
			if err := json.Unmarshal(property.Value, &more); err != nil {
				t.Fatalf("%s: links: %v", p.Title, err)
			}
			all = append(all, more...)
		}
	}
	for _, l := range all {
		if linked.MatchString(l.URL) {
			urls = append(urls, l.URL)
		}
	}
	return urls
}

// TestLinks: each dashboard leads to all others, and keeps what was chosen. In fleet.json, a
// panel that names nodes leads to the node.
func TestLinks(t *testing.T) {
	boards := readBoards(t)
	var uids []string
	for _, b := range boards {
		uids = append(uids, b.UID)
	}
	for name, b := range boards {
		missing := slices.DeleteFunc(slices.Clone(uids), func(u string) bool { return u == b.UID })
		for _, l := range b.Links {
			to := linked.FindStringSubmatch(l.URL)
			if to == nil {
				continue
			}
			if !slices.Contains(missing, to[1]) || !l.IncludeVars {
				t.Errorf("%s: link %+v", name, l)
			}
			missing = slices.DeleteFunc(missing, func(u string) bool { return u == to[1] })
		}
		if len(missing) > 0 {
			t.Errorf("%s has no link to %q", name, missing)
		}
		for _, p := range b.Panels {
			urls := p.links(t)
			for _, url := range urls {
				if to := linked.FindStringSubmatch(url)[1]; to != boards["node"].UID || !strings.Contains(url, "?${__all_variables}&var-node=${") {
					t.Errorf("%s: %s: link %s", name, p.Title, url)
				}
			}
			if name == "fleet" && p.namesNodes() != (len(urls) > 0) {
				t.Errorf("fleet: %s names nodes: %v, and has the links %q", p.Title, p.namesNodes(), urls)
			}
		}
	}
}

// namesNodes reports whether series of a panel are those of nodes.
func (p panel) namesNodes() bool {
	return slices.ContainsFunc(p.Targets, func(q target) bool {
		return strings.Contains(q.LegendFormat, "{{node}}") || q.Format == "table" && strings.Contains(q.Expr, "by (cluster, node")
	})
}

// query is an expression, and the name that Grafana gives its series.
type query struct{ expr, legend string }

// labelValues is the query of a variable.
var labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)

// queries are all of the dashboards, by what they are for.
func queries(t *testing.T) map[string]query {
	t.Helper()
	all := map[string]query{}
	for name, b := range readBoards(t) {
		for _, p := range b.Panels {
			for _, q := range p.Targets {
				all[name+": "+p.Title+" "+q.RefID] = query{q.Expr, q.LegendFormat}
			}
		}
		for i, a := range b.Annotations.List {
			all[fmt.Sprintf("%s: annotation %d", name, i)] = query{expr: a.Expr}
		}
		for _, v := range b.Templating.List {
			if v.Type != "query" {
				continue
			}
			var asked struct{ Query string }
			if err := json.Unmarshal(v.Query, &asked); err != nil {
				t.Fatalf("%s: variable %s: %v", name, v.Name, err)
			}
			values := labelValues.FindStringSubmatch(asked.Query)
			if values == nil {
				t.Fatalf("%s: variable %s asks %s", name, v.Name, asked.Query)
			}
			all[name+": variable "+v.Name] = query{values[1], "{{" + values[2] + "}}"}
		}
	}
	return all
}

var placeholder = regexp.MustCompile(`\$\w+`)

// filledIn is an expression as Grafana sends it, with a window for rates.
func filledIn(expr, window string) string {
	return placeholder.ReplaceAllStringFunc(expr, func(name string) string {
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
	for name, q := range queries(t) {
		rules = append(rules, rule{"alert": "x", "expr": filledIn(q.expr, "5m")})
		if strings.Contains(filledIn(q.expr, "5m"), "$") {
			t.Errorf("%s: there is no such variable in %s", name, q.expr)
		}
		if !strings.HasPrefix(name, "node: ") && strings.Contains(q.expr, "$node") {
			t.Errorf("%s: only node.json has the variable $node", name)
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

// anyOf is a selector of several metrics by their names.
var anyOf = regexp.MustCompile(`__name__=~"([^"]+)"`)

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
	for what, q := range queries(t) {
		uses, groups := prometheus.Uses(q.expr, "ebb_", "ebb:")
		for _, names := range anyOf.FindAllStringSubmatch(q.expr, -1) {
			for metric := range strings.SplitSeq(names[1], "|") {
				if metric != "up" {
					uses = append(uses, prometheus.Use{Name: metric})
				}
			}
		}
		labels := slices.Clone(targetLabels)
		if strings.Contains(q.expr, "ALERTS{") {
			labels = append(labels, "alertname", "severity")
		}
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
		for _, m := range legend.FindAllStringSubmatch(q.legend, -1) {
			groups = append(groups, m[1])
		}
		for _, l := range groups {
			if !slices.Contains(labels, l) {
				t.Errorf("%s: nothing in it has the label %s", what, l)
			}
		}
	}
}
