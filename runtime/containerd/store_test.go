package containerd_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/leases"

	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/containerd"
	"github.com/ebb-agent/ebb/tools/node"
)

// Downloads that go on have a holder, what only an expired lease names does not, and all of
// it has an age. A download that a crash has left broken does not fail the reading.
func TestStoreLeftovers(t *testing.T) {
	eachFlavor(t, func(t *testing.T, h *realNode) {
		began := time.Now().Add(-2 * time.Second) // in the graph they are whole seconds
		h.Import(t, node.CRINamespace, Image{Name: "rest.test/a:1", Layers: []Layer{{Seed: "rest", Bytes: 1 << 10}}})
		ctx, r := h.in(t, node.CRINamespace), connect(t, h.Node)
		h.write(ctx, t, "free", 5000)
		lease, err := h.Client().LeasesService().Create(ctx, leases.WithID("pull"))
		must(t, "create lease", err)
		h.write(leases.WithLease(ctx, lease.ID), t, "leased", 5)
		h.expiredLease(ctx, t, "rest.test/a:1")

		g := graphOf(t, r)
		held := map[string][]image.NodeID{}
		for _, holder := range g.Holders {
			held[holder.Kind+" "+holder.Name] = holder.Nodes
		}
		for name, want := range map[string]uint64{"ingest k8s.io/free": 8192, "lease k8s.io/pull": 4096} {
			nodes := held[name]
			if len(nodes) != 1 || !g.Nodes[nodes[0]].Partial || g.Nodes[nodes[0]].Bytes != want {
				t.Errorf("%s holds %v, want a download of %d bytes; holders %v", name, nodes, want, held)
			}
		}
		if len(g.Expired) != 1 || g.Expired[0].Name != "k8s.io/past" || len(g.Unread) > 0 {
			t.Errorf("expired %v, unread %q", g.Expired, g.Unread)
		}
		for id, n := range g.Nodes {
			if at := n.Created.Time(); at.Before(began) || at.After(time.Now()) {
				t.Errorf("node %d of kind %d was made at %v, after %v", id, n.Kind, at, began)
			}
		}

		starts, err := filepath.Glob(filepath.Join(h.Root(), "io.containerd.content.v1.content/ingest/*/startedat"))
		if err != nil || len(starts) != 2 {
			t.Fatalf("found %q: %v", starts, err)
		}
		must(t, "break a download", os.WriteFile(starts[0], nil, 0o600))
		if broken := graphOf(t, r); len(broken.Unread) != 1 || !strings.HasPrefix(broken.Unread[0], "ingests of k8s.io: ") ||
			slices.ContainsFunc(broken.Nodes, func(n image.Node) bool { return n.Partial }) {
			t.Errorf("unread %q", broken.Unread)
		}
	})
}

func graphOf(t *testing.T, r *containerd.Runtime) image.Graph {
	t.Helper()
	inv, err := r.Inventory(t.Context())
	must(t, "inventory", err)
	return inv.Graph
}

// write begins a download and does not end it.
func (h *realNode) write(ctx context.Context, t *testing.T, ref string, bytes int) {
	t.Helper()
	w, err := content.OpenWriter(ctx, h.Client().ContentStore(), content.WithRef(ref))
	must(t, "open writer", err)
	_, err = w.Write(make([]byte, bytes))
	must(t, "write", err)
	must(t, "close", w.Close())
}

// expiredLease leaves a lease on an image's content whose time is past. containerd looks for
// such leases once something is deleted.
func (h *realNode) expiredLease(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	img, err := h.Client().ImageService().Get(ctx, name)
	must(t, "get image", err)
	manager := h.Client().LeasesService()
	// What was deleted before has its collection now, which would take the lease.
	old, err := manager.Create(ctx, leases.WithID("old"))
	must(t, "create lease", err)
	must(t, "delete lease", manager.Delete(ctx, old, leases.SynchronousDelete))
	lease, err := manager.Create(ctx, leases.WithID("past"), leases.WithLabels(map[string]string{"containerd.io/gc.expire": "2020-01-01T00:00:00Z"}))
	must(t, "create lease", err)
	must(t, "add to lease", manager.AddResource(ctx, lease, leases.Resource{ID: img.Target.Digest.String(), Type: "content"}))
}
