package e2e

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ebb-agent/ebb/tools/admission"
	"github.com/ebb-agent/ebb/tools/peers"
)

// The literal map of the policy has the kinds that an API server with everything switched on
// serves.
func TestPolicyKnowsTheBuiltinKinds(t *testing.T) {
	b := start(t, peers.Config{APIServerArgs: []string{"--runtime-config=api/all=true", "--feature-gates=AllAlpha=true,AllBeta=true"}})
	var groups struct {
		Groups []struct {
			Versions []struct{ GroupVersion string }
		}
	}
	b.Read(t, "/apis", &groups)
	served := b.kinds(t, "", "/api/v1")
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			group, _, _ := strings.Cut(v.GroupVersion, "/")
			served = append(served, b.kinds(t, group, "/apis/"+v.GroupVersion)...)
		}
	}
	set := func(kinds []admission.Kind) map[admission.Kind]bool {
		m := make(map[admission.Kind]bool)
		for _, k := range kinds {
			m[k] = true
		}
		return m
	}
	if len(served) < len(admission.Builtin) {
		t.Errorf("discovery has only %d kinds", len(served))
	}
	if diff := cmp.Diff(set(served), set(admission.Builtin), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("served (-) and known (+):\n%s", diff)
	}
}

func (b *fixture) kinds(t *testing.T, group, path string) (kinds []admission.Kind) {
	t.Helper()
	var list struct {
		Resources []struct {
			Name, Kind string
			Namespaced bool
		}
	}
	b.Read(t, path, &list)
	for _, r := range list.Resources {
		if !strings.Contains(r.Name, "/") { // else a subresource
			kinds = append(kinds, admission.Kind{Group: group, Kind: r.Kind, Resource: r.Name, Namespaced: r.Namespaced})
		}
	}
	return kinds
}
