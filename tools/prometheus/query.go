package prometheus

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Sample is one series at one moment.
type Sample struct {
	Labels map[string]string // the name is __name__
	Value  float64
}

// Query evaluates an expression now.
func (s *Server) Query(ctx context.Context, expr string) ([]Sample, error) {
	var data struct {
		ResultType string          `json:"resultType"`
		Result     json.RawMessage `json:"result"`
	}
	if err := s.get(ctx, "/api/v1/query?query="+url.QueryEscape(expr), &data); err != nil {
		return nil, fmt.Errorf("query %s: %w", expr, err)
	}
	if data.ResultType != "vector" {
		return nil, fmt.Errorf("query %s: it gives a %s, not a vector", expr, data.ResultType)
	}
	var vector []struct {
		Metric map[string]string `json:"metric"`
		Value  [2]any            `json:"value"`
	}
	if err := json.Unmarshal(data.Result, &vector); err != nil {
		return nil, fmt.Errorf("query %s: %w", expr, err)
	}
	samples := make([]Sample, 0, len(vector))
	for _, v := range vector {
		text, _ := v.Value[1].(string)
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("query %s: %w", expr, err)
		}
		samples = append(samples, Sample{v.Metric, n})
	}
	return samples, nil
}

// Await repeats a query until accept has no more objection.
func (s *Server) Await(ctx context.Context, expr string, accept func([]Sample) error) ([]Sample, error) {
	for {
		samples, err := s.Query(ctx, expr)
		if err == nil {
			if err = accept(samples); err == nil {
				return samples, nil
			}
		}
		select {
		case <-ctx.Done():
			return samples, fmt.Errorf("waited in vain for %s: %w", expr, err)
		case <-time.After(100 * time.Millisecond): // between two looks, not instead of one
		}
	}
}

// Alert is one that is pending or firing.
type Alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	State       string            `json:"state"`
}

// Alerts are all that are pending or firing.
func (s *Server) Alerts(ctx context.Context) ([]Alert, error) {
	var data struct {
		Alerts []Alert `json:"alerts"`
	}
	err := s.get(ctx, "/api/v1/alerts", &data)
	return data.Alerts, err
}

// Target is what is scraped.
type Target struct {
	Labels    map[string]string `json:"labels"`
	Health    string            `json:"health"` // up, down or unknown
	LastError string            `json:"lastError"`
}

// Targets are all that are scraped.
func (s *Server) Targets(ctx context.Context) ([]Target, error) {
	var data struct {
		ActiveTargets []Target `json:"activeTargets"`
	}
	err := s.get(ctx, "/api/v1/targets", &data)
	return data.ActiveTargets, err
}

func (s *Server) get(ctx context.Context, path string, data any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer := struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   any    `json:"data"`
	}{Data: data}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("status %d: %w", resp.StatusCode, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("status %d: %s", resp.StatusCode, answer.Error)
	}
	return nil
}

// RuleErrors are what is wrong with rules as they are evaluated; rules that were not
// evaluated yet count, too.
func (s *Server) RuleErrors(ctx context.Context) (problems []string, err error) {
	var data struct {
		Groups []struct {
			Rules []struct {
				Name      string `json:"name"`
				Health    string `json:"health"`
				LastError string `json:"lastError"`
			} `json:"rules"`
		} `json:"groups"`
	}
	if err := s.get(ctx, "/api/v1/rules", &data); err != nil {
		return nil, err
	}
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			if r.Health != "ok" {
				problems = append(problems, fmt.Sprintf("%s: %s %s", r.Name, r.Health, r.LastError))
			}
		}
	}
	return problems, nil
}
