package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/jobs"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
)

// TestDefaultTTLByLabels: a default TTL follows the labels of namespaces, also of one that
// gets them later, and no other Job goes.
func TestDefaultTTLByLabels(t *testing.T) {
	b := newFixture(t, peers.Config{})
	labelled := func(label object) *collectable {
		c := &collectable{fixture: b, t: t, namespace: b.scenario(t).namespace}
		if label != nil {
			c.label(label)
		}
		c.job("ended", -1, time.Hour, "Complete")
		c.job("running", -1, 0, "")
		c.job("later", 7200, time.Hour, "Complete")
		return c
	}
	build, other, none := labelled(object{"team": "build"}), labelled(object{"team": "other"}), labelled(nil)
	r := b.start(t, b.kubeconfig, func(c *config.Config) {
		c.Collectors.Jobs.Mode = config.Enforce
		c.Collectors.Jobs.Defaults = []config.JobDefault{{NamespaceSelector: "team in (build, ci)", After: config.Duration(time.Minute)}}
	})
	await.Holds(t, patience, "the Job of team build to go", func(ctx context.Context) error { return build.left(ctx, "later", "running") })
	for _, c := range []*collectable{other, none} {
		if err := c.left(t.Context(), "ended", "later", "running"); err != nil {
			t.Error(err)
		}
		if got := c.why(r, "ended"); got != jobs.NoTTL {
			t.Errorf("a Job that nobody selected is kept because of %s", got)
		}
	}
	none.label(object{"team": "ci"})
	await.Holds(t, patience, "the Job of team ci to go", func(ctx context.Context) error { return none.left(ctx, "later", "running") })
	if err := other.left(t.Context(), "ended", "later", "running"); err != nil {
		t.Error(err)
	}
}

// nextJobGoes returns once a Job that ends now has gone, which is after whatever else was
// due by now.
func (b *fixture) nextJobGoes(t *testing.T) {
	t.Helper()
	c := &collectable{fixture: b, t: t, namespace: b.scenario(t).namespace}
	c.job("canary", 3, 0, "Complete")
	await.Holds(t, patience, "the next Job to go", func(ctx context.Context) error { return c.left(ctx) })
}

// label the namespace.
func (c *collectable) label(labels object) {
	c.t.Helper()
	c.Must(c.t, http.MethodPatch, "/api/v1/namespaces/"+c.namespace, object{"metadata": object{"labels": labels}})
}

// left returns an error unless exactly these Jobs are there.
func (c *collectable) left(ctx context.Context, want ...string) error {
	var found struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := c.Ask(ctx, http.MethodGet, c.jobsPath(), nil, &found); err != nil {
		return err
	}
	var names []string
	for _, j := range found.Items {
		names = append(names, j.Metadata.Name)
	}
	if fmt.Sprint(names) != fmt.Sprint(want) {
		return fmt.Errorf("%v are there, not %v", names, want)
	}
	return nil
}

// why a Job is kept.
func (c *collectable) why(r *running, name string) gc.Reason {
	c.t.Helper()
	var job struct{ Metadata struct{ UID string } }
	if err := c.Ask(c.t.Context(), http.MethodGet, c.jobsPath()+"/"+name, nil, &job); err != nil {
		c.t.Fatal(err)
	}
	e, err := r.Explain(c.t.Context(), gc.Coordinates{APIVersion: "batch/v1", Kind: "Job", Resource: "jobs", Namespace: c.namespace, Name: name, UID: job.Metadata.UID})
	if err != nil || len(e.Collectors) != 1 {
		c.t.Fatalf("%+v, %v", e, err)
	}
	return e.Collectors[0].Reason
}
