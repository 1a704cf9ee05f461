package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/preview"
	"github.com/ebb-agent/ebb/policy/cascade"
	foresight "github.com/ebb-agent/ebb/policy/cascade/preview"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/buildtest"
	"github.com/ebb-agent/ebb/tools/peers"
)

var policies = []gc.Policy{gc.Background, gc.Foreground, gc.Orphan}

// What the running controller says is what the API server is read to say, tree for
// tree: the graph has all that matters.
func TestPreview(t *testing.T) {
	b := newFixture(t, peers.Config{})
	b.define(t, "v1")
	away := b.scenario(t)
	r := b.start(t, b.kubeconfig, func(c *config.Config) {
		c.Exclude = config.Exclude{Types: []string{"pods"}, Namespaces: []string{away.namespace}}
	})
	r.awaitState(t, "widgets.example.com", "synced")
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
			for _, p := range policies {
				r.sameAsLive(t, s, tc.remove, p)
			}
		})
	}
	t.Run("while things wait", func(t *testing.T) { testPreviewBusy(t, b, r) })
	t.Run("excluded", func(t *testing.T) { testPreviewExcluded(t, b, r, away) })
	t.Run("namespaces and definitions", func(t *testing.T) { testPreviewNotes(t, b, r) })
	t.Run("refusals", func(t *testing.T) { testPreviewRefusals(t, b, r) })
	r.stop()
	t.Run("program", func(t *testing.T) { testPreviewProgram(t, b) })
	t.Run("forbidden type", func(t *testing.T) { testPreviewForbidden(t, b) })
}

func (s *scenario) query(what string, p gc.Policy) preview.Query {
	kind, name, _ := strings.Cut(what, "/")
	return preview.Query{Resource: kinds[kind].resource, Name: s.real(kind, name), Namespace: s.namespace, Policy: p}
}

