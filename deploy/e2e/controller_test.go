package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

// account is ebb-controller's own service account, by a real token.
type account struct {
	b      *fixture
	client *http.Client
	token  string
}

func (b *fixture) account(t *testing.T) *account {
	t.Helper()
	var answer struct{ Status struct{ Token string } }
	if err := b.Ask(t.Context(), http.MethodPost, "/api/v1/namespaces/ebb-system/serviceaccounts/ebb-controller/token",
		object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": object{"expirationSeconds": 3600}}, &answer); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b.Authority().PEM()) {
		t.Fatal("no certificate of the authority")
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
	t.Cleanup(client.CloseIdleConnections)
	return &account{b, client, answer.Status.Token}
}

func (c *account) ask(t *testing.T, method, path, contentType string, in any) answer {
	t.Helper()
	return request(t, c.client, method, c.b.URL()+path, map[string]string{"Authorization": "Bearer " + c.token, "Content-Type": contentType}, in)
}

const jsonPatch, plainJSON = "application/json-patch+json", "application/json"

func TestController(t *testing.T) {
	// The plugin itself is on: what the account does must be within its rules.
	b := start(t, peers.Config{APIServerArgs: []string{"--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement"}})
	b.ApplyFiles(t, "manifests/00-namespace.yaml", "manifests/controller/rbac.yaml", "manifests/controller/flowschema.yaml", "admission/policy.yaml", "admission/deny.yaml")
	b.furnish(t)
	c := b.account(t)
	await.Holds(t, patience, "the account's rights", func(context.Context) error {
		if c.ask(t, http.MethodGet, "/apis/example.io/v1/widgets", plainJSON, nil).code != http.StatusOK {
			return errNotYet
		}
		return nil
	})
	t.Run("observes", func(t *testing.T) { testObserves(t, b, c) })
	b.ApplyFiles(t, "manifests/enforce/controller-rbac.yaml")
	await.Holds(t, patience, "the account's rights to change things", func(context.Context) error {
		if c.ask(t, http.MethodDelete, "/api/v1/namespaces/a/configmaps/nobody", plainJSON, nil).code != http.StatusNotFound {
			return errNotYet
		}
		return nil
	})
	t.Run("rights", func(t *testing.T) { testRights(t, b, c) })
	t.Run("no more rights", func(t *testing.T) { testNoMoreRights(t, c) })
	t.Run("lease", func(t *testing.T) { testLease(t, c) })
	t.Run("flow schemas", func(t *testing.T) { testFlowSchemas(t, b, c) })
}

// collected are objects of types that have rules of their own about who may
// change them.
func collected() map[string]object {
	const rbac = "/apis/rbac.authorization.k8s.io/v1/"
	admin := object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
	everything := []object{{"apiGroups": []string{"*"}, "resources": []string{"*"}, "verbs": []string{"*"}}}
	return map[string]object{
		"/api/v1/namespaces/a/configmaps":          {},
		"/api/v1/namespaces/a/secrets":             {},
		"/api/v1/namespaces/a/serviceaccounts":     {},
		"/api/v1/namespaces/a/pods":                pod,
		"/api/v1/namespaces":                       {},
		"/apis/example.io/v1/namespaces/a/widgets": {"apiVersion": "example.io/v1", "kind": "Widget"},
		"/apis/example.io/v1/gadgets":              {"apiVersion": "example.io/v1", "kind": "Gadget"},
		// Rights that the account does not have itself: a change of an owner
		// reference is no escalation.
		rbac + "clusterroles":                                                   {"rules": everything},
		rbac + "clusterrolebindings":                                            {"roleRef": admin},
		rbac + "namespaces/a/roles":                                             {"rules": everything},
		rbac + "namespaces/a/rolebindings":                                      {"roleRef": admin},
		"/apis/coordination.k8s.io/v1/namespaces/a/leases":                      {},
		"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas":                     {"spec": object{"priorityLevelConfiguration": object{"name": "catch-all"}}},
		"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": {},
	}
}

// testObserves: with the rights of a controller that observes, nothing can be changed.
func testObserves(t *testing.T, b *fixture, c *account) {
	for path, fields := range collected() {
		o := object{"metadata": object{"name": "observed"}}
		for k, v := range fields {
			o[k] = v
		}
		b.Must(t, http.MethodPost, path, o)
		if a := c.ask(t, http.MethodGet, path+"/observed", plainJSON, nil); a.code != http.StatusOK {
			t.Errorf("read %s: %d %s", path, a.code, a.body)
		}
		if a := c.ask(t, http.MethodDelete, path+"/observed", plainJSON, nil); a.code != http.StatusForbidden {
			t.Errorf("delete %s: %d %s", path, a.code, a.body)
		}
		label := []object{{"op": "add", "path": "/metadata/labels", "value": object{"a": "b"}}}
		if a := c.ask(t, http.MethodPatch, path+"/observed", jsonPatch, label); a.code != http.StatusForbidden {
			t.Errorf("patch %s: %d %s", path, a.code, a.body)
		}
		b.Must(t, http.MethodDelete, path+"/observed", nil)
	}
}

// testRights does what the collector does, with every kind of object.
func testRights(t *testing.T, b *fixture, c *account) {
	yes := true
	for path, fields := range collected() {
		o := object{"metadata": object{"name": "dependent", "finalizers": []string{"foregroundDeletion"},
			"ownerReferences": []reference{{"v1", "Node", "o1", "uid-1", &yes}, {"v1", "Node", "o2", "uid-2", nil}}}}
		for k, v := range fields {
			o[k] = v
		}
		b.Must(t, http.MethodPost, path, o)
		steps := []struct {
			method, query, contentType string
			body                       any
		}{
			{http.MethodGet, "", plainJSON, nil},
			{http.MethodPatch, "", jsonPatch, []object{ // unblock
				{"op": "test", "path": "/metadata/ownerReferences/0/uid", "value": "uid-1"},
				{"op": "replace", "path": "/metadata/ownerReferences/0/blockOwnerDeletion", "value": false}}},
			{http.MethodPatch, "", jsonPatch, []object{ // remove a reference
				{"op": "test", "path": "/metadata/ownerReferences/0/uid", "value": "uid-1"},
				{"op": "remove", "path": "/metadata/ownerReferences/0"}}},
			{http.MethodDelete, "?gracePeriodSeconds=0", plainJSON, object{"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"}},
			{http.MethodPatch, "", jsonPatch, []object{
				{"op": "test", "path": "/metadata/finalizers/0", "value": "foregroundDeletion"},
				{"op": "remove", "path": "/metadata/finalizers/0"}}},
		}
		for _, s := range steps {
			if a := c.ask(t, s.method, path+"/dependent"+s.query, s.contentType, s.body); a.code/100 != 2 {
				t.Errorf("%s %s %v: %d %s", s.method, path, s.body, a.code, a.body)
			}
		}
		if path == "/api/v1/namespaces" {
			continue // its content goes first, and nobody here sees to that
		}
		if a := b.as(t, "", http.MethodGet, path+"/dependent", nil); a.code != http.StatusNotFound {
			t.Errorf("%s is not gone: %d %s", path, a.code, a.body)
		}
	}
	testEvents(t, c)
}

func testEvents(t *testing.T, c *account) {
	for i, path := range []string{"/api/v1/namespaces/a/events", "/apis/events.k8s.io/v1/namespaces/a/events"} {
		event := object{"metadata": object{"name": fmt.Sprint("warning-", i)}, "type": "Warning", "reason": "OwnerRefInvalidNamespace", "action": "Collect",
			"eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "ebb-controller", "reportingInstance": "x", "reportingComponent": "ebb-controller"}
		target := object{"kind": "ConfigMap", "namespace": "a", "name": "dependent", "apiVersion": "v1"}
		if path[:5] == "/apis" {
			event["regarding"] = target
		} else {
			event["involvedObject"] = target
		}
		if a := c.ask(t, http.MethodPost, path, plainJSON, event); a.code != http.StatusCreated {
			t.Errorf("create an event by %s: %d %s", path, a.code, a.body)
		}
	}
}

// testNoMoreRights: a stolen token makes nothing, and gives nobody rights.
func testNoMoreRights(t *testing.T, c *account) {
	for path, fields := range collected() {
		o := object{"metadata": object{"name": "forbidden"}}
		for k, v := range fields {
			o[k] = v
		}
		if a := c.ask(t, http.MethodPost, path, plainJSON, o); a.code != http.StatusForbidden {
			t.Errorf("the account creates %s: %d %s", path, a.code, a.body)
		}
	}
	escalate := []object{{"op": "add", "path": "/rules/-", "value": object{"apiGroups": []string{"*"}, "resources": []string{"*"}, "verbs": []string{"*"}}}}
	if a := c.ask(t, http.MethodPatch, "/apis/rbac.authorization.k8s.io/v1/clusterroles/ebb-controller", jsonPatch, escalate); a.code != http.StatusForbidden {
		t.Errorf("the account gives itself rights: %d %s", a.code, a.body)
	}
}

func testLease(t *testing.T, c *account) {
	const leases = "/apis/coordination.k8s.io/v1/namespaces/ebb-system/leases"
	const other = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"
	lease := object{"metadata": object{"name": "ebb-controller"}, "spec": object{"holderIdentity": "me", "leaseDurationSeconds": 15}}
	made := c.ask(t, http.MethodPost, leases, plainJSON, lease)
	if made.code != http.StatusCreated {
		t.Fatalf("create the lease: %d %s", made.code, made.body)
	}
	if err := json.Unmarshal(made.body, &lease); err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct {
		method, path string
		in           any
		want         int
	}{
		{http.MethodGet, leases + "/ebb-controller", nil, http.StatusOK},
		{http.MethodPut, leases + "/ebb-controller", lease, http.StatusOK},
		{http.MethodPut, other, lease, http.StatusForbidden},
	} {
		if a := c.ask(t, s.method, s.path, plainJSON, s.in); a.code != s.want {
			t.Errorf("%s %s: %d, want %d: %s", s.method, s.path, a.code, s.want, a.body)
		}
	}
}

func testFlowSchemas(t *testing.T, b *fixture, c *account) {
	uid := func(path string) string {
		var o struct{ Metadata peerstest.Meta }
		b.Read(t, "/apis/flowcontrol.apiserver.k8s.io/v1/"+path, &o)
		return o.Metadata.UID
	}
	const lease = "/apis/coordination.k8s.io/v1/namespaces/ebb-system/leases/ebb-controller"
	for _, r := range []struct{ method, path, schema, level string }{
		{http.MethodGet, "/apis", "ebb-controller", "ebb-controller"},
		{http.MethodGet, "/api/v1/pods?limit=500", "ebb-controller", "ebb-controller"},
		{http.MethodGet, "/apis/example.io/v1/widgets", "ebb-controller", "ebb-controller"},
		{http.MethodGet, "/apis/coordination.k8s.io/v1/leases", "ebb-controller", "ebb-controller"},
		{http.MethodDelete, "/api/v1/namespaces/a/configmaps/nobody", "ebb-controller", "ebb-controller"},
		{http.MethodGet, lease, "ebb-controller-leader-election", "leader-election"},
		{http.MethodPut, lease, "ebb-controller-leader-election", "leader-election"},
	} {
		schema, level := uid("flowschemas/"+r.schema), uid("prioritylevelconfigurations/"+r.level)
		// New schemas take a moment to count.
		await.Holds(t, patience, r.method+" "+r.path+" to be classified", func(context.Context) error {
			h := c.ask(t, r.method, r.path, plainJSON, nil).header
			if h.Get("X-Kubernetes-PF-FlowSchema-UID") != schema || h.Get("X-Kubernetes-PF-PriorityLevel-UID") != level {
				return errNotYet
			}
			return nil
		})
	}
	// Others are not: the schemas name one account.
	other := b.as(t, "system:serviceaccount:default:ebb-controller", http.MethodGet, "/apis", nil)
	if got := other.header.Get("X-Kubernetes-PF-FlowSchema-UID"); got == uid("flowschemas/ebb-controller") || got == "" {
		t.Errorf("an account of the same name elsewhere has flow schema %q", got)
	}
}
