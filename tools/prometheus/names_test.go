package prometheus

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestUses(t *testing.T) {
	for _, test := range []struct {
		expr   string
		uses   []Use
		groups []string
	}{
		{"up == 0", nil, nil},
		{"ebb_ready", []Use{{"ebb_ready", nil}}, nil},
		{`sum by (a, b) (rate(ebb_x_total{kind=~"ebb_no|{y}", state!="z"}[$__rate_interval])) > 0`, []Use{{"ebb_x_total", []Matcher{{"kind", []string{"ebb_no", "{y}"}}, {"state", []string{"z"}}}}}, []string{"a", "b"}},
		{`ebb_a * on (n) group_left (device) ebb_b{c="d"} unless ignoring(ebb_label) ebb:c:rate5m`, []Use{{"ebb_a", nil}, {"ebb_b", []Matcher{{"c", []string{"d"}}}}, {"ebb:c:rate5m", nil}}, []string{"n", "device", "ebb_label"}},
		{`label_replace(ebb_a, "ebb_new", "$1", "old", "(.*)")`, []Use{{"ebb_a", nil}}, nil},
	} {
		uses, groups := Uses(test.expr, "ebb_", "ebb:")
		if diff := cmp.Diff(test.uses, uses); diff != "" {
			t.Errorf("%s: selectors (-want +got):\n%s", test.expr, diff)
		}
		if diff := cmp.Diff(test.groups, groups); diff != "" {
			t.Errorf("%s: groups (-want +got):\n%s", test.expr, diff)
		}
	}
}

func TestStrange(t *testing.T) {
	registry := prometheus.NewRegistry()
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ebb_x_total"}, []string{"kind"})
	registry.MustRegister(c)
	c.WithLabelValues("one")
	c.WithLabelValues("two")
	exported, err := Gather(registry)
	if err != nil {
		t.Fatal(err)
	}
	for expr, want := range map[string][]string{
		`ebb_x_total{kind="one"}`:               nil,
		`ebb_x_total{kind=~"one|tow", job="j"}`: {`ebb_x_total has no series with kind "tow"`},
		`ebb_x_total{kind!="three"}`:            {`ebb_x_total has no series with kind "three"`},
		`ebb_x_total{kind=~"t.+"}`:              nil,
		`ebb_y_total{kind="three"}`:             nil,
	} {
		uses, _ := Uses(expr, "ebb_")
		if diff := cmp.Diff(want, exported.Strange(uses[0])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", expr, diff)
		}
	}
}

func TestDocumented(t *testing.T) {
	got := Documented("# Metrics\n\n| name | labels | meaning |\n|---|---|---|\n| `ebb_a_total` | x, y_z | A `b` | c. |\n| `ebb_b_seconds` |  | B. |\n")
	want := map[string][]string{
		"ebb_a_total": {"x", "y_z"}, "ebb_b_seconds": nil, "ebb_b_seconds_bucket": {"le"}, "ebb_b_seconds_sum": {"le"}, "ebb_b_seconds_count": {"le"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
