package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/dice"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

// What objects, people and webhooks can do to a controller.
func TestObjectFaults(t *testing.T) {
	b := newFixture(t, peers.Config{
		ControllerManager: true, ControllerManagerArgs: []string{"--controllers=namespace-controller"},
		APIServerArgs: []string{"--disable-admission-plugins=ServiceAccount"}, // nobody makes any
	})
	b.define(t, "v1")
	r := b.start(t, b.kubeconfig, nil)
	g := b.guard(t)
	f := &refused{webhook: newWebhook(t, b)} // until the last test ends
	t.Run("webhook refuses", func(t *testing.T) {
		f.begin(t, b)
		f.goOn(t, b)
	})
	t.Run("hot object", func(t *testing.T) { testHot(t, b) })
	t.Run("given to a living owner", func(t *testing.T) { testGiven(t, b) })
	t.Run("odd references", func(t *testing.T) { testOddReferences(t, b) })
	t.Run("webhook lets go", func(t *testing.T) { f.end(t) })
	t.Run("namespace terminates", func(t *testing.T) { testNamespace(t, b, r) })
	t.Run("what was refused goes", func(t *testing.T) { f.gone(t) })
	b.canary(t)
	g.check(t)
}

// Somebody patches a dependent all the time; each patch is another resourceVersion
// than the one the decision rests on.
func testHot(t *testing.T, b *fixture) {
	s := b.scenario(t)
	s.make("cm/o", "cm/p", "cm/a < cm/o", "secret/b < !cm/p", "cm/keep", "cm/k < cm/keep")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var group sync.WaitGroup
	var patches atomic.Int64
	for _, what := range []string{"cm/a", "secret/b", "cm/k"} {
		for range 2 {
			group.Go(func() { s.heat(ctx, t, what, &patches) })
		}
	}
	await.Holds(t, patience, "them to be hot", func(context.Context) error {
		if n := patches.Load(); n < 50 {
			return fmt.Errorf("%d patches", n)
		}
		return nil
	})
	begun := time.Now()
	s.remove("cm/o", background)
	s.remove("cm/p", foreground)
	s.want("-cm/a", "-secret/b", "-cm/p")
	took := time.Since(begun)
	stop()
	group.Wait()
	s.want("cm/k=1")
	t.Logf("gone after %v, %d patches in all", took, patches.Load())
}

// heatPause is between two patches of one client: with two clients an object has forty
// new versions a second. Without a pause it depends on the machine, and on luck, whether
// any read and a request about it fit between two.
const heatPause = 50 * time.Millisecond

// heat patches an object until it has gone, or ctx ends.
func (s *scenario) heat(ctx context.Context, t *testing.T, what string, patches *atomic.Int64) {
	pace := time.NewTicker(heatPause)
	defer pace.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		select {
		case <-pace.C:
		case <-ctx.Done():
			return
		}
		label := object{"metadata": object{"labels": object{"n": fmt.Sprint(i)}}}
		err := s.Ask(ctx, http.MethodPatch, s.path(what), label, nil)
		switch {
		case err == nil:
			patches.Add(1)
		case peers.HasStatus(err, http.StatusNotFound):
			return
		case peers.HasStatus(err, http.StatusConflict), ctx.Err() != nil:
		default:
			t.Errorf("patch %s: %v", what, err)
			return
		}
	}
}

