package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
)

// TestCollectorFaults: collectors beside others, without a right, refused, and ended in the
// middle.
func TestCollectorFaults(t *testing.T) {
	const keep = 12
	b := newFixture(t, peers.Config{Audit: true, ControllerManager: true, ControllerManagerArgs: []string{
		"--controllers=pod-garbage-collector-controller,ttl-after-finished-controller", fmt.Sprintf("--terminated-pod-gc-threshold=%d", keep)}})
	if err := b.ControllerManager.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Run("forbidden", func(t *testing.T) { testCollectorForbidden(t, b) })
	t.Run("refused", func(t *testing.T) { testCollectorRefused(t, b) })
	t.Run("in the middle", func(t *testing.T) { testCollectorInTheMiddle(t, b) })
	t.Run("beside the peer", func(t *testing.T) { testCollectorBesidePeer(t, b, keep) })
}

func (b *fixture) collectable(t *testing.T) *collectable {
	t.Helper()
	c := &collectable{fixture: b, t: t, namespace: b.scenario(t).namespace}
	b.Must(t, http.MethodPost, "/api/v1/namespaces/"+c.namespace+"/serviceaccounts",
		object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": object{"name": "default"}})
	return c
}

// clear takes the Pods away, which would count for others.
func (c *collectable) clear() {
	c.Must(c.t, http.MethodDelete, c.podsPath(), object{"gracePeriodSeconds": 0})
}

// enforcing has Pods of one namespace go once there are more that ended, and Jobs.
func (c *collectable) enforcing(keep int) func(*config.Config) {
	return func(cfg *config.Config) {
		of := &cfg.Collectors
		of.Pods.Mode, of.Jobs.Mode, of.CSRs.Mode = config.Enforce, config.Enforce, config.Enforce
		of.Pods.Keep, of.Pods.Namespaces, of.Jobs.Namespaces = -1, []string{c.namespace}, []string{c.namespace}
		of.Pods.Succeeded.PerNamespace, of.Pods.Failed.PerNamespace = keep, keep
	}
}

// ended Pods of the namespace that are there.
func (c *collectable) ended(ctx context.Context) (n int, err error) {
	list, err := c.podStates(ctx)
	for _, state := range list {
		if !strings.Contains(state, "Running") {
			n++
		}
	}
	return n, err
}

func (c *collectable) awaitEnded(want int) {
	c.t.Helper()
	await.Holds(c.t, patience, fmt.Sprintf("%d Pods that ended", want), func(ctx context.Context) error {
		n, err := c.ended(ctx)
		if err == nil && n != want {
			err = fmt.Errorf("%d are there", n)
		}
		return err
	})
}

// Without the right to read Pods their collector reports it and waits; that of Jobs goes on.
func testCollectorForbidden(t *testing.T, b *fixture) {
	c := b.collectable(t)
	defer c.clear()
	c.job("over", 0, 0, "Complete")
	c.pods(6)
	b.Must(t, http.MethodPost, rbac+"clusterroles", object{"metadata": object{"name": "jobs"}, "rules": []any{
		object{"apiGroups": []any{"batch"}, "resources": []any{"jobs"}, "verbs": []any{"*"}},
		object{"apiGroups": []any{""}, "resources": []any{"nodes", "namespaces"}, "verbs": []any{"get", "list", "watch"}},
		object{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "verbs": []any{"*"}}}})
	b.Must(t, http.MethodPost, "/api/v1/namespaces/ebb-system/serviceaccounts", object{"metadata": object{"name": "limited"}})
	b.bindLimited(t, "jobs")
	kubeconfig, err := b.ServiceAccountKubeconfig(t.Context(), "ebb-system", "limited")
	if err != nil {
		t.Fatal(err)
	}
	r := b.start(t, kubeconfig, c.enforcing(1))
	await.Holds(t, patience, "the Job to go", func(ctx context.Context) error { return c.left(ctx) })
	r.awaitState(t, "pods", "unreadable")
	if n, err := c.ended(t.Context()); n != 6 || err != nil {
		t.Errorf("%d Pods are left, %v", n, err)
	}
	b.Must(t, http.MethodPost, rbac+"clusterroles", object{"metadata": object{"name": "pods"}, "rules": []any{
		object{"apiGroups": []any{""}, "resources": []any{"pods"}, "verbs": []any{"get", "list", "watch", "delete"}}}})
	b.bindLimited(t, "pods")
	c.awaitEnded(2) // one of each phase
	r.stop()
}

// What admission refuses stays and holds nobody else; once it is let, it goes.
func testCollectorRefused(t *testing.T, b *fixture) {
	const api = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
	c := b.collectable(t)
	defer c.clear()
	c.pods(8)
	b.Must(t, http.MethodPost, api+"ies", object{"metadata": object{"name": "keep-pods"}, "spec": object{
		"matchConstraints": object{"resourceRules": []any{object{"apiGroups": []string{""}, "apiVersions": []string{"v1"}, "resources": []string{"pods"}, "operations": []string{"DELETE"}}}},
		"validations":      []any{object{"expression": "false", "message": "no Pod goes"}}}})
	b.Must(t, http.MethodPost, api+"ybindings", object{"metadata": object{"name": "keep-pods"}, "spec": object{"policyName": "keep-pods", "validationActions": []string{"Deny"}}})
	await.Holds(t, patience, "the policy to be in force", func(ctx context.Context) error {
		if err := b.Ask(ctx, http.MethodDelete, c.podsPath()+"/pod-00?dryRun=All", nil, nil); err == nil {
			return errors.New("it is not")
		}
		return nil
	})
	c.job("over", 0, 0, "Complete")
	r := b.start(t, b.kubeconfig, c.enforcing(1))
	await.Holds(t, patience, "the Job to go", func(ctx context.Context) error { return c.left(ctx) })
	await.Holds(t, patience, "the refusals in the record", func(context.Context) error {
		refused := map[string]bool{}
		for _, d := range r.Decisions() {
			if d.Object.Kind == "Pod" && d.Result == gc.Forbidden.String() && strings.Contains(d.Error, "no Pod goes") {
				refused[d.Object.Name] = true
			}
		}
		if len(refused) != 6 {
			return fmt.Errorf("%v", refused)
		}
		return nil
	})
	c.awaitEnded(8)
	b.Must(t, http.MethodDelete, api+"ybindings/keep-pods", nil)
	c.awaitEnded(2)
	r.stop()
}

// Whoever comes after a controller that ended in the middle deletes the rest, and nothing
// a second time.
func testCollectorInTheMiddle(t *testing.T, b *fixture) {
	const ended = 120
	c := b.collectable(t)
	defer c.clear()
	c.pods(ended)
	from, err := b.ReadAudit(0, func(peers.AuditEvent) {})
	if err != nil {
		t.Fatal(err)
	}
	first := b.start(t, b.kubeconfig, c.enforcing(1))
	await.Holds(t, patience, "some to go", func(ctx context.Context) error {
		n, err := c.ended(ctx)
		if err == nil && n == ended {
			err = errors.New("none has")
		}
		return err
	})
	first.stop()
	second := b.start(t, b.kubeconfig, c.enforcing(1))
	c.awaitEnded(2)
	second.stop()
	c.deletedOnce(from, ended-2)
}

// deletedOnce checks that so many Pods were deleted, by any client, and none twice by the
// same client. If two clients delete a Pod within the same milliseconds, the API server answers
// both with success: a deletion without grace does not report that another was first (ignoreNotFound
// in k8s.io/apiserver/pkg/registry/generic/registry/store.go).
func (c *collectable) deletedOnce(from int64, want int) {
	c.t.Helper()
	type deletion struct{ pod, by string }
	done, gone := map[deletion]int{}, map[string]bool{}
	if _, err := c.ReadAudit(from, func(e peers.AuditEvent) {
		if o := e.ObjectRef; e.Verb == "delete" && o.Resource == "pods" && o.Namespace == c.namespace && e.ResponseStatus.Code == http.StatusOK {
			done[deletion{o.Name, e.User.Username}]++
			gone[o.Name] = true
		}
	}); err != nil {
		c.t.Fatal(err)
	}
	for d, n := range done {
		if n > 1 {
			c.t.Errorf("%s was deleted %d times by %s", d.pod, n, d.by)
		}
	}
	if len(gone) != want {
		c.t.Errorf("%d Pods were deleted, not %d", len(gone), want)
	}
}

// Both collect the same at the same time: what stays is what stays with one of them, and
// nobody deletes anything twice.
func testCollectorBesidePeer(t *testing.T, b *fixture, keep int) {
	const ended = 60
	c := b.collectable(t)
	defer c.clear()
	c.pods(ended)
	for i := range 10 {
		c.job(fmt.Sprintf("job-%d", i), i%2*3600, 0, "Complete")
	}
	from, err := b.ReadAudit(0, func(peers.AuditEvent) {})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.ControllerManager.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := b.start(t, b.kubeconfig, func(cfg *config.Config) {
		cfg.Collectors.Pods.Mode, cfg.Collectors.Jobs.Mode = config.Enforce, config.Enforce
		cfg.Collectors.Pods.Keep = keep
	})
	await.Holds(t, patience, "the Jobs to go", func(ctx context.Context) error {
		return c.left(ctx, "job-1", "job-3", "job-5", "job-7", "job-9")
	})
	c.awaitEnded(keep)
	r.stop()
	if err := b.ControllerManager.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.deletedOnce(from, ended-keep)
}
