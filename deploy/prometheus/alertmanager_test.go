package prometheus

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/prometheus"
)

const alertmanagerFile = "alertmanager.yaml"

// inhibition is one of the rules in alertmanager.yaml.
type inhibition struct {
	Source []string `json:"source_matchers"`
	Target []string `json:"target_matchers"`
	Equal  []string `json:"equal"`
}

func readInhibitions(t *testing.T) []inhibition {
	t.Helper()
	var file struct {
		Route        any          `json:"route"`
		Receivers    []any        `json:"receivers"`
		InhibitRules []inhibition `json:"inhibit_rules"`
	}
	read(t, alertmanagerFile, &file)
	if len(file.InhibitRules) < 5 {
		t.Fatalf("only %d rules are read", len(file.InhibitRules))
	}
	return file.InhibitRules
}

var matcherOfName = regexp.MustCompile(`^alertname =~? "?([^"]+)"?$`)

// named are the alerts that a rule's matchers name.
func named(t *testing.T, matchers []string) []string {
	t.Helper()
	m := matcherOfName.FindStringSubmatch(matchers[0])
	if m == nil {
		t.Fatalf("%q names no alerts", matchers)
	}
	return strings.Split(m[1], "|")
}

// labelsOfAlerts are those with which alerts fire in the unit tests, and those of alerts of
// kube-prometheus that inhibit ebb's.
func labelsOfAlerts(t *testing.T) map[string]map[string]string {
	t.Helper()
	all := map[string]map[string]string{}
	for _, name := range []string{"KubeNodeNotReady", "KubeNodeUnreachable"} {
		all[name] = map[string]string{"alertname": name, "node": "worker-1", "job": "kube-state-metrics", "severity": "warning"}
	}
	for _, file := range []string{"rules_test.yaml", "optional_test.yaml"} {
		var tests unitTests
		read(t, file, &tests)
		for _, test := range tests.Tests {
			for _, a := range test.Alerts {
				for _, e := range a.Expected {
					l := maps.Clone(e.Labels)
					l["alertname"] = a.Name
					delete(l, "cluster")
					all[a.Name] = l
				}
			}
		}
	}
	return all
}

func with(labels map[string]string, more ...string) map[string]string {
	l := maps.Clone(labels)
	for i := 0; i < len(more); i += 2 {
		l[more[i]] = more[i+1]
	}
	return l
}

// pair is an alert that inhibits another, in a cluster of their own, and alerts that it does
// not: of the same name, with another value of a label that has to be equal, or about a whole
// cluster.
type pair struct {
	source, target map[string]string
	others         []map[string]string
}

func pairOf(source, target map[string]string, equal []string, cluster string) pair {
	p := pair{source: with(source, "cluster", cluster), target: with(target, "cluster", cluster)}
	for _, label := range equal {
		if value, ok := source[label]; ok && label != "job" {
			p.target[label] = value
		}
	}
	for _, label := range equal {
		if _, ok := p.target[label]; ok && label != "job" {
			p.others = append(p.others, with(p.target, label, p.target[label]+"-other"))
		}
	}
	return p
}

// pairs are all of alertmanager.yaml.
func pairs(t *testing.T) (all []pair) {
	t.Helper()
	labels := labelsOfAlerts(t)
	for n, rule := range readInhibitions(t) {
		if rule.Equal[0] != "cluster" {
			t.Errorf("rule %d: alerts of different clusters inhibit each other", n)
		}
		for _, source := range named(t, rule.Source) {
			targets, others := named(t, rule.Target), []string(nil)
			if slices.Equal(targets, []string{"Ebb.+"}) {
				targets, others = ofNodes(alertsOf(t, ruleFiles...), labels)
			}
			for _, target := range targets {
				if labels[source] == nil || labels[target] == nil {
					t.Fatalf("rule %d: there is no alert %s, or none %s", n, source, target)
				}
				p := pairOf(labels[source], labels[target], rule.Equal, fmt.Sprintf("c%d", len(all)))
				for _, other := range others {
					p.others = append(p.others, with(labels[other], "cluster", p.source["cluster"]))
				}
				all = append(all, p)
			}
		}
	}
	return all
}

func startAlertmanager(ctx context.Context, t *testing.T) *prometheus.Alertmanager {
	t.Helper()
	needPrometheus(t)
	if _, err := prometheus.Amtool(ctx, ".", "check-config", alertmanagerFile); err != nil {
		t.Fatal(err)
	}
	a, err := prometheus.StartAlertmanager(ctx, t.TempDir(), alertmanagerFile)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// ofNodes are alerts that are about a node, and all others, which are not mute because a node
// is down.
func ofNodes(names []string, labels map[string]map[string]string) (of, others []string) {
	for _, name := range names {
		if labels[name]["node"] != "" {
			of = append(of, name)
		} else {
			others = append(others, name)
		}
	}
	return of, others
}

// A real Alertmanager is sent pairs of alerts, each of a cluster of its own.
func TestInhibition(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	a := startAlertmanager(ctx, t)
	all := pairs(t)
	t.Logf("%d pairs", len(all))
	var sent []map[string]string
	for _, p := range all {
		sent = append(append(sent, p.source, p.target), p.others...)
	}
	if err := a.Post(ctx, sent...); err != nil {
		t.Fatal(err)
	}
	err := await.Until(ctx, "alerts to be inhibited", func(ctx context.Context) error {
		have, err := a.Alerts(ctx)
		if err != nil {
			return err
		}
		byLabels := map[string]prometheus.Alert{}
		for _, one := range have {
			byLabels[fmt.Sprint(one.Labels)] = one
		}
		for _, p := range all {
			if err := p.judge(byLabels); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func (p pair) judge(have map[string]prometheus.Alert) error {
	source, target := have[fmt.Sprint(p.source)], have[fmt.Sprint(p.target)]
	if source.Status.State != "active" {
		return fmt.Errorf("%v is %q", p.source, source.Status.State)
	}
	if target.Status.State != "suppressed" || !slices.Equal(target.Status.InhibitedBy, []string{source.Fingerprint}) {
		return fmt.Errorf("%v is %q by %v, although %s (%s) fires", p.target, target.Status.State, target.Status.InhibitedBy, p.source["alertname"], source.Fingerprint)
	}
	for _, other := range p.others {
		if got := have[fmt.Sprint(other)]; got.Fingerprint == "" || slices.Contains(got.Status.InhibitedBy, source.Fingerprint) {
			return fmt.Errorf("%v is %q because %v fires", other, got.Status.State, p.source)
		}
	}
	return nil
}

// Pages go to the pager, and everything else does not.
func TestRoutes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	a := startAlertmanager(ctx, t)
	all := labelsOfAlerts(t)
	if err := a.Post(ctx, slices.Collect(maps.Values(all))...); err != nil {
		t.Fatal(err)
	}
	err := await.Until(ctx, "alerts to be there", func(ctx context.Context) error {
		have, err := a.Alerts(ctx)
		if err == nil && len(have) != len(all) {
			err = fmt.Errorf("%d alerts of %d", len(have), len(all))
		}
		for _, one := range have {
			want := "tickets"
			if one.Labels["severity"] == "critical" {
				want = "pager"
			}
			if len(one.Receivers) != 1 || one.Receivers[0].Name != want {
				t.Errorf("%s goes to %v, not to %s", one.Labels["alertname"], one.Receivers, want)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
