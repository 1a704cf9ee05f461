package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
)

var (
	background = policy("Background")
	foreground = policy("Foreground")
	orphan     = policy("Orphan")
)

// cascades are what people delete, and what is to become of it.
var cascades = []struct {
	name    string
	objects []string
	remove  string
	options any // as the client sends them
	want    []string
}{
	{"background", []string{"cm/o", "cm/a < cm/o", "secret/b < !cm/o"}, "cm/o", background, []string{"-cm/o", "-cm/a", "-secret/b"}},
	{"no policy given", []string{"cm/o", "cm/a < cm/o"}, "cm/o", nil, []string{"-cm/o", "-cm/a"}},
	{"foreground", []string{"cm/o", "cm/a < !cm/o", "cm/b < cm/o", "secret/c < !cm/a"}, "cm/o", foreground, []string{"-cm/o", "-cm/a", "-cm/b", "-secret/c"}},
	{"foreground without dependents", []string{"cm/o"}, "cm/o", foreground, []string{"-cm/o"}},
	{"orphan", []string{"cm/o", "cm/a < !cm/o", "secret/b < cm/o"}, "cm/o", orphan, []string{"-cm/o", "cm/a=0", "secret/b=0"}},
	{"orphanDependents", []string{"cm/o", "cm/a < cm/o"}, "cm/o", object{"orphanDependents": true}, []string{"-cm/o", "cm/a=0"}},
	{"not orphanDependents", []string{"cm/o", "cm/a < cm/o"}, "cm/o", object{"orphanDependents": false}, []string{"-cm/o", "-cm/a"}},
	{"custom resource owns", []string{"widget/o", "cm/a < !widget/o"}, "widget/o", background, []string{"-widget/o", "-cm/a"}},
	{"custom resource is owned", []string{"cm/o", "widget/a < cm/o", "widget/b < widget/a"}, "cm/o", background, []string{"-cm/o", "-widget/a", "-widget/b"}},
	{"custom resources in the foreground", []string{"widget/o", "widget/a < !widget/o", "widget/b < !widget/a"}, "widget/o", foreground, []string{"-widget/o", "-widget/a", "-widget/b"}},
	{"custom resource is orphaned", []string{"widget/o", "widget/a < widget/o", "cm/b < widget/o"}, "widget/o", orphan, []string{"-widget/o", "widget/a=0", "cm/b=0"}},
	{"deployment in the background", chain, "deploy/d", background, []string{"-deploy/d", "-rs/r", "-pod/p", "-pod/q"}},
	{"deployment in the foreground", chain, "deploy/d", foreground, []string{"-deploy/d", "-rs/r", "-pod/p", "-pod/q"}},
	{"deployment orphans", chain, "deploy/d", orphan, []string{"-deploy/d", "rs/r=0", "pod/p=1", "pod/q=1"}},
	{"one of two owners", []string{"cm/o", "cm/p", "cm/a < cm/o cm/p"}, "cm/o", background, []string{"-cm/o", "cm/p", "cm/a=1"}},
	{"one of two owners in the foreground", []string{"cm/o", "cm/p", "cm/a < !cm/o cm/p"}, "cm/o", foreground, []string{"-cm/o", "cm/p", "cm/a=1"}},
	{"one of two owners orphans", []string{"cm/o", "cm/p", "cm/a < cm/p cm/o"}, "cm/o", orphan, []string{"-cm/o", "cm/a=1"}},
	{"cluster-scoped owner", []string{"class/o", "cm/a < class/o"}, "class/o", background, []string{"-class/o", "-cm/a"}},
	{"cluster-scoped both", []string{"class/o", "class/a < class/o"}, "class/o", background, []string{"-class/o", "-class/a"}},
	{"cluster-scoped with a namespaced owner", []string{"cm/o", "class/a < cm/o", "cm/b < cm/o"}, "cm/o", background, []string{"-cm/o", "-cm/b", "class/a=1"}},
	{"own finalizers", []string{"cm/o", "cm/a < cm/o + orphan", "cm/b < cm/a"}, "cm/o", background, []string{"-cm/o", "-cm/a", "cm/b=0"}},
	{"somebody else's finalizer", []string{"cm/o", "cm/a < cm/o + example.com/wait", "cm/b < cm/a"}, "cm/o", background, []string{"-cm/o", "cm/a!", "cm/b=1"}},
	{"circle", []string{"cm/o", "cm/a < !cm/o", "cm/b < !cm/a", "circle cm/a cm/b"}, "cm/o", foreground, []string{"-cm/o", "cm/a=1", "cm/b=1"}},
}

