package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster"
	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/buildtest"
	"github.com/ebb-agent/ebb/tools/peers"
)

// The circuit breaker holds deletions alone; an envelope slows one cascade; both name the root,
// and their counts survive a restart.
func TestEnvelopes(t *testing.T) {
	b := newFixture(t, peers.Config{})
	t.Run("the circuit breaker holds deletions alone", func(t *testing.T) { testBreakerAlone(t, b) })
	t.Run("two tenants", func(t *testing.T) { testTwoTenants(t, b) })
	t.Run("leader killed", func(t *testing.T) { testLeaderKilled(t, b) })
	t.Run("a definition is the root", func(t *testing.T) { testDefinitionIsRoot(t, b) })
}

func testBreakerAlone(t *testing.T, b *fixture) {
	s := b.scenario(t)
	r := b.start(t, b.kubeconfig, func(c *config.Config) { c.CircuitBreaker.Deletions = 10 })
	defer r.stop()
	s.make("deploy/d", "rs/r < !deploy/d")
	s.many("pod", "rs/r", 30)
	s.remove("deploy/d", background)
	await.Holds(t, patience, "the circuit breaker", func(context.Context) error {
		if r.metric(t, "circuit_breaker_open") != 1 {
			return fmt.Errorf("not open")
		}
		return nil
	})
	await.Holds(t, patience, "the event", func(context.Context) error {
		notes := b.events(t, s.namespace, "CircuitBreakerOpen")
		if len(notes) != 1 || !strings.Contains(notes[0], "because of Deployment "+s.namespace+"/d") {
			return fmt.Errorf("%q", notes)
		}
		return nil
	})
	// What is deleted now, and needs no deletion, ends.
	s.make("cm/foreground", "cm/orphan", "secret/a < !cm/orphan", "cm/stays", "secret/b < cm/stays cm/goes", "cm/held", "secret/c < !cm/held")
	s.remove("cm/foreground", foreground)
	s.remove("cm/orphan", orphan)
	s.remove("cm/held", foreground)
	s.want("-cm/foreground", "-cm/orphan", "secret/a=0", "secret/b=1", "cm/held!", "secret/c=1")
	s.remove("secret/c", background) // somebody else does what the circuit breaker holds
	s.want("-secret/c", "-cm/held")
	if all, _, err := s.left(t.Context(), "pod"); all != 21 || err != nil { // and the ReplicaSet went
		t.Errorf("%d pods left, %v", all, err)
	}
	for range 5 {
		r.Resume(t.Context())
	}
	await.Holds(t, patience, "the rest to go", func(ctx context.Context) error {
		all, _, err := s.left(ctx, "pod")
		if err == nil && all > 0 {
			r.Resume(ctx)
			err = fmt.Errorf("%d left", all)
		}
		return err
	})
}