// Dependents are given to another owner, who lives, while theirs is deleted: what the
// API server has granted that to must never go.
func testGiven(t *testing.T, b *fixture) {
	const dependents, hands = 120, 6
	s := b.scenario(t)
	s.make("cm/keep")
	var given, late atomic.Int64
	for round := range 3 {
		owner := fmt.Sprintf("cm/o%d", round)
		s.make(owner)
		s.many("secret", owner, dependents)
		var group sync.WaitGroup
		var turn atomic.Int64
		kept := make([]atomic.Bool, dependents)
		for range hands {
			chance := rand.New(rand.NewPCG(s.chance.Uint64(), 0))
			group.Go(func() {
				for i := turn.Add(1) - 1; i < dependents; i = turn.Add(1) - 1 {
					time.Sleep(dice.Below(chance, 20*time.Millisecond)) // at random: that is the test
					switch err := s.give(t.Context(), s.dependent(owner, int(i))); {
					case err == nil:
						kept[i].Store(true)
						given.Add(1)
					case errors.Is(err, errLate):
						late.Add(1)
					default:
						t.Error(err)
					}
				}
			})
		}
		time.Sleep(dice.Below(s.chance, 150*time.Millisecond))
		s.remove(owner, background)
		group.Wait()
		for i := range kept {
			if !kept[i].Load() {
				s.want("-" + s.dependent(owner, i))
			}
		}
		b.canary(t)
		for i := range kept {
			if kept[i].Load() {
				s.want(s.dependent(owner, i) + "=1")
			}
		}
	}
	t.Logf("%d were given away, %d had gone", given.Load(), late.Load())
	if given.Load() == 0 || late.Load() == 0 {
		t.Errorf("%d were given away and %d had gone: that tests nothing", given.Load(), late.Load())
	}
}

// dependent is the name that many gives.
func (s *scenario) dependent(owner string, i int) string {
	return fmt.Sprintf("secret/%s-%d", strings.ReplaceAll(owner, "/", "-"), i)
}

var errLate = errors.New("it had gone")

// give an object to cm/keep.
func (s *scenario) give(ctx context.Context, what string) error {
	var out struct{ Metadata peerstest.Meta }
	refs := object{"metadata": object{"ownerReferences": []any{s.reference("!cm/keep")}}}
	err := s.Ask(ctx, http.MethodPatch, s.path(what), refs, &out)
	if peers.HasStatus(err, http.StatusNotFound) || peers.HasStatus(err, http.StatusConflict) || err == nil && out.Metadata.DeletionTimestamp != "" {
		return errLate
	}
	return err
}

// oddReferences are references that no client should write. KEEP and OTHER are placeholders for
// the name and the UID of configmaps that live.
var oddReferences = []struct {
	name                         string
	apiVersion, kind, owner, uid string
	want                         string // "refused" by the API server, "kept", or "gone": that the owner is not there is proven
}{
	{"living owner", "v1", "ConfigMap", "KEEP", "KEEP", "kept"},
	{"empty uid", "v1", "ConfigMap", "KEEP", "", "refused"},
	{"empty kind", "v1", "", "KEEP", "KEEP", "refused"},
	{"empty name", "v1", "ConfigMap", "", "KEEP", "refused"},
	{"empty apiVersion", "", "ConfigMap", "KEEP", "KEEP", "refused"},
	{"apiVersion of three parts", "a/b/c", "ConfigMap", "KEEP", "KEEP", "refused"},
	{"event", "v1", "Event", "x", "1", "refused"},
	{"empty group", "/v1", "ConfigMap", "KEEP", "KEEP", "kept"},
	{"empty version", "apps/", "Deployment", "x", "1", "refused"},
	{"kind in lower case", "v1", "configmap", "none", "1", "kept"},
	{"resource for kind", "v1", "configmaps", "none", "1", "kept"},
	{"kind of a list", "v1", "ConfigMapList", "none", "1", "kept"},
	{"kind of a subresource", "autoscaling/v1", "Scale", "none", "1", "kept"},
	{"blanks about the kind", "v1", " ConfigMap ", "none", "1", "kept"},
	{"no such group", "nobody.example/v1", "ConfigMap", "none", "1", "kept"},
	{"no such version", "apps/v9", "Deployment", "none", "1", "kept"},
	{"version in upper case", "V1", "ConfigMap", "none", "1", "kept"},
	{"path for a name", "v1", "ConfigMap", "../secrets/x", "1", "kept"},
	{"name with a query", "v1", "ConfigMap", "none?watch=1", "1", "gone"},
	{"dots for a name", "v1", "ConfigMap", "..", "1", "kept"},
	{"name that is too long", "v1", "ConfigMap", strings.Repeat("n", 2000), "1", "kept"},
	{"name in upper case", "v1", "ConfigMap", "NONE", "1", "gone"},
	{"another object's uid", "v1", "ConfigMap", "KEEP", "OTHER", "gone"},
	{"living uid, other name", "v1", "ConfigMap", "none", "KEEP", "gone"},
	{"living uid, other kind", "v1", "Secret", "KEEP", "KEEP", "gone"},
	{"uid that is none", "v1", "ConfigMap", "none", "not a uid/\n%", "gone"},
	{"uid in upper case", "v1", "ConfigMap", "KEEP", "00000000-0000-4000-8000-00000000DEAD", "gone"},
}