var chain = []string{"deploy/d", "rs/r < !deploy/d", "pod/p < !rs/r", "pod/q < !rs/r"}

func TestCascades(t *testing.T) {
	b := newFixture(t, peers.Config{})
	b.define(t, "v1")
	r := b.start(t, b.kubeconfig, nil)
	for _, tc := range cascades {
		t.Run(tc.name, func(t *testing.T) {
			s := b.scenario(t)
			for _, line := range tc.objects {
				if line == "circle cm/a cm/b" {
					s.own("cm/a", "!cm/o", "!cm/b")
					continue
				}
				s.make(line)
			}
			s.remove(tc.remove, tc.options)
			s.want(tc.want...)
		})
	}
	t.Run("self-reference", func(t *testing.T) { testSelf(t, b) })
	t.Run("late dependent", func(t *testing.T) { testLateDependent(t, b) })
	t.Run("never was an owner", func(t *testing.T) { testNoSuchOwner(t, b) })
	t.Run("other namespace", func(t *testing.T) { testOtherNamespace(t, b) })
	t.Run("policy changes", func(t *testing.T) { testPolicyChanges(t, b) })
	t.Run("500 owners", func(t *testing.T) { testManyOwners(t, b) })
	t.Run("first gone", func(t *testing.T) { testFirstGone(t, b) })
	t.Run("explained", func(t *testing.T) { testExplained(t, b, r) })
	t.Run("restart of the API server", func(t *testing.T) { testRestart(t, b, r) })
}

// own replaces the owners of an object.
func (s *scenario) own(what string, owners ...string) {
	s.t.Helper()
	var refs []any
	for _, o := range owners {
		refs = append(refs, s.reference(o))
	}
	s.Must(s.t, http.MethodPatch, s.path(what), object{"metadata": object{"ownerReferences": refs}})
}

func testSelf(t *testing.T, b *fixture) {
	for _, p := range []object{background, foreground, orphan} {
		s := b.scenario(t)
		s.make("cm/a", "cm/d < !cm/a")
		s.own("cm/a", "!cm/a")
		s.remove("cm/a", p)
		s.want("-cm/a")
		if p["propagationPolicy"] == "Orphan" {
			s.want("cm/d=0")
		} else {
			s.want("-cm/d")
		}
	}
}

// A dependent that is made when its owner has gone already goes, too.
func testLateDependent(t *testing.T, b *fixture) {
	s := b.scenario(t)
	s.make("cm/o")
	s.remove("cm/o", background)
	s.make("cm/a < cm/o", "widget/b < cm/o")
	s.want("-cm/a", "-widget/b")
}

// An owner that nobody has ever seen is read live; one whose type nobody serves
// is unknown, and unknown never deletes.
func testNoSuchOwner(t *testing.T, b *fixture) {
	s := b.scenario(t)
	s.make("cm/a < cm/never")
	refs := []any{object{"apiVersion": "nobody.example/v1", "kind": "Thing", "name": "x", "uid": "1"}}
	b.Must(t, http.MethodPost, s.path("cm/"), object{"metadata": object{"name": "u", "ownerReferences": refs}})
	s.want("-cm/a")
	if m, err := b.Get(t.Context(), s.path("cm/u")); m == nil || err != nil {
		t.Errorf("an owner of a type that is not served: %v, %v", m, err)
	}
}