// One that has spent its envelope goes on at the slope; the other one at full speed.
func testTwoTenants(t *testing.T, b *fixture) {
	const burst, perMinute, n = 100, 240, 300
	big, small := b.scenario(t), b.scenario(t)
	r := b.start(t, b.kubeconfig, func(c *config.Config) { c.Envelope = config.Envelope{Burst: burst, PerMinute: perMinute} })
	defer r.stop()
	big.make("deploy/d", "rs/r < !deploy/d")
	big.many("pod", "rs/r", n)
	small.make("cm/o")
	small.many("secret", "cm/o", burst-1)
	begun := time.Now()
	big.remove("deploy/d", foreground)
	await.Holds(t, patience, "the big one to be slowed", func(context.Context) error {
		if r.metric(t, "slowed_cascades") != 1 {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	went := time.Now()
	small.remove("cm/o", background)
	small.awaitLeft("secret", 0, 0)
	took := time.Since(went)
	left, _, err := big.left(t.Context(), "pod")
	if most := n - burst - int(time.Since(begun).Minutes()*perMinute) - 2; left < most || err != nil {
		t.Errorf("%d left of the slowed one after %v, want %d at least (%v)", left, time.Since(begun), most, err)
	}
	t.Logf("%d deletions of the one took %v beside the other, of which %d were left", burst-1, took, left)
	// Between two shares of its envelope it is not slowed for a moment.
	await.Holds(t, patience, "the big one to be listed", func(ctx context.Context) error {
		list, err := r.Cascades(ctx)
		if err == nil && (len(list) == 0 || list[0].Root.Name != "d" || !list[0].Slowed || list[0].Waiting == 0) {
			err = fmt.Errorf("%+v", list)
		}
		return err
	})
	if text := r.log.text(); strings.Count(text, "a cascade is slowed") != 1 || !strings.Contains(text, `root="Deployment `+big.namespace+`/d"`) {
		t.Error("the slowed cascade is not logged exactly once")
	}
	await.Holds(t, patience, "one event", func(context.Context) error {
		if notes := b.events(t, big.namespace, "CascadeSlowed"); len(notes) != 1 {
			return fmt.Errorf("events %q", notes)
		}
		return nil
	})
	await.Holds(t, 4*time.Minute, "the big one to go", func(ctx context.Context) error {
		all, _, err := big.left(ctx, "pod")
		if err == nil && all > 0 {
			err = fmt.Errorf("%d left", all)
		}
		return err
	})
	if took, least := time.Since(begun), time.Duration(float64(n-burst)/perMinute*float64(time.Minute)); took < least-time.Second {
		t.Errorf("the big one took %v, want %v at least", took, least)
	}
	big.want("-rs/r", "-deploy/d")
}

// Killed in the middle of a cascade, and replaced by another one that waited, or ended in
// order: no more go within the window than the limit, whoever counts.
func testLeaderKilled(t *testing.T, b *fixture) {
	binary := buildtest.Program(t, "cmd/ebb-controller")
	const limit = 1500
	limits := fmt.Sprintf("circuitBreaker: {deletions: %d, window: 1h}\nenvelope: {burst: 1000, perMinute: 1}\n", limit)
	s := b.scenario(t)
	s.make("cm/o", "cm/p")
	s.many("secret", "cm/o", 1200)
	s.many("secret", "cm/p", 600)
	one := b.launch(t, binary, elected+limits)
	one.awaitReady("ok\n")
	two := b.launch(t, binary, elected+limits)
	two.awaitReady("ok: waiting")
	s.remove("cm/o", background)
	await.Holds(t, patience, "some to go", func(ctx context.Context) error {
		all, _, err := s.left(ctx, "secret")
		if err == nil && all > 1600 {
			err = fmt.Errorf("%d left", all)
		}
		return err
	})
	one.kill()
	two.awaitReady("ok\n")
	// Of this root at most 1,000 go; what the one that was killed may have done counts.
	awaitSlowed := func(p *program) {
		t.Helper()
		await.Holds(t, patience, "the cascade to be slowed", func(ctx context.Context) error {
			text, err := p.ask(ctx, http.MethodGet, "/readyz")
			if err == nil && !strings.Contains(text, "1 cascades are slowed") {
				err = fmt.Errorf("%q", text)
			}
			return err
		})
	}
	awaitSlowed(two)
	all, _, err := s.left(t.Context(), "secret")
	if gone := 1800 - all; gone > 1010 || err != nil { // the slope gives one a minute
		t.Errorf("%d went of a root whose burst is 1000, %v", gone, err)
	}
	t.Logf("%d of the root went, killed in between", 1800-all)
	var list []struct {
		Root struct{ Name, UID string }
		Left int
	}
	text, err := two.ask(t.Context(), http.MethodGet, "/cascades")
	if err == nil {
		err = json.Unmarshal([]byte(text), &list)
	}
	if err != nil || len(list) == 0 || list[0].Root.Name != "o" || list[0].Left != 0 {
		t.Errorf("%s, %v", text, err)
	}
	three := b.launch(t, binary, elected+limits)
	three.awaitReady("ok: waiting")
	two.kill()
	three.awaitReady("ok\n")
	awaitSlowed(three)
	s.remove("cm/p", background) // the cluster-wide window: 500 are left of it, at most
	three.awaitReady("ok (circuit breaker open")
	if all, _, err = s.left(t.Context(), "secret"); 1800-all > limit+3 || err != nil {
		t.Errorf("%d went, the limit is %d, %v", 1800-all, limit, err)
	}
	t.Logf("%d went of a limit of %d, with two leaders killed", 1800-all, limit)
	three.resume()
	three.kill()
}

// A definition is deleted: what depends on objects of its type goes because of it, and is
// one cascade.
func testDefinitionIsRoot(t *testing.T, b *fixture) {
	b.define(t, "v1")
	s := b.scenario(t)
	r := b.start(t, b.kubeconfig, func(c *config.Config) { c.Envelope = config.Envelope{Burst: 20, PerMinute: 600} })
	defer r.stop()
	r.awaitState(t, "widgets.example.com", "synced")
	for i := range 30 {
		owner := fmt.Sprintf("widget/w%d", i)
		s.make(owner)
		s.many("cm", owner, 2)
	}
	b.Must(t, http.MethodDelete, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com", nil)
	await.Holds(t, patience, "the definition's cascade to be slowed", func(ctx context.Context) error {
		list, err := r.Cascades(ctx)
		// What other tests have left goes on beside it.
		if err == nil && !slices.ContainsFunc(list, func(c cluster.CascadeStatus) bool {
			return c.Root.Kind == "CustomResourceDefinition" && c.Root.Name == "widgets.example.com" && c.Slowed
		}) {
			err = fmt.Errorf("%+v", list)
		}
		return err
	})
}

// In an excluded namespace an owner that was deleted in the foreground stays as long as
// its dependents do, is reported once, and goes when they went; and so does the namespace. No
// other collector runs.
func TestExcludedNamespace(t *testing.T) {
	b := newFixture(t, peers.Config{ControllerManager: true, ControllerManagerArgs: []string{"--controllers=namespace-controller"}})
	s := b.scenario(t)
	r := b.start(t, b.kubeconfig, func(c *config.Config) {
		c.Exclude = config.Exclude{Types: []string{}, Namespaces: []string{s.namespace}}
	})
	s.make("job/j", "secret/p < !job/j", "secret/q < job/j", "cm/o", "secret/a < !cm/o", "cm/empty")
	s.remove("job/j", foreground)
	s.remove("cm/o", orphan)
	s.remove("cm/empty", foreground)
	s.want("-cm/empty")
	await.Holds(t, patience, "the events", func(context.Context) error {
		notes := b.events(t, s.namespace, "ExcludedDependentsHold")
		if text := strings.Join(notes, "\n"); len(notes) != 2 || !strings.Contains(text, "Secret "+s.namespace+"/p") || !strings.Contains(text, "Secret "+s.namespace+"/a") {
			return fmt.Errorf("%q", notes)
		}
		return nil
	})
	s.want("job/j!", "cm/o!", "secret/p=1", "secret/q=1", "secret/a=1")
	s.own("secret/a") // somebody takes the reference away
	s.want("-cm/o", "secret/a=0")
	b.Must(t, http.MethodDelete, "/api/v1/namespaces/"+s.namespace, nil)
	b.AwaitGone(t, "/api/v1/namespaces/"+s.namespace)
	for _, d := range r.Decisions() {
		if d.Verb != "remove-finalizer" && d.Object.Namespace == s.namespace && d.Result != "excluded" {
			t.Errorf("%+v", d)
		}
	}
}
