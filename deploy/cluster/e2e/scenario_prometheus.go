package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

const prometheusURL = "http://127.0.0.1:9090"

// Patterns by which writeRules shortens the rules' times; their expressions stay the same.
var (
	patienceOfRules = regexp.MustCompile(`(?m)^( +for:) .*$`)
	windowOfFall    = regexp.MustCompile(`(ebb_node_filesystem_used_ratio)\[10m\]`)
)

// Limits for the way from a pushed image to the dashboards.
const (
	mostCommands = 8
	mostTime     = 10 * time.Minute
)

// monitor begins with the Prometheus of provision.sh, which discovers ebb by itself. It
// continues with the configuration that the operator would make.
func (b *fixture) monitor() {
	b.scraped("", "Prometheus finds and scrapes the agent and both controllers")
	b.follow(installPage, "3. Prometheus and Grafana")
	b.operate()
	const byMonitor = `,namespace="` + namespace + `"`
	b.scraped(byMonitor, "so does one that the PodMonitors configure")
	b.rulesHold()
	b.dashboards(drawn, "30s")
	took := time.Since(b.progress.pushed)
	if b.progress.since > mostCommands || took > mostTime {
		fail("from the pushed image to the dashboards: %d commands, %v", b.progress.since, took)
	}
	b.notes.ok("from the pushed image to the dashboards: %d commands of at most %d, %.0f s of at most %.0f s",
		b.progress.since, mostCommands, took.Seconds(), mostTime.Seconds())
	b.eventually("no alert to fire", func() error {
		firing, err := b.firing()
		if err == nil && len(firing) > 0 {
			err = fmt.Errorf("firing: %s", strings.Join(firing, ", "))
		}
		return err
	})
}

// scraped waits until Prometheus has scraped all components of ebb, as targets with these
// labels.
func (b *fixture) scraped(labels, what string) {
	for component, want := range map[string]int{`agent",node="` + nodeName: 1, "controller": 2} {
		query := `up{job="ebb-` + component + `"` + labels + `} == 1`
		b.eventually("Prometheus to scrape ebb", func() error {
			found, err := b.query(query)
			if err == nil && len(found) != want {
				err = fmt.Errorf("%s gives %d series, not %d", query, len(found), want)
			}
			return err
		})
	}
	b.notes.ok("%s", what)
}

// rulesHold waits until Prometheus has evaluated the rules without an error.
func (b *fixture) rulesHold() {
	alerts := 0
	b.eventually("the rules to be evaluated", func() error {
		var answer struct {
			Data struct {
				Groups []struct {
					Rules []struct{ Name, Type, Health, LastError string }
				}
			}
		}
		if err := b.ask(prometheusURL+"/api/v1/rules", &answer); err != nil {
			return err
		}
		alerts = 0
		for _, g := range answer.Data.Groups {
			for _, r := range g.Rules {
				if r.Health != "ok" {
					return fmt.Errorf("%s: %s %s", r.Name, r.Health, r.LastError)
				}
				if r.Type == "alerting" {
					alerts++
				}
			}
		}
		if alerts == 0 {
			return errors.New("no alerts")
		}
		return nil
	})
	b.notes.ok("it evaluates the rules, with %d alerts", alerts)
}

// drawn lists the panels that have data from the start, by the dashboards' files.
var drawn = map[string][]string{
	"ebb-fleet.json":      {"Agents", "Agents by mode", "Fullest disks", "Nodes by their fullest disk", "Images by last use"},
	"ebb-node.json":       {"Used space and its thresholds", "Disks now", "Images by verdict", "A scrape takes"},
	"ebb-controller.json": {"Leaders", "A scrape takes"},
}

// drawnLater lists those that also have data once cascades and other collectors have run.
var drawnLater = map[string][]string{
	"ebb-controller.json": {"Leaders", "Mode", "Circuit breaker", "Pause", "Queue", "Requested changes, by result", "Objects deleted, by type", "Objects tracked", "Types by state",
		"Other collectors: deleted, or would have been", "Requests take, 99 %", "Requests at once", "CPU", "Memory", "A scrape takes"},
}

// board is the part of a dashboard that holds its queries.
type board struct{ Panels []panel }

type panel struct {
	Title   string
	Targets []struct{ Expr string }
}

// dashboards reads the dashboards from the ConfigMap that Grafana's sidecar looks for, and runs the
// queries of their panels, with rates over an interval. The panels of want must have data.
func (b *fixture) dashboards(want map[string][]string, interval string) {
	var found struct {
		Items []struct{ Data map[string]string }
	}
	b.get(&found, "configmaps", "--all-namespaces", "--selector=grafana_dashboard=1")
	if len(found.Items) != 1 {
		fail("ConfigMaps with dashboards for the sidecar: %d", len(found.Items))
	}
	data := found.Items[0].Data
	if len(data) != len(drawn) {
		fail("%d dashboards for the sidecar, not %d", len(data), len(drawn))
	}
	queries := 0
	panels := 0
	for file, titles := range want {
		var shown board
		must(json.Unmarshal([]byte(data[file]), &shown))
		panels += len(titles)
		queries += b.draw(file, shown, titles, interval)
	}
	b.notes.ok("%d of the %d dashboards are asked for, where Grafana's sidecar looks: their %d queries are answered, and %d panels have data", len(want), len(data), queries, panels)
}

// draw waits for an answer to each query of a dashboard, and returns the number of queries.
// Queries of the panels with these titles must have data.
func (b *fixture) draw(file string, shown board, titles []string, interval string) (queries int) {
	fill := strings.NewReplacer("$cluster", ".*", "$node", ".*", "$__rate_interval", interval)
	seen := 0
	for _, p := range shown.Panels {
		shows := slices.Contains(titles, p.Title)
		if shows {
			seen++
		}
		for _, t := range p.Targets {
			queries++
			b.eventually("an answer for "+p.Title, func() error {
				series, err := b.query(fill.Replace(t.Expr))
				if err == nil && shows && len(series) == 0 {
					err = errors.New("no data for " + t.Expr)
				}
				return err
			})
		}
	}
	if seen != len(titles) {
		fail("%s has %d of the panels %q", file, seen, titles)
	}
	return queries
}

// series is one element of a query's result.
type series struct{ Metric map[string]string }

func (b *fixture) query(expression string) ([]series, error) {
	var answer struct{ Data struct{ Result []series } }
	err := b.ask(prometheusURL+"/api/v1/query?query="+url.QueryEscape(expression), &answer)
	return answer.Data.Result, err
}

// firing returns the names of the alerts that fire.
func (b *fixture) firing() ([]string, error) {
	found, err := b.query(`count by (alertname) (ALERTS{alertstate="firing"})`)
	var names []string
	for _, s := range found {
		names = append(names, s.Metric["alertname"])
	}
	return names, err
}

// alert waits until an alert fires, or until it no longer does.
func (b *fixture) alert(name string, fires bool) {
	b.eventually(fmt.Sprintf("%s to fire: %v", name, fires), func() error {
		found, err := b.query(`ALERTS{alertstate="firing",alertname="` + name + `"}`)
		if err == nil && (len(found) > 0) != fires {
			err = fmt.Errorf("%d series", len(found))
		}
		return err
	})
}
