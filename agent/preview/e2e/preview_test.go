package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ebb-agent/ebb/agent/preview"
	"github.com/ebb-agent/ebb/policy/cascade"
	foresight "github.com/ebb-agent/ebb/policy/cascade/preview"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

func TestPreviewComesTrue(t *testing.T) {
	b := start(t)
	policies := []gc.Policy{gc.Background, gc.Foreground, gc.Orphan}
	for seed := range uint64(9) {
		policy := policies[seed%3]
		t.Run(fmt.Sprintf("%d %s", seed, policy), func(t *testing.T) {
			namespace := fmt.Sprint("world-", seed)
			b.Namespace(t, namespace)
			things := b.world(t, seed, namespace)
			target := things[seed%2] // one of those that others depend on
			answer, err := preview.Simulate(t.Context(), b.options(t, b.kubeconfig, target, policy))
			if err != nil {
				t.Fatal(err)
			}
			if !answer.Complete || answer.Pending > 0 {
				t.Errorf("not seen: %v, pending: %d", answer.NotSeen, answer.Pending)
			}
			var text strings.Builder
			if err := preview.WriteText(&text, answer); err != nil {
				t.Fatal(err)
			}
			t.Logf("\n%s", &text)
			// The kube-controller-manager's collector leaves what it has not seen by then as it is.
			b.rest(t)
			b.delete(t, target, policy)
			b.compare(t, answer, things)
		})
	}
	t.Run("the model", func(t *testing.T) { testFinalizers(t, b) })
	t.Run("refusals", func(t *testing.T) { testRefusals(t, b) })
	t.Run("forbidden", func(t *testing.T) { testForbidden(t, b) })
}

// world makes objects that depend on each other without circles, so that the
// kube-controller-manager's collector and ebb's do the same.
func (b *fixture) world(t *testing.T, seed uint64, namespace string) (things []*thing) {
	t.Helper()
	roll := rand.New(rand.NewPCG(seed, 1)).IntN
	for i := range 24 {
		kind := []string{"ConfigMap", "Secret", "Widget", "Realm"}[roll(4)]
		var owners []*thing
		var finalizers []string
		for range 2 {
			if i < 2 || roll(3) == 0 {
				continue
			}
			owner := things[roll(i)]
			namespaced := kind == "Realm" && owner.kind != "Realm" // such a reference is none
			if !namespaced && (len(owners) == 0 || owners[0] != owner) {
				owners = append(owners, owner)
			}
		}
		if roll(6) == 0 {
			finalizers = []string{hold}
		}
		// Whether a dependent that does not block goes before a held owner is a race.
		things = append(things, b.make(t, kind, namespace, fmt.Sprintf("n%d-%d", seed, i), finalizers, true, owners...))
	}
	return things
}

// compare waits until the cluster is as the preview predicted. Then it serves the finalizers, and waits
// until the end is as predicted, too.
func (b *fixture) compare(t *testing.T, a preview.Answer, things []*thing) {
	t.Helper()
	nodes := make(map[string]*foresight.Node)
	flatten(a.Root, nodes)
	for _, n := range a.Released {
		flatten(n, nodes)
	}
	await.Holds(t, patience, "the prediction to come true", func(context.Context) error { return b.isAsPredicted(t, nodes, things) })
	b.rest(t)
	if err := b.isAsPredicted(t, nodes, things); err != nil {
		t.Errorf("it came true, and went on: %v", err)
	}
	for range len(things) { // one may be held by the next
		for _, x := range things {
			if nodes[x.UID] != nil {
				b.serveFinalizers(t, x)
			}
		}
	}
	await.Holds(t, patience, "the prediction of the end to come true", func(context.Context) error { return b.endsAsPredicted(t, nodes, things) })
	b.rest(t)
	if err := b.endsAsPredicted(t, nodes, things); err != nil {
		t.Errorf("the end came true, and went on: %v", err)
	}
}

// rest waits until the collector has done something, to each type, that was asked for later
// than all else.
func (b *fixture) rest(t *testing.T) {
	t.Helper()
	owner := b.make(t, "Realm", "", "canary", nil, true)
	var dependents []*thing
	for _, kind := range []string{"ConfigMap", "Secret", "Widget", "Realm"} {
		dependents = append(dependents, b.make(t, kind, "default", "below-canary", nil, true, owner))
	}
	b.delete(t, owner, gc.Background)
	await.Holds(t, patience, "the collector to rest", func(context.Context) error {
		for _, d := range dependents {
			if b.now(t, d) != nil {
				return fmt.Errorf("the canary's dependent %s is there", d.kind)
			}
		}
		return nil
	})
}

