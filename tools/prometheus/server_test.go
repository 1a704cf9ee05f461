package prometheus

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
)

func TestServer(t *testing.T) {
	if why := Missing(); why != "" {
		t.Skip("SKIPPED: " + why)
	}
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("# TYPE ebb_x gauge\nebb_x{a=\"b\"} 7\n"))
	}))
	defer program.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	config := "scrape_configs:\n- job_name: x\n  scrape_interval: 1s\n  static_configs: [{targets: ['" + strings.TrimPrefix(program.URL, "http://") + "'], labels: {node: n}}]\n"
	s, err := Start(ctx, t.TempDir(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	samples, err := s.Await(ctx, "ebb_x", func(found model.Vector) error {
		if len(found) == 0 {
			return errors.New("nothing yet")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if l := samples[0].Metric; len(samples) != 1 || samples[0].Value != 7 || l["a"] != "b" || l["node"] != "n" || l["job"] != "x" {
		t.Errorf("scraped %v", samples)
	}
	targets, err := s.Targets(ctx)
	if err != nil || len(targets) != 1 || targets[0].Health != "up" {
		t.Errorf("targets %v, %v", targets, err)
	}
	if _, err := s.Query(ctx, "sum(("); err == nil || !strings.Contains(err.Error(), "parse error") {
		t.Errorf("an expression that is none: %v", err)
	}
	if _, err := s.Query(ctx, "ebb_x[5m]"); err == nil || !strings.Contains(err.Error(), "not a vector") {
		t.Errorf("an expression that gives no vector: %v", err)
	}
}

// TestAnswers reads what a Prometheus would answer.
func TestAnswers(t *testing.T) {
	answers := map[string]string{
		"/api/v1/query":   `{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[1.5,"7"]}]}`,
		"/api/v1/targets": `{"activeTargets":[{"labels":{"job":"x"},"health":"up"}],"droppedTargets":[]}`,
		"/api/v1/rules": `{"groups":[{"name":"g","file":"f","interval":1,"rules":[
			{"type":"alerting","name":"A","query":"x","duration":1,"health":"ok","state":"inactive"},
			{"type":"alerting","name":"B","query":"x","duration":1,"health":"err","lastError":"many-to-many","state":"inactive"},
			{"type":"recording","name":"c","query":"x","health":"unknown"}]}]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"status":"success","data":` + answers[r.URL.Path] + `}`))
	}))
	defer server.Close()
	api, err := newAPI(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{api: api}
	if v, err := s.Query(t.Context(), "x"); err != nil || len(v) != 1 || v[0].Value != 7 || v[0].Metric["a"] != "b" {
		t.Errorf("query: %v, %v", v, err)
	}
	if targets, err := s.Targets(t.Context()); err != nil || len(targets) != 1 || targets[0].Health != "up" || targets[0].Labels["job"] != "x" {
		t.Errorf("targets: %v, %v", targets, err)
	}
	if problems, err := s.RuleErrors(t.Context()); err != nil || strings.Join(problems, "; ") != "B: err many-to-many; c: unknown " {
		t.Errorf("rules: %q, %v", problems, err)
	}
	answers["/api/v1/query"] = `{"resultType":"matrix","result":[]}`
	if _, err := s.Query(t.Context(), "x[5m]"); err == nil || !strings.Contains(err.Error(), "not a vector") {
		t.Errorf("an expression that gives no vector: %v", err)
	}
}

func TestStartReportsErrors(t *testing.T) {
	if why := Missing(); why != "" {
		t.Skip("SKIPPED: " + why)
	}
	if _, err := Start(t.Context(), t.TempDir(), "no_such_field: 1\n"); err == nil || !strings.Contains(err.Error(), "no_such_field") {
		t.Errorf("a configuration that is none: %v", err)
	}
	if _, err := Lint(t.Context(), "what is this"); err == nil {
		t.Error("an exposition that is none has no complaints")
	}
	complaints, err := Lint(t.Context(), "# TYPE ebb_x counter\nebb_x 1\n")
	if err != nil || !strings.Contains(strings.Join(complaints, " "), "_total") {
		t.Errorf("a counter without _total: %v, %v", complaints, err)
	}
	if out, err := Promtool(t.Context(), t.TempDir(), "check", "config", "none.yml"); err == nil || !strings.Contains(out, "none.yml") {
		t.Errorf("promtool about a file that is not there: %v", err)
	}
}