// An owner in another namespace is absent, and this is reported.
func testOtherNamespace(t *testing.T, b *fixture) {
	s, away := b.scenario(t), b.scenario(t)
	s.make("cm/o")
	away.uids["cm/o"] = s.uids["cm/o"]
	away.make("cm/a < cm/o + example.com/stay") // an event of an object needs the object
	await.Holds(t, patience, "the event", func(context.Context) error {
		if notes := b.events(t, away.namespace, "OwnerRefInvalidNamespace"); len(notes) != 1 {
			return fmt.Errorf("%q", notes)
		}
		return nil
	})
	away.want("cm/a!=1")
	s.want("cm/o")
}

// A second DELETE decides anew (kubernetes issue 77081).
func testPolicyChanges(t *testing.T, b *fixture) {
	s := b.scenario(t)
	s.make("cm/o", "cm/a < !cm/o + example.com/wait", "cm/b < !cm/o + example.com/wait")
	s.remove("cm/o", foreground)
	s.want("cm/a!", "cm/b!", "cm/o!")
	s.remove("cm/o", orphan)
	s.want("-cm/o", "cm/a!=0", "cm/b!=0")
	s = b.scenario(t)
	s.make("cm/o + example.com/wait", "cm/a < !cm/o + example.com/wait")
	s.remove("cm/o", foreground)
	s.want("cm/a!")
	s.remove("cm/o", background)
	s.want("cm/o!", "cm/a!=1")
	b.Must(t, http.MethodPatch, s.path("cm/a"), object{"metadata": object{"finalizers": nil}})
	b.Must(t, http.MethodPatch, s.path("cm/o"), object{"metadata": object{"finalizers": nil}})
	s.want("-cm/o", "-cm/a")
}

func testManyOwners(t *testing.T, b *fixture) {
	s := b.scenario(t)
	line := "cm/a <"
	for i := range 500 {
		s.make(fmt.Sprintf("secret/o%d", i))
		line += fmt.Sprintf(" secret/o%d", i)
	}
	s.make(line)
	for i := range 499 {
		s.remove(fmt.Sprintf("secret/o%d", i), background)
	}
	s.want("cm/a=1")
	s.remove("secret/o499", background)
	s.want("-cm/a")
}

// The first dependent goes long before the last.
func testFirstGone(t *testing.T, b *fixture) {
	best := time.Hour
	for range 5 {
		s := b.scenario(t)
		s.make("cm/o")
		s.many("secret", "cm/o", 20)
		begun := time.Now()
		s.remove("cm/o", background)
		await.Holds(t, patience, "one to go", func(ctx context.Context) error {
			all, _, err := s.left(ctx, "secret")
			if err == nil && all == 20 {
				err = fmt.Errorf("all are there")
			}
			return err
		})
		best = min(best, time.Since(begun))
		s.awaitLeft("secret", 0, 0)
	}
	t.Logf("first dependent gone after %v", best) // the bench holds it to 100 ms; this machine may be busy
}

func testExplained(t *testing.T, b *fixture, r *running) {
	s := b.scenario(t)
	s.make("cm/o", "cm/a < cm/o")
	await.Holds(t, patience, "the explanation", func(ctx context.Context) error {
		x, err := r.Explain(ctx, gc.Coordinates{APIVersion: "v1", Kind: "ConfigMap", Namespace: s.namespace, Name: "a"})
		if err == nil && (x.Reason != cascade.KeptSolidOwner || x.Owners[0].Judgement != "solid") {
			err = fmt.Errorf("%+v", x)
		}
		return err
	})
	if _, err := r.Explain(t.Context(), gc.Coordinates{APIVersion: "v1", Kind: "ConfigMap", Namespace: s.namespace, Name: "none"}); err == nil {
		t.Error("an object that is not there is explained")
	}
}