func (b *fixture) endsAsPredicted(t *testing.T, nodes map[string]*foresight.Node, things []*thing) error {
	for _, x := range things {
		n := nodes[x.UID]
		b.serveFinalizers(t, x)
		last := foresight.Kept
		if n != nil {
			if last = n.Outcome; n.Then != "" {
				last = n.Then
			}
		}
		if gone := b.now(t, x) == nil; gone != (last == foresight.Deleted) {
			return fmt.Errorf("%s %s is gone: %v, preview: %s", x.kind, x.name, gone, dump(n))
		}
	}
	return nil
}

func (b *fixture) isAsPredicted(t *testing.T, nodes map[string]*foresight.Node, things []*thing) error {
	for _, x := range things {
		n, is := nodes[x.UID], b.now(t, x)
		want, removed := foresight.Kept, 0
		if n != nil {
			want, removed = n.Outcome, len(n.Removed)
		}
		got := foresight.Kept
		switch {
		case is == nil:
			got = foresight.Deleted
		case is.terminating:
			got = foresight.Waiting
		case want == foresight.Orphaned && len(is.owners) < len(x.owners):
			got = foresight.Orphaned
		}
		if got != want {
			return fmt.Errorf("%s %s is %s, preview: %s", x.kind, x.name, got, dump(n))
		}
		if (want == foresight.Kept || want == foresight.Orphaned) && len(is.owners)+removed != len(x.owners) {
			return fmt.Errorf("%s %s has owners %v, preview: %s", x.kind, x.name, is.owners, dump(n))
		}
	}
	return nil
}

func flatten(n *foresight.Node, into map[string]*foresight.Node) {
	if into[n.UID] == nil || into[n.UID].Again {
		into[n.UID] = n
	}
	for _, d := range n.Dependents {
		flatten(d, into)
	}
}

func testRefusals(t *testing.T, b *fixture) {
	b.Namespace(t, "refusals")
	b.make(t, "Widget", "refusals", "w", nil, false)
	for _, test := range []struct{ resource, name, want string }{
		{"widgets", "w", ""}, {"widget", "w", ""}, {"wi", "w", ""}, {"Widget.example.io", "w", ""}, {"widgets.v1.example.io", "w", ""},
		{"namespace", "refusals", ""}, {"ns", "refusals", ""},
		{"widgets", "nobody", "not found"}, {"nothing", "w", "no such resource type"}, {"widgets.apps", "w", "no such resource type"},
		{"tokenreviews", "w", "no such resource type"},
	} {
		o := b.options(t, b.kubeconfig, &thing{kind: test.resource, name: test.name, namespace: "refusals"}, gc.Background)
		a, err := preview.Simulate(t.Context(), o)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s/%s: %v", test.resource, test.name, err)
		case test.want == "" && a.Root.Outcome != foresight.Deleted:
			t.Errorf("%s/%s: %s", test.resource, test.name, dump(a.Root))
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s/%s: %v, want %q", test.resource, test.name, err, test.want)
		}
	}
}

// testForbidden: a user who may not read everything gets an answer that names what it
// lacks. It takes nothing for absent that the user only cannot see.
func testForbidden(t *testing.T, b *fixture) {
	b.Namespace(t, "forbidden")
	b.Allow(t, "some", peerstest.User("somebody"), object{"apiGroups": []string{"", "example.io"},
		"resources": []string{"configmaps", "widgets", "realms"}, "verbs": []string{"get", "list"}})
	kubeconfig, err := b.Kubeconfig("somebody")
	if err != nil {
		t.Fatal(err)
	}
	root := b.make(t, "ConfigMap", "forbidden", "root", nil, true)
	secret := b.make(t, "Secret", "forbidden", "unseen", nil, true)
	b.make(t, "Widget", "forbidden", "shared", nil, true, root, secret)
	b.make(t, "Secret", "forbidden", "below", nil, true, root)
	var a preview.Answer
	await.Holds(t, patience, "the rights of somebody", func(context.Context) (err error) {
		a, err = preview.Simulate(t.Context(), b.options(t, kubeconfig, root, gc.Background))
		return err
	})
	if a.Complete || len(a.Root.Dependents) != 1 || a.Root.Dependents[0].Outcome != foresight.Kept || a.Root.Dependents[0].Reason != cascade.KeptUnknownOwner {
		t.Errorf("want the widget kept because nobody knows of the secret: %s", dump(a))
	}
	var text strings.Builder
	if err := preview.WriteText(&text, a); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", &text)
	if !strings.Contains(text.String(), "INCOMPLETE") || !strings.Contains(text.String(), "not allowed to list") || !strings.Contains(text.String(), " secrets,") {
		t.Errorf("the text does not say what is missing:\n%s", &text)
	}
	if _, err := preview.Simulate(t.Context(), b.options(t, kubeconfig, secret, gc.Background)); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("of an object that may not be read: %v", err)
	}
	t.Run("command", func(t *testing.T) { testCommand(t, b, kubeconfig) })
	t.Run("examples", func(t *testing.T) { testExamples(t, b) })
}
