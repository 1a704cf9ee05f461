package e2e

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/extension"
	"github.com/ebb-agent/ebb/tools/peers"
)

// newExtension starts another API server behind the aggregator. Scenes know its type
// as "thing".
func newExtension(t *testing.T, b *fixture) *extension.Server {
	t.Helper()
	kinds["thing"] = struct {
		apiVersion, kind, resource string
		cluster                    bool
		spec                       object
	}{apiVersion: "ext.example.com/v1", kind: "Thing", resource: "things"}
	e, err := extension.New(b.Authority(), extension.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if err := e.Register(t.Context(), b.ControlPlane); err != nil {
		t.Fatal(err)
	}
	return e
}

// soon believes an absence after a second, so that nobody has to wait for minutes.
func soon(c *config.Config) { c.AggregatedAbsence = config.Duration(time.Second) }

// requests about one thing.
func requests(e *extension.Server, namespace, name string) (list []string) {
	for _, a := range e.Asked() {
		if verb, found := strings.CutSuffix(a, " things "+namespace+"/"+name); found {
			list = append(list, verb)
		}
	}
	return list
}

func noOwners(o *extension.Object) { o.Owners = nil }

// Types of an aggregated API server: its objects are read before each deletion, because
// it may ignore what the deletion demands. When it is away, it alone is.
func TestExtension(t *testing.T) {
	b := newFixture(t, peers.Config{})
	b.define(t, "v1")
	e := newExtension(t, b)
	e.Set(extension.Unstreamed | extension.NoPreconditions)
	r := b.start(t, b.kubeconfig, soon)
	r.awaitState(t, "things.ext.example.com", "synced")
	s := b.scenario(t)
	s.make("cm/o", "thing/a < cm/o", "thing/b < cm/o", "thing/kept < cm/o", "cm/c < thing/b", "thing/p", "cm/d < thing/p", "thing/e < thing/p")
	e.ChangeUnseen("things", s.namespace, "kept", noOwners)
	s.remove("cm/o", background)
	s.want("-cm/o", "-thing/a", "-thing/b", "-cm/c", "thing/kept")
	for _, name := range []string{"a", "b"} {
		// The last look comes before the deletion; there may be more of them after it, by this test.
		list := requests(e, s.namespace, name)
		at := slices.Index(list, "DELETE")
		if at < 1 || list[at-1] != "GET" {
			t.Errorf("requests about %s: %v", name, list)
		}
	}
	if list := requests(e, s.namespace, "kept"); slices.Contains(list, "DELETE") {
		t.Errorf("it has no owner any more, and was deleted: %v", list)
	}
	e.Close()
	await.Holds(t, patience, "the type to be unreadable", func(ctx context.Context) error {
		if state := r.state(ctx, "things.ext.example.com"); state != "unreadable" {
			return errors.New(state)
		}
		return nil
	})
	s.make("cm/q", "cm/f < cm/q", "cm/late < thing/p", "cm/w", "cm/g < !cm/w")
	s.remove("cm/q", orphan)
	s.remove("cm/w", foreground)
	b.canary(t)
	s.want("-cm/q", "cm/f=0", "cm/d=1", "cm/late=1") // the journal has q; nobody knows of p
	b.Must(t, http.MethodDelete, "/apis/apiregistration.k8s.io/v1/apiservices/v1.ext.example.com", nil)
	s.want("-cm/w", "-cm/g", "cm/d=1", "cm/late=1") // it is not served any more: that proves nothing
	b.canary(t)
}