// live is what `ebb cascade` says without a controller, with the same exclusions.
func (r *running) live(t *testing.T, b *fixture, q preview.Query) preview.Answer {
	t.Helper()
	rc, err := clientcmd.BuildConfigFromFlags("", b.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	a, err := preview.Simulate(t.Context(), preview.Options{Query: q, Config: rc, Exclude: &r.config.Exclude})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// sameAsLive waits until the watches have told the controller what a list tells.
func (r *running) sameAsLive(t *testing.T, s *scenario, what string, p gc.Policy) preview.Answer {
	t.Helper()
	q := s.query(what, p)
	want := r.live(t, s.fixture, q)
	var got preview.Answer
	await.Holds(t, patience, "the same tree for "+what+" "+string(p), func(ctx context.Context) (err error) {
		if got, err = r.Preview(ctx, q); err != nil {
			return err
		}
		if !got.Complete {
			return fmt.Errorf("not seen: %v", got.NotSeen)
		}
		if got.Controller.Halted == "owners wait: reading the journal of orphaned owners" {
			return errors.New(got.Controller.Halted) // after a restored etcd
		}
		got.Pending, want.Pending = 0, 0 // of the part, and of all
		if diff := cmp.Diff(want.Preview, got.Preview); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
	if got.Source != preview.FromController || got.Controller.Mode != "enforce" || got.Controller.Halted != "" || *got.Controller.BreakerAllows < 1000 {
		t.Errorf("%s: %s, halted: %q, breaker: %d", got.Source, got.Controller.Mode, got.Controller.Halted, *got.Controller.BreakerAllows)
	}
	return got
}

// Objects that wait for others' finalizers, for each other and for types: the names of
// finalizers are read live.
func testPreviewBusy(t *testing.T, b *fixture, r *running) {
	s := b.scenario(t)
	s.make("cm/o", "cm/w", "cm/held < !cm/w + example.com/hold", "cm/both < cm/o !cm/w", "secret/below < cm/both + example.com/a example.com/b",
		"cm/never < cm/o cm/nobody", "widget/x < cm/below")
	s.remove("cm/w", foreground)
	s.want("cm/held!", "cm/w!", "cm/both=1") // the reference to who waits was taken away
	for _, p := range policies {
		r.sameAsLive(t, s, "cm/o", p)
		r.sameAsLive(t, s, "cm/held", p)
	}
	a := r.sameAsLive(t, s, "cm/both", gc.Background)
	if f := a.Root.Dependents[0].Finalizers; fmt.Sprint(f) != "[example.com/a example.com/b]" {
		t.Errorf("finalizers %v", f)
	}
}

// What the configuration excludes stays, and the answer says so; a reader of the API
// server alone cannot know.
func testPreviewExcluded(t *testing.T, b *fixture, r *running, away *scenario) {
	away.t = t
	s := b.scenario(t)
	for _, x := range []*scenario{s, away} {
		x.make("cm/o", "pod/p < cm/o", "secret/a < cm/o")
		a := r.sameAsLive(t, x, "cm/o", gc.Background)
		for _, n := range a.Root.Dependents {
			want := foresight.Deleted
			if n.Kind == "Pod" || x == away {
				want = foresight.Kept
			}
			if n.Outcome != want || want == foresight.Kept && n.Reason != cascade.KeptExcluded {
				t.Errorf("%s in %s: %s, %s", n.Kind, x.namespace, n.Outcome, n.Reason)
			}
		}
		x.remove("cm/o", background)
		x.want("-cm/o", "pod/p=1")
	}
	s.want("-secret/a")
	away.want("secret/a=1")
	await.Holds(t, patience, "pods to be said to be excluded", func(ctx context.Context) error {
		a, err := r.Preview(ctx, s.query("pod/p", gc.Background))
		if err != nil {
			return err
		}
		for _, w := range a.Controller.Watched {
			if w.Type == "pods" && w.Excluded && w.State == "synced" && !w.Heard.Before(w.Since) {
				return nil
			}
		}
		return fmt.Errorf("%+v", a.Controller.Watched)
	})
	if a := r.live(t, b, s.query("pod/p", gc.Background)); a.Excluded == nil || a.Excluded.Types[0] != "pods" || a.Source != preview.FromAPIServer {
		t.Errorf("%+v", a)
	}
}

// What other controllers take along is counted in the whole graph.
func testPreviewNotes(t *testing.T, b *fixture, r *running) {
	s := b.scenario(t)
	s.make("cm/o", "widget/a", "widget/b")
	for _, q := range []preview.Query{
		{Resource: "ns", Name: s.namespace, Policy: gc.Background}, // a short name
		{Resource: "crd", Name: "widgets.example.com", Policy: gc.Background},
	} {
		want := r.live(t, b, q)
		await.Holds(t, patience, "the same notes", func(ctx context.Context) error {
			got, err := r.Preview(ctx, q)
			if diff := cmp.Diff(want.Notes, got.Notes); err != nil || diff != "" || len(got.Notes) != 1 {
				return fmt.Errorf("%w %s", err, diff)
			}
			return nil
		})
	}
}

func testPreviewRefusals(t *testing.T, b *fixture, r *running) {
	s := b.scenario(t)
	for q, want := range map[preview.Query]string{
		s.query("cm/none", gc.Background):                "configmaps/none in namespace " + s.namespace + ": not found",
		{Resource: "carrots", Name: "x"}:                 `"carrots": the server has no such resource type`,
		{Resource: "tokenreviews", Name: "x"}:            "no such resource type",
		{Resource: "cm", Name: "none", Namespace: "far"}: "cm/none in namespace far: not found",
	} {
		if _, err := r.Preview(t.Context(), q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", q, err, want)
		}
	}
}

// The command, by way of the admin socket: text, JSON, and what it says of a
// controller that is paused.
func testPreviewProgram(t *testing.T, b *fixture) {
	p := b.launch(t, buildtest.Program(t, "cmd/ebb-controller"), alone+"paused: true\ncircuitBreaker: {deletions: 2, window: 1m}\n")
	p.awaitReady("ok (paused by configuration)")
	ebb := buildtest.Program(t, "cmd/ebb")
	s := b.scenario(t)
	s.make("cm/o", "secret/a < cm/o", "secret/b < cm/o", "secret/c < cm/o")
	run := func(args string) (string, int) {
		cmd := exec.CommandContext(t.Context(), ebb, strings.Fields(args)...)
		out, _ := cmd.CombinedOutput() // the exit code tells
		return string(out), cmd.ProcessState.ExitCode()
	}
	ask := "cascade cm/o -n " + s.namespace + " --controller unix://" + p.socket
	await.Holds(t, patience, "the answer", func(context.Context) error {
		text, code := run(ask)
		for _, want := range []string{"deleted: configmaps 1, secrets 3", "The running controller says so (mode enforce)", "sends nothing: paused by configuration", "2 more deletions are allowed"} {
			if code != 0 || !strings.Contains(text, want) {
				return fmt.Errorf("exit code %d, want %q:\n%s", code, want, text)
			}
		}
		return nil
	})
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{ask + " -o json", 0, `"source": "controller"`}, {ask + " -o json --cascade=orphan", 0, `"outcome": "orphaned"`},
		{"cascade cm/none -n " + s.namespace + " --controller unix://" + p.socket, 1, "cm/none in namespace " + s.namespace + ": not found"},
		{"cascade cm/o --controller unix:///nowhere", 1, "is it running"}, {"cascade cm/o --controller ftp://x", 1, "want unix:///run/ebb"},
		{ask + " --kubeconfig x", 2, "--kubeconfig: not with --controller"},
	} {
		if text, code := run(test.args); code != test.code || !strings.Contains(text, test.want) {
			t.Errorf("%s: exit code %d, want %d, %q:\n%s", test.args, code, test.code, test.want, text)
		}
	}
	if text, err := p.ask(t.Context(), http.MethodGet, preview.Path+"?resource=cm"); err == nil || !strings.Contains(text, "want resource and name") {
		t.Errorf("%q, %v", text, err)
	}
}

// A type that the controller may not read is named; its own objects have no answer.
func testPreviewForbidden(t *testing.T, b *fixture) {
	s := b.scenario(t)
	s.make("cm/o", "secret/a < cm/o", "cm/b < cm/o", "cm/c < cm/o secret/a")
	r := b.start(t, b.limited(t), nil)
	r.awaitState(t, "secrets", "unreadable")
	var a preview.Answer
	await.Holds(t, patience, "the answer", func(ctx context.Context) (err error) {
		a, err = r.Preview(ctx, s.query("cm/o", gc.Orphan))
		return err
	})
	text := new(strings.Builder)
	if err := preview.WriteText(text, a); err != nil {
		t.Fatal(err)
	}
	if a.Complete || !strings.Contains(text.String(), "INCOMPLETE") || !strings.Contains(text.String(), "secrets") {
		t.Errorf("%v\n%s", a.NotSeen, text)
	}
	if a, err := r.Preview(t.Context(), s.query("cm/o", gc.Background)); err != nil || len(a.Root.Dependents) != 2 ||
		a.Root.Dependents[1].Reason != cascade.KeptUnknownOwner {
		t.Errorf("want c kept because nobody knows of the secret: %v %+v", err, a.Root)
	}
	if _, err := r.Preview(t.Context(), s.query("secret/a", gc.Background)); !errors.Is(err, preview.ErrNotRead) {
		t.Errorf("of an object that may not be read: %v", err)
	}
}