// What happens while the API server is away is found when it is back.
func testRestart(t *testing.T, b *fixture, r *running) {
	s := b.scenario(t)
	s.make("cm/o", "cm/p", "cm/q")
	s.many("secret", "cm/o", 100)
	s.many("widget", "cm/p", 50)
	s.many("pod", "cm/q", 50)
	s.remove("cm/o", background)
	s.remove("cm/p", orphan)
	s.remove("cm/q", foreground)
	if err := b.APIServer.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := b.APIServer.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.want("-cm/o", "-cm/p", "-cm/q")
	s.awaitLeft("secret", 0, 0)
	s.awaitLeft("pod", 0, 0)
	s.awaitLeft("widget", 50, 0)
	r.awaitSynced(t)
}

// Mode, pause and circuit breaker on a real API server.
func TestSwitches(t *testing.T) {
	b := newFixture(t, peers.Config{})
	cascade := func(s *scenario) {
		s.make("cm/o", "cm/p", "cm/q")
		s.many("secret", "cm/o", 60)
		s.many("secret", "cm/p", 5)
		s.many("secret", "cm/q", 5)
		s.remove("cm/o", background)
		s.remove("cm/p", foreground)
		s.remove("cm/q", orphan)
	}
	t.Run("observe", func(t *testing.T) {
		s := b.scenario(t)
		r := b.start(t, b.kubeconfig, func(c *config.Config) { c.Mode = config.Observe })
		cascade(s)
		await.Holds(t, patience, "decisions", func(context.Context) error {
			if n := len(r.Decisions()); n < 60+5+5 {
				return fmt.Errorf("%d decisions", n)
			}
			return nil
		})
		all, owned, err := s.left(t.Context(), "secret")
		if all != 70 || owned != 70 || err != nil {
			t.Errorf("%d left, %d owned, %v", all, owned, err)
		}
		next := r.config
		next.Mode = config.Enforce
		if err := r.Configure(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		s.awaitLeft("secret", 5, 0)
		r.stop()
	})
	t.Run("pause", func(t *testing.T) {
		s := b.scenario(t)
		// One request after the other, so that the pause comes before the end.
		r := b.start(t, b.kubeconfig, func(c *config.Config) { c.Concurrency = config.Concurrency{Start: 1, Max: 1} })
		s.make("cm/o")
		s.many("secret", "cm/o", 300)
		s.remove("cm/o", background)
		if left := r.Pause(t.Context()); left != 0 {
			t.Errorf("%d on their way", left)
		}
		all, _, err := s.left(t.Context(), "secret")
		if all == 0 || err != nil {
			t.Fatalf("%d left when paused, %v", all, err)
		}
		time.Sleep(500 * time.Millisecond) // no event marks that nothing more comes
		if again, _, err := s.left(t.Context(), "secret"); again != all || err != nil {
			t.Errorf("%d left, then %d, %v", all, again, err)
		}
		r.Resume(t.Context())
		s.awaitLeft("secret", 0, 0)
		r.stop()
	})
	t.Run("circuit breaker", func(t *testing.T) {
		s := b.scenario(t)
		r := b.start(t, b.kubeconfig, func(c *config.Config) { c.CircuitBreaker.Deletions = 40 })
		cascade(s)
		await.Holds(t, patience, "the event", func(context.Context) error {
			if n := len(b.events(t, s.namespace, "CircuitBreakerOpen")); n != 1 {
				return fmt.Errorf("%d events", n)
			}
			return nil
		})
		if all := s.atRest("secret"); all != 30 {
			t.Errorf("%d left", all)
		}
		r.Resume(t.Context())
		s.awaitLeft("secret", 5, 0)
		r.stop()
	})
	t.Run("excluded", func(t *testing.T) {
		s, other := b.scenario(t), b.scenario(t)
		b.start(t, b.kubeconfig, func(c *config.Config) {
			c.Exclude = config.Exclude{Types: []string{"pods"}, Namespaces: []string{other.namespace}}
		})
		for _, s := range []*scenario{s, other} {
			s.make("cm/o", "secret/a < cm/o", "pod/b < cm/o")
			s.remove("cm/o", background)
		}
		s.want("-secret/a", "pod/b=1")
		other.want("secret/a=1", "pod/b=1")
	})
}
