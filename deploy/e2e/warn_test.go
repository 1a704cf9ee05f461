package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/ebb-agent/ebb/tools/admission"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
)

const configMaps = "/api/v1/namespaces/a/configmaps"

func owners(n int, apiVersion, kind string, block *bool) (refs []reference) {
	for i := range n {
		refs = append(refs, reference{apiVersion, kind, fmt.Sprint("o", i), fmt.Sprint("uid-", i), block})
	}
	return refs
}

// TestWarnThenDeny goes the way that a cluster goes: warnings first, refusals when
// somebody asks for them, and back.
func TestWarnThenDeny(t *testing.T) {
	b := start(t, peers.Config{Audit: true})
	b.furnish(t)
	b.allow(t, [][]grant{may, append([]grant{{"a", "apps", "deployments/finalizers", nil, "update"}}, may...)})
	yes := true
	bad := dependents[0].object([]reference{{"v1", "Node", "o1", "uid-1", &yes}})
	create := func() answer { return b.as(t, userName(0), http.MethodPost, configMaps+"?dryRun=All", bad) }
	const why = "cannot set blockOwnerDeletion for the owner o1: its nodes/finalizers may not be updated by you"

	b.ApplyFiles(t, "admission/policy.yaml")
	await.Holds(t, patience, "a warning", func(context.Context) error {
		a := create()
		if a.code != http.StatusCreated {
			t.Fatalf("refused, where only a warning was asked for: %d %s", a.code, a.body)
		}
		if len(a.warnings) != 1 || !strings.Contains(a.warnings[0], why) {
			return fmt.Errorf("warnings: %q", a.warnings)
		}
		return nil
	})
	await.Holds(t, patience, "an entry in the audit log", func(context.Context) error {
		log, err := os.ReadFile(b.AuditLog())
		if err == nil && !strings.Contains(string(log), "validation.policy.admission.k8s.io/validation_failure") {
			return errNotYet
		}
		return err
	})

	b.ApplyFiles(t, "admission/deny.yaml")
	await.Holds(t, patience, "a refusal", func(context.Context) error {
		if a := create(); !a.refused() || !strings.Contains(string(a.body), why) {
			return fmt.Errorf("%d %s", a.code, a.body)
		}
		return nil
	})
	t.Run("many owners", func(t *testing.T) { testManyOwners(t, b) })
	t.Run("who may do everything", func(t *testing.T) {
		if a := b.as(t, "", http.MethodPost, configMaps+"?dryRun=All", bad); a.code != http.StatusCreated || len(a.warnings) > 0 {
			t.Errorf("%d %q %s", a.code, a.warnings, a.body)
		}
	})

	b.ApplyFiles(t, "admission/policy.yaml")
	await.Holds(t, patience, "warnings again", func(context.Context) error {
		if a := create(); a.code != http.StatusCreated || len(a.warnings) != 1 {
			return fmt.Errorf("%d %s", a.code, a.body)
		}
		return nil
	})
}

// testManyOwners is about what CEL has the budget for. The user may block
// deployments, and delete nothing.
func testManyOwners(t *testing.T, b *fixture) {
	yes, no := true, false
	const deployment = "Deployment"
	for _, c := range []struct {
		name, user string
		refs       []reference
		refused    bool
	}{
		{"as many as there are checks", userName(1), owners(admission.MostOwners, "apps/v1", deployment, &yes), false},
		{"one more", userName(1), owners(admission.MostOwners+1, "apps/v1", deployment, &yes), true},
		{"the last is not allowed", userName(1), append(owners(admission.MostOwners-1, "apps/v1", deployment, &yes), reference{"v1", "Node", "n", "uid-n", &yes}), true},
		{"the last is custom", userName(1), append(owners(admission.MostOwners-1, "apps/v1", deployment, &yes), reference{"example.io/v1", "Widget", "n", "uid-n", &yes}), true},
		{"500 that block nothing", userName(0), owners(500, "v1", "Node", &no), false},
		{"5,000 that block nothing", userName(0), owners(5000, "v1", "Node", nil), false},
		{"500, by who may do everything", "", owners(500, "v1", "Node", &yes), false},
		{"5,000, by who may do everything", "", owners(5000, "v1", "Node", &yes), false},
		{"5,000, by who may nothing", userName(0), owners(5000, "v1", "Node", &yes), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := b.as(t, c.user, http.MethodPost, configMaps+"?dryRun=All", dependents[0].object(c.refs))
			if a.refused() != c.refused || !c.refused && a.code != http.StatusCreated {
				t.Errorf("%d %.500s", a.code, a.body)
			}
			if len(a.warnings) > 0 {
				t.Errorf("warned: %q", a.warnings)
			}
		})
	}
	t.Run("one more beside 500", func(t *testing.T) { testOneMore(t, b) })
}

