package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const prometheusURL = "http://127.0.0.1:9090"

// Rules with shorter patience: what they ask stays the same.
var (
	patienceOfRules = regexp.MustCompile(`(?m)^( +for:) .*$`)
	windowOfFall    = regexp.MustCompile(`(ebb_node_filesystem_used_percent)\[10m\]`)
)

// scrape starts Prometheus with ebb's rules. An alert that wants 15 minutes of its
// trouble gets 4 seconds of it here, and a disk that does not fall is looked at over
// 10 seconds instead of 10 minutes.
func (b *bed) scrape() error {
	text, err := os.ReadFile("deploy/prometheus/rules.yaml")
	if err != nil {
		return fmt.Errorf("read rules: %w", err)
	}
	text = patienceOfRules.ReplaceAll(text, []byte("$1 4s"))
	text = windowOfFall.ReplaceAll(text, []byte("$1[10s]"))
	short := filepath.Join(b.files, "rules.yaml")
	if err := os.WriteFile(short, text, 0o644); err != nil {
		return fmt.Errorf("write rules: %w", err)
	}
	b.env = append(b.env, "scrape_interval=1s")
	b.notes.command("deploy/cluster/provision.sh --bin bin/cluster --rules deploy/prometheus/rules.yaml prometheus")
	if err := b.provision("--rules", short, "prometheus"); err != nil {
		return err
	}
	for query, want := range map[string]int{`up{job="ebb-agent"} == 1`: 1, `up{job="ebb-controller"} == 1`: 2} {
		err := b.eventually("Prometheus scrapes ebb", func() error {
			found, err := b.query(query)
			if err == nil && len(found) != want {
				err = notYet("%s gives %d series, not %d", query, len(found), want)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	b.notes.ok("Prometheus finds and scrapes the agent and both controllers")
	return b.eventually("no alert fires", func() error {
		firing, err := b.firing()
		if err == nil && len(firing) > 0 {
			err = notYet("firing: %s", strings.Join(firing, ", "))
		}
		return err
	})
}

// series is one of the answers to a query.
type series struct{ Metric map[string]string }

func (b *bed) query(expression string) ([]series, error) {
	var answer struct{ Data struct{ Result []series } }
	err := b.ask(prometheusURL+"/api/v1/query?query="+url.QueryEscape(expression), &answer)
	return answer.Data.Result, err
}

// firing are the names of the alerts that fire.
func (b *bed) firing() ([]string, error) {
	found, err := b.query(`count by (alertname) (ALERTS{alertstate="firing"})`)
	var names []string
	for _, s := range found {
		names = append(names, s.Metric["alertname"])
	}
	return names, err
}

// alert waits until an alert fires, or does not any more.
func (b *bed) alert(name string, fires bool) error {
	return b.eventually(fmt.Sprintf("%s fires is %v", name, fires), func() error {
		found, err := b.query(`ALERTS{alertstate="firing",alertname="` + name + `"}`)
		if err == nil && (len(found) > 0) != fires {
			err = notYet("%d series", len(found))
		}
		return err
	})
}
