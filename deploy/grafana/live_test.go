package grafana

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ebb-agent/ebb/agent/cluster"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/buildtest"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/node/nodetest"
	"github.com/ebb-agent/ebb/tools/prometheus"
)

const mib = 1 << 20

// stage is a node with an agent, a controller that has just begun, and a Prometheus that
// scrapes both and knows the rules.
type stage struct {
	*testing.T
	ctx        context.Context
	mode       config.Mode
	node       *node.Node
	agent      *agentrun.Process
	controller *httptest.Server
	prometheus *prometheus.Server
}

func newStage(t *testing.T, mode config.Mode) *stage {
	if why := prometheus.Missing(); why != "" {
		t.Skip("SKIPPED: " + why)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	s := &stage{T: t, ctx: ctx, mode: mode, node: nodetest.Start(t, node.Config{SizeBytes: 256 * mib})}
	s.controller = httptest.NewServer(promhttp.HandlerFor(cluster.NewMetrics().Registry, promhttp.HandlerOpts{}))
	t.Cleanup(s.controller.Close)
	s.startAgent()
	s.startPrometheus()
	return s
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stage) startAgent() {
	binary := buildtest.Program(s, "cmd/ebb-agent")
	images := make([]node.Image, 4)
	for i := range images {
		images[i] = node.Image{Name: fmt.Sprintf("live.test/image:%d", i), Layers: []node.Layer{{Seed: fmt.Sprint("live-", i), Bytes: 16 * mib, Files: 4}}}
	}
	_, err := s.node.ImportAll(s.ctx, node.CRINamespace, images)
	s.must(err)
	c := agentrun.ConfigFor(s.node)
	c.Mode = s.mode
	c.Images.MinimumAge, c.Writers.Top = 0, 10
	c.Images.HighThresholdPercent, c.Images.LowThresholdPercent = 80, 70
	s.agent, err = agentrun.Start(s.ctx, agentrun.Options{Binary: binary, Dir: s.node.Dir(), Config: c})
	s.must(err)
	s.Cleanup(func() {
		if err := errors.Join(s.agent.Stop(), agentrun.Unload(c)); err != nil {
			s.Error(err)
		}
	})
}

func (s *stage) startPrometheus() {
	dir := s.TempDir()
	for _, name := range []string{"rules.yaml", "optional.yaml"} {
		rules, err := os.ReadFile("../prometheus/" + name)
		s.must(err)
		s.must(os.WriteFile(filepath.Join(dir, name), rules, 0o600))
	}
	var err error
	s.prometheus, err = prometheus.Start(s.ctx, dir, fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [rules.yaml, optional.yaml]
scrape_configs:
  - job_name: ebb-agent
    static_configs: [{targets: [%q], labels: {node: worker-1}}]
  - job_name: ebb-controller
    static_configs: [{targets: [%q], labels: {pod: ebb-controller-0}}]
`, strings.TrimPrefix(s.agent.URL(), "http://"), strings.TrimPrefix(s.controller.URL, "http://")))
	s.must(err)
	s.Cleanup(func() {
		if err := s.prometheus.Close(); err != nil {
			s.Error(err)
		}
	})
}

// empty: there is nothing to draw, not even one number.
func empty(found model.Vector) bool {
	return !slices.ContainsFunc(found, func(x *model.Sample) bool { return !math.IsNaN(float64(x.Value)) })
}

// await waits until a query has an answer.
func (s *stage) await(expr string) model.Vector {
	s.Helper()
	samples, err := s.prometheus.Await(s.ctx, expr, func(found model.Vector) error {
		if empty(found) {
			return errors.New("no data")
		}
		return nil
	})
	s.must(err)
	return samples
}

// play is what happens on the node: images are used, a pod writes, the disk gets full, and
// ebb removes images, or reports that it would.
func (s *stage) play() {
	_, err := s.node.Run(s.ctx, node.RunSpec{ID: "sleeps", Image: "live.test/image:0"})
	s.must(err)
	writes := `i=0; while [ $i -lt 2000 ]; do dd if=/dev/zero of=/written bs=64k count=1 seek=$i 2>/dev/null; sync; i=$((i+1)); sleep 0.5; done`
	_, err = s.node.RunPod(s.ctx, node.PodSpec{Namespace: "shop", Name: "web-0", Containers: []node.PodContainer{{
		Name: "main", Image: "live.test/image:0", Command: []string{"/bin/sh", "-c", writes},
	}}})
	s.must(err)
	s.await(`ebb_node_filesystem_time_to_full_seconds{resource="bytes"} < Inf`)
	u, err := s.node.Usage()
	s.must(err)
	// In one go: FillTo would go on while ebb removes images, until ebb has to hold.
	s.must(s.node.Fill("filler", int64(u.AvailableBytes)-int64(u.CapacityBytes)*18/100))
	if s.mode == config.ModeObserve {
		s.await(`ebb_node_reclaim_runs_total{result="observed"} > 0`)
		s.await(`ebb_node_images{state="threshold"} > 0`)
		return
	}
	s.await(`ebb_node_images_removed_total{reason="threshold"} > 0`)
}

// quiet are the queries without data in both plays, and why. TestEveryQueryHasData shows that each of
// them can have data.
var quiet = map[string]string{
	"fleet: Alerts that fire A":                                   "no alert fires",
	"fleet: annotation 0":                                         "no alert fires",
	"fleet: Nodes where most images came back A":                  "no image came back",
	"fleet: What holds the space A":                               "ebb does not hold",
	"fleet: Agents that lack something D":                         "this agent has no source of pods",
	"fleet: Agents to look at A":                                  "all is well",
	"node: What holds the space A":                                "ebb does not hold",
	"node: Dead containers, sandboxes and logs that stay A":       "no container has ended",
	"node: Removed A":                                             "no container has ended",
	"node: Failed, or needed after all A":                         "nothing failed",
	"node: Failed, or needed after all B":                         "nothing was skipped",
	"node: annotation 0":                                          "no alert fires",
	"controller: Owners that wait A":                              "a standby has no graph",
	"controller: Requested changes, by result A":                  "a controller that has just begun",
	"controller: Objects deleted, by type A":                      "a controller that has just begun",
	"controller: Waiting B":                                       "a standby has no graph",
	"controller: Waiting C":                                       "a standby has no graph",
	"controller: Objects tracked A":                               "a standby has no graph",
	"controller: Other collectors: deleted, or would have been A": "nothing is due",
	"controller: Other collectors: deleted, or would have been B": "a standby has no graph",
	"controller: Volumes, by verdict A":                           "a standby has no graph",
	"controller: Volumes, by verdict B":                           "no driver was called",
	"controller: Stale Nodes, by reason A":                        "a standby has no graph",
	"controller: Age of the inventory of machines A":              "none was read",
	"controller: Requests take, 99 % A":                           "no request was made",
	"controller: annotation 0":                                    "no alert fires",
}

// quietIn are those that have no data in one of the modes alone.
var quietIn = map[config.Mode]map[string]string{
	config.ModeEnforce: {
		"fleet: What enforcing would remove now A":           "all agents enforce",
		"fleet: Observed: removed in 24 hours A":             "all agents enforce",
		"fleet: Observed: removed in 24 hours B":             "all agents enforce",
		"fleet: Observed: freed in 24 hours A":               "all agents enforce",
		"fleet: Observed: freed in 24 hours B":               "all agents enforce",
		"fleet: Observed: needed again in 24 hours A":        "all agents enforce",
		"fleet: Observed: needed again in 24 hours B":        "all agents enforce",
		"fleet: Observed: above the threshold in 24 hours A": "all agents enforce",
		"fleet: Observed: above the threshold in 24 hours B": "all agents enforce",
	},
	config.ModeObserve: {
		"fleet: From the write to the first room A": "nothing is removed",
		"fleet: From the write to the first room B": "nothing is removed",
		"node: From the write to the first room A":  "nothing is removed",
		"node: From the write to the first room B":  "nothing is removed",
	},
}

func TestOnARealNode(t *testing.T) {
	for _, mode := range []config.Mode{config.ModeEnforce, config.ModeObserve} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel() // they wait for scrapes, most of the time
			s := newStage(t, mode)
			s.play()
			s.checkPanels()
			s.checkRules()
			s.checkNames()
			s.checkSamples()
		})
	}
}

// checkPanels: every panel's query is answered by a real Prometheus, and with data, unless
// there can be none.
func (s *stage) checkPanels() {
	all := queries(s.T)
	silent := maps.Clone(quiet)
	maps.Copy(silent, quietIn[s.mode])
	for name := range silent {
		if _, ok := all[name]; !ok {
			s.Errorf("there is no query %s", name)
		}
	}
	for name, q := range all {
		expr := filledIn(q.expr, "1m")
		if silent[name] == "" {
			s.await(expr)
		} else if found, err := s.prometheus.Query(s.ctx, expr); err != nil || !empty(found) {
			s.Errorf("%s: %v, %v; it should be without data: %s", name, found, err, silent[name])
		}
	}
}

// checkRules: every rule is evaluated without an error, and the recorded series show
// what happened.
func (s *stage) checkRules() {
	problems, err := s.prometheus.RuleErrors(s.ctx)
	s.must(err)
	for _, p := range problems {
		s.Errorf("rule %s", p)
	}
	enforcing := map[config.Mode]string{config.ModeEnforce: "ebb:agents_enforcing:count == 1", config.ModeObserve: "ebb:agents_enforcing:count == 0"}
	for _, name := range []string{"ebb:node_filesystem_at_threshold:bool", enforcing[s.mode], "ebb:controllers_enforcing:count", "ebb:controller_leaders:sum"} {
		s.await(name)
	}
	if top := s.await(`topk(1, ebb_node_container_growth_bytes)`); top[0].Metric["pod"] != "web-0" || top[0].Metric["namespace"] != "shop" {
		s.Errorf("the disk is filled by %v", top)
	}
	if missing, err := s.prometheus.Query(s.ctx, `ebb_node_probe_degraded == 1`); err != nil || len(missing) > 0 {
		s.Errorf("kernel programs are missing: %v, %v", missing, err)
	}
	if disks := s.await(`ebb_node_filesystem_capacity_bytes`); len(disks) != 1 {
		s.Errorf("one disk is %d series: %v", len(disks), disks)
	}
}

// checkNames: they follow Prometheus' conventions, as promtool knows them.
func (s *stage) checkNames() {
	for _, url := range []string{s.agent.URL() + "/metrics", s.controller.URL} {
		resp, err := http.Get(url)
		s.must(err)
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		s.must(err)
		complaints, err := prometheus.Lint(s.ctx, string(text))
		s.must(err)
		for _, c := range complaints {
			s.Error(c)
		}
	}
}

// checkSamples: a scrape of a real agent is small, the three series of each container that
// fills the disk apart. agent/node counts with the chart's configuration.
func (s *stage) checkSamples() {
	found := s.await(`scrape_samples_scraped{job="ebb-agent"} - on (instance) count by (instance) ({__name__=~"ebb_node_container_.+", job="ebb-agent"})`)
	s.Logf("%g samples", found[0].Value)
	if len(found) != 1 || found[0].Value > 200 {
		s.Errorf("samples of a scrape: %v", found)
	}
}
