package e2e

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

// BenchmarkWrite times the same write on three API servers in turn: with neither,
// with the plugin, and with the policy. Dry runs, so that etcd's time is no part of it.
func BenchmarkWrite(b *testing.B) {
	peerstest.Need(b)
	servers := map[string]*fixture{}
	users := [][]grant{may, append([]grant{{"a", "apps", "deployments/finalizers", nil, "update"}, {"a", "", "configmaps", nil, "delete"}, {"a", "", "configmaps", nil, "patch"}}, may...)}
	for _, name := range contenders {
		config := peers.Config{}
		if name == "plugin" {
			config.APIServerArgs = []string{"--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement"}
		}
		s := start(b, config)
		s.furnish(b)
		s.allow(b, users)
		if name == "policy" {
			s.ApplyFiles(b, "admission/policy.yaml", "admission/deny.yaml")
		}
		if name != "none" {
			s.refusing(b)
		}
		s.Must(b, http.MethodPost, configMaps, dependents[0].object(nil))
		servers[name] = s
	}
	yes := true
	one, many := owners(1, "apps/v1", "Deployment", &yes), owners(24, "apps/v1", "Deployment", &yes)
	for _, w := range []timed{
		{"create without owners", userName(1), http.MethodPost, "", dependents[0].object(nil)},
		{"create with one owner", userName(1), http.MethodPost, "", dependents[0].object(one)},
		{"create with 24 owners", userName(1), http.MethodPost, "", dependents[0].object(many)},
		{"create with one owner as admin", "", http.MethodPost, "", dependents[0].object(one)},
		{"update of a label", userName(1), http.MethodPatch, "/dependent", object{"metadata": object{"labels": object{"a": "b"}}}},
		{"update of an owner", userName(1), http.MethodPatch, "/dependent", object{"metadata": object{"ownerReferences": one}}},
	} {
		b.Run(w.name, func(b *testing.B) { w.measure(b, servers) })
	}
}

// timed is a write that is measured.
type timed struct {
	name, user, method, path string
	body                     object
}

var contenders = []string{"none", "plugin", "policy"}

func (w timed) measure(b *testing.B, servers map[string]*fixture) {
	took := make(map[string][]time.Duration)
	if w.method == http.MethodPost {
		w.body["metadata"].(object)["name"] = "another"
	}
	for i := range b.N {
		for j := range contenders {
			name := contenders[(i+j)%len(contenders)]
			begun := time.Now()
			a := servers[name].as(b, w.user, w.method, configMaps+w.path+"?dryRun=All", w.body)
			took[name] = append(took[name], time.Since(begun))
			if a.code/100 != 2 {
				b.Fatalf("%s: %d %s", name, a.code, a.body)
			}
		}
	}
	for _, name := range contenders {
		slices.Sort(took[name])
		b.ReportMetric(float64(took[name][b.N/2].Microseconds()), name+"-µs")
	}
}