// What the API server takes of references that no client should write is never
// deleted, unless the very object that they name is proven not to be there.
func testOddReferences(t *testing.T, b *fixture) {
	s := b.scenario(t)
	s.make("cm/keep", "cm/other", "cm/plain < cm/keep")
	stand := func(v string) string {
		switch v {
		case "KEEP":
			return s.uids["cm/keep"]
		case "OTHER":
			return s.uids["cm/other"]
		}
		return v
	}
	var kept, gone []string
	for i, tc := range oddReferences {
		name := fmt.Sprintf("odd-%d", i)
		owner := strings.Replace(tc.owner, "KEEP", "keep", 1)
		ref := object{"apiVersion": tc.apiVersion, "kind": tc.kind, "name": owner, "uid": stand(tc.uid), "blockOwnerDeletion": true}
		var out struct{ Metadata peerstest.Meta }
		err := b.Ask(t.Context(), http.MethodPost, s.path("cm/"), object{"metadata": object{"name": name, "ownerReferences": []any{ref}}}, &out)
		switch {
		case tc.want == "refused" && !peers.HasStatus(err, http.StatusUnprocessableEntity):
			t.Errorf("%s: the API server does not refuse it: %v", tc.name, err)
		case tc.want == "refused":
		case err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case tc.want == "gone":
			gone = append(gone, "-cm/"+name)
		default:
			s.uids["cm/"+name] = out.Metadata.UID
			kept = append(kept, "cm/"+name+"=1")
		}
	}
	s.want(gone...)
	b.canary(t)
	s.want(kept...)
	s.want("cm/keep", "cm/other", "cm/plain=1")
}

// A namespace ends with owners and dependents in it, some of which hold it. Nothing
// outside goes with it, and the namespace controller is not disturbed.
func testNamespace(t *testing.T, b *fixture, r *running) {
	s, other := b.scenario(t), b.scenario(t)
	s.make("class/q", "cm/o", "cm/p", "cm/x", "cm/a < !cm/o", "secret/b < cm/a", "widget/c < !cm/p", "cm/d < !widget/c",
		"cm/e < cm/x", "secret/f < class/q", "cm/wait + example.com/wait", "cm/g < cm/wait", "deploy/d", "rs/r < !deploy/d", "pod/z < !rs/r")
	s.many("secret", "cm/o", 30)
	other.make("cm/o", "cm/a < cm/o")
	s.remove("cm/o", foreground)
	s.remove("cm/p", orphan)
	path := "/api/v1/namespaces/" + s.namespace
	b.Must(t, http.MethodDelete, path, nil)
	s.want("-cm/o", "-cm/a", "-secret/b", "-cm/p", "-cm/x", "-cm/e", "-widget/c", "-cm/d", "-secret/f", "-deploy/d", "-rs/r", "-pod/z", "cm/wait!", "-cm/g")
	if m, err := b.Get(t.Context(), path); m == nil || err != nil {
		t.Fatalf("the namespace does not wait: %v, %v", m, err)
	}
	b.Must(t, http.MethodPatch, s.path("cm/wait"), object{"metadata": object{"finalizers": nil}})
	b.AwaitGone(t, path)
	s.want("class/q")
	other.want("cm/o", "cm/a=1")
	for _, d := range r.Decisions() {
		if d.Object.Namespace == s.namespace && (d.Result == "failed" || d.Result == "forbidden") {
			t.Errorf("%s of %s %s: %s", d.Verb, d.Object.Kind, d.Object.Name, d.Error)
		}
	}
}
