package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
)

// lostNodes is a cluster with Pods on Nodes that are there, gone, or out of service.
func (c *collectable) lostNodes() {
	c.t.Helper()
	for _, name := range []string{"there-1", "there-2", "there-3", "off", "lost"} {
		node := object{"apiVersion": "v1", "kind": "Node", "metadata": object{"name": name}}
		if name == "off" {
			node["spec"] = object{"taints": []any{object{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}}}
		}
		if err := c.Ask(c.t.Context(), http.MethodPost, "/api/v1/nodes", node, nil); err != nil && !peers.HasStatus(err, http.StatusConflict) {
			c.t.Fatal(err)
		}
	}
	c.status("/api/v1/nodes/off", object{"conditions": []any{object{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}}})
	for _, p := range []struct {
		name, node, phase string
		finalizer         bool
		deleted           bool // by its user, before
	}{
		{name: "runs", node: "there-1", phase: "Running"},
		{name: "ends", node: "there-2", phase: "Running", deleted: true}, // its kubelet's business
		{name: "ran", node: "lost", phase: "Running"},
		{name: "waited", node: "lost", phase: "Pending"},
		{name: "over", node: "lost", phase: "Succeeded"},
		{name: "held", node: "lost", phase: "Running", finalizer: true},
		{name: "off", node: "off", phase: "Running", deleted: true},
		{name: "off-and-kept", node: "off", phase: "Running"},
		{name: "never-bound", phase: "Pending", finalizer: true, deleted: true},
	} {
		spec := object{}
		for key, v := range podSpec {
			spec[key] = v
		}
		if p.node != "" {
			spec["nodeName"] = p.node
		}
		meta := object{"name": p.name}
		if p.finalizer {
			meta["finalizers"] = []any{"example.com/hold"}
		}
		c.Must(c.t, http.MethodPost, c.podsPath(), object{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
		c.status(c.podsPath()+"/"+p.name, object{"phase": p.phase})
		if p.deleted {
			c.Must(c.t, http.MethodDelete, c.podsPath()+"/"+p.name, object{"gracePeriodSeconds": 30})
		}
	}
	c.Must(c.t, http.MethodDelete, "/api/v1/nodes/lost", nil)
}

// podStates are the Pods that are there: "name phase reason-of-DisruptionTarget deleted".
func (c *collectable) podStates(ctx context.Context) (list []string, err error) {
	var found struct {
		Items []struct {
			Metadata struct{ Name, DeletionTimestamp string }
			Status   struct {
				Phase      string
				Conditions []struct{ Type, Status, Reason string }
			}
		}
	}
	if err := c.Ask(ctx, http.MethodGet, c.podsPath(), nil, &found); err != nil {
		return nil, err
	}
	for _, p := range found.Items {
		words := []string{p.Metadata.Name, p.Status.Phase}
		for _, condition := range p.Status.Conditions {
			if condition.Type == "DisruptionTarget" {
				words = append(words, condition.Status, condition.Reason)
			}
		}
		if p.Metadata.DeletionTimestamp != "" {
			words = append(words, "deleted")
		}
		list = append(list, strings.Join(words, " "))
	}
	slices.Sort(list)
	return list, nil
}

// Pods of a Node that is gone are marked as failed and deleted, as the
// kube-controller-manager does it, with two requests each; what finalizers hold is asked
// for once. Nothing happens to Pods whose Node is there.
func TestPodsOfLostNodes(t *testing.T) {
	b := newFixture(t, peers.Config{Audit: true, ControllerManager: true, ControllerManagerArgs: []string{"--controllers=pod-garbage-collector-controller"}})
	if err := b.ControllerManager.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := []string{
		"ends Running deleted", "held Failed True DeletionByPodGC deleted", "never-bound Failed deleted", "off-and-kept Running", "runs Running",
	}
	// count has one of them collect, and counts its requests on Pods by verb and name.
	count := func(user string, run func(c *collectable) (stop func())) map[string]int {
		c := &collectable{fixture: b, t: t, namespace: b.scenario(t).namespace}
		b.Must(t, http.MethodPost, "/api/v1/namespaces/"+c.namespace+"/serviceaccounts",
			object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": object{"name": "default"}})
		c.lostNodes()
		from := b.auditEnd(t)
		stop := run(c)
		await.Holds(t, 4*time.Minute, "the Pods of lost Nodes to go", func(ctx context.Context) error {
			got, err := c.podStates(ctx)
			if diff := cmp.Diff(left, got); err == nil && diff != "" {
				err = fmt.Errorf("%s", diff)
			}
			return err
		})
		stop()
		requests := map[string]int{}
		if _, err := b.ReadAudit(from, func(e peers.AuditEvent) {
			if e.User.Username == user && e.ObjectRef.Resource == "pods" && e.ObjectRef.Namespace == c.namespace && e.Verb != "list" && e.Verb != "watch" {
				requests[e.ObjectRef.Name]++
			}
		}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"held", "never-bound"} { // they are in nobody's way
			b.Must(t, http.MethodPut, c.podsPath()+"/"+name, c.without(name))
		}
		return requests
	}
	peer := count("system:serviceaccount:kube-system:pod-garbage-collector", func(*collectable) func() {
		if err := b.ControllerManager.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := b.ControllerManager.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
	ebb := count("system:serviceaccount:ebb-system:ebb-controller", func(*collectable) func() {
		r := b.start(t, b.kubeconfig, func(c *config.Config) {
			c.Collectors.Pods.Mode, c.Collectors.Pods.Quarantine = config.Enforce, config.Duration(time.Second)
			c.Collectors.Pods.MaxShare = 0.5
		})
		return r.stop
	})
	t.Logf("requests: the peer's %v, ebb's %v", peer, ebb)
	// Another DELETE of the one that was deleted already, and that a finalizer holds, changes nothing.
	if diff := cmp.Diff(map[string]int{"ran": 2, "waited": 2, "over": 1, "held": 2, "off": 2, "never-bound": 1}, ebb); diff != "" {
		t.Errorf("requests: %s", diff)
	}
}

// Too many Nodes are lost at once: their Pods stay until a person confirms, Node by Node. Pods that
// nobody may delete, because their namespace is excluded or an admission policy refuses it, do not make
// their Nodes count.
func TestManyLostNodes(t *testing.T) {
	b := newFixture(t, peers.Config{})
	c := &collectable{fixture: b, t: t, namespace: b.scenario(t).namespace}
	excluded := b.scenario(t).namespace
	for _, namespace := range []string{c.namespace, excluded} {
		b.Must(t, http.MethodPost, "/api/v1/namespaces/"+namespace+"/serviceaccounts",
			object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": object{"name": "default"}})
	}
	const policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
	b.Must(t, http.MethodPost, policies+"ies", object{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
		"metadata": object{"name": "keep-agents"}, "spec": object{
			"matchConstraints": object{"resourceRules": []any{object{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"DELETE"}, "resources": []any{"pods"}}}},
			"validations":      []any{object{"expression": "!oldObject.metadata.name.startsWith('refused')"}},
		}})
	b.Must(t, http.MethodPost, policies+"ybindings", object{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
		"metadata": object{"name": "keep-agents"}, "spec": object{"policyName": "keep-agents", "validationActions": []any{"Deny"}}})
	const nodes = 12
	pod := func(namespace, name, node string) {
		spec := object{"nodeName": node}
		for key, v := range podSpec {
			spec[key] = v
		}
		b.Must(t, http.MethodPost, "/api/v1/namespaces/"+namespace+"/pods", object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": name}, "spec": spec})
	}
	for i := range nodes {
		node := fmt.Sprint("node-", i)
		b.Must(t, http.MethodPost, "/api/v1/nodes", object{"apiVersion": "v1", "kind": "Node", "metadata": object{"name": node}})
		pod(excluded, fmt.Sprint("agent-", i), node)
		pod(c.namespace, fmt.Sprint("refused-", i), node)
		pod(c.namespace, fmt.Sprint("web-", i), node)
	}
	lose := func(from, to int) {
		for i := from; i < to; i++ {
			b.Must(t, http.MethodDelete, fmt.Sprint("/api/v1/nodes/node-", i), nil)
		}
	}
	left := func(what string, want ...string) {
		t.Helper()
		await.Holds(t, time.Minute, what, func(ctx context.Context) error {
			list, err := c.podStates(ctx)
			list = slices.DeleteFunc(list, func(state string) bool { return !strings.HasPrefix(state, "web-") })
			for i, state := range list {
				list[i], _, _ = strings.Cut(state, " ")
			}
			if diff := cmp.Diff(want, list); err == nil && diff != "" {
				err = fmt.Errorf("%s", diff)
			}
			return err
		})
	}
	r := b.start(t, b.kubeconfig, func(c *config.Config) {
		c.Exclude.Namespaces = []string{excluded}
		c.Collectors.Pods.Mode, c.Collectors.Pods.Quarantine = config.Enforce, config.Duration(time.Second)
	})
	lost := func() (names []string) {
		list, err := r.LostNodes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range list {
			names = append(names, n.Node)
		}
		return names
	}
	// One after the other is no mistake, though what nobody may delete stays on each of them. At the
	// end it is on more than a third of all Nodes.
	for i := range 6 {
		lose(i, i+1)
		await.Holds(t, time.Minute, "the Pod of a lost Node to go", func(ctx context.Context) error {
			if err := b.Ask(ctx, http.MethodGet, fmt.Sprintf("%s/web-%d", c.podsPath(), i), nil, nil); !peers.HasStatus(err, http.StatusNotFound) {
				return fmt.Errorf("web-%d is there (%v); held: %v", i, err, lost())
			}
			return nil
		})
	}
	lose(6, 11)
	await.Holds(t, time.Minute, "the Nodes to be held", func(context.Context) error {
		if diff := cmp.Diff([]string{"node-10", "node-6", "node-7", "node-8", "node-9"}, lost()); diff != "" {
			return fmt.Errorf("%s", diff)
		}
		return nil
	})
	if other, err := r.ConfirmLost(t.Context(), []string{"node-7", "node-11"}); err != nil || !slices.Equal(other, []string{"node-11"}) {
		t.Fatalf("nobody waits for %v: %v", other, err)
	}
	left("the Pod of the Node that was confirmed to go", "web-10", "web-11", "web-6", "web-8", "web-9")
	if _, err := r.ConfirmLost(t.Context(), []string{"node-10", "node-6", "node-8", "node-9"}); err != nil {
		t.Fatal(err)
	}
	left("the others to go", "web-11")
	var agents struct{ Items []any }
	if err := b.Ask(t.Context(), http.MethodGet, "/api/v1/namespaces/"+excluded+"/pods", nil, &agents); err != nil || len(agents.Items) != nodes {
		t.Errorf("%d Pods of the excluded namespace are left, not %d: %v", len(agents.Items), nodes, err)
	}
}

// without finalizers.
func (c *collectable) without(pod string) object {
	c.t.Helper()
	var now object
	if err := c.Ask(c.t.Context(), http.MethodGet, c.podsPath()+"/"+pod, nil, &now); err != nil {
		c.t.Fatal(err)
	}
	delete(now["metadata"].(object), "finalizers")
	return now
}
