package prometheus

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/ebb-agent/ebb/tools/await"
)

func newAPI(base string) (v1.API, error) {
	client, err := api.NewClient(api.Config{Address: base, Client: http.DefaultClient})
	return v1.NewAPI(client), err
}

// Query evaluates an expression now.
func (s *Server) Query(ctx context.Context, expr string) (model.Vector, error) {
	value, _, _, err := s.api.Query(ctx, expr, time.Now())
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", expr, err)
	}
	vector, ok := value.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("query %s: it gives a %s, not a vector", expr, value.Type())
	}
	return vector, nil
}

// Await repeats a query until accept returns nil.
func (s *Server) Await(ctx context.Context, expr string, accept func(model.Vector) error) (found model.Vector, err error) {
	return found, await.Until(ctx, expr, func(ctx context.Context) error {
		if found, err = s.Query(ctx, expr); err != nil {
			return err
		}
		return accept(found)
	})
}

// Targets returns all active targets.
func (s *Server) Targets(ctx context.Context) ([]v1.ActiveTarget, error) {
	targets, err := s.api.Targets(ctx)
	return targets.Active, err
}

// RuleErrors returns the problems of rules in their evaluation. A rule that was not
// evaluated yet counts as a problem.
func (s *Server) RuleErrors(ctx context.Context) (problems []string, err error) {
	rules, err := s.api.Rules(ctx, nil)
	for _, g := range rules.Groups {
		for _, rule := range g.Rules {
			var name, why string
			var health v1.RuleHealth
			switch r := rule.(type) {
			case v1.AlertingRule:
				name, health, why = r.Name, r.Health, r.LastError
			case v1.RecordingRule:
				name, health, why = r.Name, r.Health, r.LastError
			}
			if health != v1.RuleHealthGood {
				problems = append(problems, fmt.Sprintf("%s: %s %s", name, health, why))
			}
		}
	}
	return problems, err
}