// testOneMore: what was blocked before needs no check again, however much it is.
func testOneMore(t *testing.T, b *fixture) {
	yes := true
	refs := owners(500, "v1", "Node", &yes)
	b.Must(t, http.MethodPost, configMaps, dependents[0].object(refs))
	defer b.Must(t, http.MethodDelete, configMaps+"/dependent", nil)
	b.allowDelete(t, userName(1))
	put := func(kind, apiVersion string) answer {
		return b.as(t, userName(1), http.MethodPut, configMaps+"/dependent?dryRun=All",
			dependents[0].object(append(refs[:500:500], reference{apiVersion, kind, "more", "uid-more", &yes})))
	}
	if a := put("Deployment", "apps/v1"); a.code != http.StatusOK {
		t.Errorf("one more deployment: %d %.500s", a.code, a.body)
	}
	if a := put("Node", "v1"); !a.refused() {
		t.Errorf("one more node: %d %.500s", a.code, a.body)
	}
}

func (b *fixture) allowDelete(t *testing.T, user string) {
	t.Helper()
	g := grant{"a", "", "configmaps", nil, "delete"}
	const api = "/apis/rbac.authorization.k8s.io/v1/namespaces/a/"
	meta := object{"name": "delete"}
	b.Must(t, http.MethodPost, api+"roles", object{"metadata": meta,
		"rules": []object{{"apiGroups": []string{""}, "resources": []string{"configmaps"}, "verbs": []string{"delete"}}}})
	b.Must(t, http.MethodPost, api+"rolebindings", object{"metadata": meta,
		"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "delete"},
		"subjects": []object{{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}}})
	b.awaitGrant(t, user, g)
}

// TestControllersPass: the kube-controller-manager's own controllers set
// blockOwnerDeletion under rights of their own, and none of them is refused or
// warned.
func TestControllersPass(t *testing.T) {
	b := start(t, peers.Config{Audit: true, ControllerManager: true})
	b.ApplyFiles(t, "admission/policy.yaml", "admission/deny.yaml")
	b.furnish(t)
	b.allow(t, [][]grant{may})
	b.refusing(t) // the policy counts from here on
	b.runWorkloads(t)
	log, err := os.ReadFile(b.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "validation_failure") && !strings.Contains(line, `"username":"`+userName(0)) {
			t.Errorf("not within the policy: %s", line)
		}
	}
}

// runWorkloads makes one workload of each kind, and waits for what its controller
// makes of it.
func (b *fixture) runWorkloads(t *testing.T) {
	t.Helper()
	labels := object{"app": "x"}
	template := object{"metadata": object{"labels": labels}, "spec": pod["spec"]}
	spec := object{"replicas": 2, "selector": object{"matchLabels": labels}, "template": template}
	stateful := object{"serviceName": "s", "replicas": 1, "selector": object{"matchLabels": labels}, "template": template}
	job := object{"template": object{"spec": object{"restartPolicy": "Never", "containers": pod["spec"].(object)["containers"]}}}
	for path, fields := range map[string]object{
		"/apis/apps/v1/namespaces/a/deployments":  {"spec": spec},
		"/apis/apps/v1/namespaces/a/statefulsets": {"spec": stateful},
		"/apis/apps/v1/namespaces/a/daemonsets":   {"spec": object{"selector": object{"matchLabels": labels}, "template": template}},
		"/apis/batch/v1/namespaces/a/jobs":        {"spec": job},
		"/apis/batch/v1/namespaces/a/cronjobs":    {"spec": object{"schedule": "* * * * *", "jobTemplate": object{"spec": job}}},
		"/api/v1/namespaces/a/services":           {"spec": object{"selector": labels, "ports": []object{{"port": 80}}}},
	} {
		o := object{"metadata": object{"name": "made"}}
		for k, v := range fields {
			o[k] = v
		}
		b.Must(t, http.MethodPost, path, o)
	}
	// Two pods of the deployment, one of the stateful set, one of the job; revisions
	// of stateful set and daemon set; the service's slice.
	for path, want := range map[string]int{
		"/apis/apps/v1/namespaces/a/replicasets": 1, "/api/v1/namespaces/a/pods": 4,
		"/apis/apps/v1/namespaces/a/controllerrevisions": 2, "/apis/discovery.k8s.io/v1/namespaces/a/endpointslices": 1,
	} {
		await.Holds(t, patience, path, func(context.Context) error {
			var list struct{ Items []json.RawMessage }
			b.Read(t, path, &list)
			if len(list.Items) < want {
				return fmt.Errorf("%d of %d", len(list.Items), want)
			}
			return nil
		})
	}
}
