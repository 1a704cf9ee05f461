package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
)

// Two API servers stand behind one address, and only the first serves policy/v1: as
// in an upgrade. Connections go to them in turn and live half a second, so that
// discovery, watches and reads each meet both. What is of that group is never taken
// for gone, and all the rest goes on.
func TestTwoAPIServers(t *testing.T) {
	budget := kinds["cm"]
	budget.apiVersion, budget.kind, budget.resource = "policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"
	kinds["pdb"] = budget
	b := newFixture(t, peers.Config{})
	b.define(t, "v1")
	second, err := b.AddAPIServer(t.Context(), "--runtime-config=policy/v1=false")
	if err != nil {
		t.Fatal(err)
	}
	s := b.scenario(t)
	s.make("pdb/o", "pdb/p", "cm/q", "cm/a < pdb/o", "secret/b < !pdb/o", "pdb/c < cm/q", "cm/d < pdb/p")
	err = peers.Request(t.Context(), b.Admin, http.MethodGet, second.URL()+"/apis/policy/v1/namespaces/"+s.namespace+"/poddisruptionbudgets/o", nil, nil)
	if !peers.HasStatus(err, http.StatusNotFound) {
		t.Fatalf("the second API server serves it: %v", err)
	}
	p := newProxy(t, 500*time.Millisecond, b.URL(), second.URL())
	r := b.start(t, p.kubeconfig(t, b), nil)
	g := b.guard(t)
	ends := []string{"pdb/o", "cm/a=1", "secret/b=1"}
	for begun, i := time.Now(), 0; time.Since(begun) < 8*time.Second; i++ { // longer than a type may be missing
		name := fmt.Sprintf("cm/late-%d", i)
		s.make(name + " < pdb/o") // its owner is looked at now
		ends = append(ends, name+"=1")
		b.canary(t)
	}
	s.want(ends...)
	g.check(t)
	// Both serve it again: what was due goes.
	s.remove("pdb/p", background)
	s.remove("cm/q", background)
	if err := second.Kill(); err != nil {
		t.Fatal(err)
	}
	p.only(b.URL())
	await.Holds(t, patience, "the budgets to be followed", func(ctx context.Context) error {
		if state := r.state(ctx, "poddisruptionbudgets.policy"); state != "synced" {
			return fmt.Errorf("%q", state)
		}
		return nil
	})
	s.want("-cm/d", "-pdb/c")
	s.want(ends...)
}
