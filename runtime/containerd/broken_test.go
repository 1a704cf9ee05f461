package containerd_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/contrib/snapshotservice"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/plugins/snapshots/native"
	"google.golang.org/grpc"

	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/containerd"
	"github.com/ebb-agent/ebb/runtime/inventory"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/node/nodetest"
)

// proxied is a node with a snapshotter of this process beside its own.
type proxied struct {
	*realNode
	backend snapshots.Snapshotter
	socket  string
	stop    func() // the process
}

// startProxied starts a node whose containerd knows the snapshotter "proxy". Its layers are on another
// filesystem than the node's, in root.
func startProxied(t *testing.T, flavor node.Flavor) (p *proxied, root string) {
	t.Helper()
	return startProxiedAs(t, flavor, func(root string) string { return root })
}

// startProxiedAs is startProxied with the root that containerd's configuration has of the snapshotter.
func startProxiedAs(t *testing.T, flavor node.Flavor, configured func(root string) string) (p *proxied, root string) {
	t.Helper()
	dir, err := os.MkdirTemp("/run", "ebb-proxy-")
	must(t, "make a directory", err)
	t.Cleanup(func() { must(t, "remove the directory", os.RemoveAll(dir)) })
	p, root = &proxied{socket: filepath.Join(dir, "s")}, filepath.Join(dir, "native")
	p.backend, err = native.NewSnapshotter(root)
	must(t, "make the snapshotter", err)
	p.serve(t, p.backend)
	t.Cleanup(func() { p.stop() })
	p.realNode = &realNode{nodetest.Start(t, node.Config{Containerd: flavor, SizeBytes: 512 << 20, Proxy: p.socket, ProxyRoot: configured(root)}), nil, nil}
	return p, root
}

// serve answers as the process of a proxy plugin does, until stop is called.
func (p *proxied) serve(t *testing.T, s snapshots.Snapshotter) {
	t.Helper()
	l, err := net.Listen("unix", p.socket)
	must(t, "listen", err)
	server := grpc.NewServer()
	snapshotsapi.RegisterSnapshotsServer(server, snapshotservice.FromSnapshotter(s))
	done := make(chan error)
	go func() { done <- server.Serve(l) }()
	p.stop = sync.OnceFunc(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Errorf("serve the snapshotter: %v", err)
		}
	})
}

// unpack unpacks an image in the snapshotter, too.
func (p *proxied) unpack(t *testing.T, name string) {
	t.Helper()
	in := p.in(t, node.CRINamespace)
	record, err := p.Client().ImageService().Get(in, name)
	must(t, "get image", err)
	must(t, "unpack", client.NewImage(p.Client(), record).Unpack(in, "proxy"))
}

// hanging is a snapshotter whose backend answers no more. blind is one that still lists its layers, and
// measures none.
type (
	hanging struct{ snapshots.Snapshotter }
	blind   struct{ snapshots.Snapshotter }
)

func (blind) Usage(ctx context.Context, _ string) (snapshots.Usage, error) {
	<-ctx.Done()
	return snapshots.Usage{}, ctx.Err()
}

func (hanging) Stat(ctx context.Context, _ string) (snapshots.Info, error) {
	<-ctx.Done()
	return snapshots.Info{}, ctx.Err()
}

// A snapshotter whose process is down, or hangs, keeps its own images and no others.
func TestBrokenSnapshotter(t *testing.T) {
	for _, c := range []struct {
		name   string
		flavor node.Flavor
		hangs  func(snapshots.Snapshotter) snapshots.Snapshotter // nil: the process is down
	}{
		{"down, " + string(node.Debian), node.Debian, nil},
		{"down, " + string(node.V2), node.V2, nil},
		{"hangs", node.V2, func(s snapshots.Snapshotter) snapshots.Snapshotter { return hanging{s} }},
		{"cannot measure", node.V2, func(s snapshots.Snapshotter) snapshots.Snapshotter { return blind{s} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, _ := startProxied(t, c.flavor)
			plain := h.Import(t, node.CRINamespace, Image{Name: "plain.test/a:1", Layers: []Layer{{Seed: "plain", Bytes: 1 << 20}}})
			proxied := h.Import(t, node.CRINamespace, Image{Name: "proxied.test/b:1", Layers: []Layer{{Seed: "proxied", Bytes: 1 << 20}}})
			h.unpack(t, "proxied.test/b:1")

			r := connect(t, h.Node)
			users := func(r *containerd.Runtime, broken bool) {
				t.Helper()
				inv, err := r.Inventory(t.Context())
				must(t, "inventory", err)
				if (inv.Broken["proxy"] != "") != broken || len(inv.Broken) > 1 {
					t.Errorf("broken: %v", inv.Broken)
				}
				for _, i := range inv.Images {
					if unread := i.Unread == "proxy"; unread != (broken && i.ID == proxied) || len(i.UsedBy) > 0 || i.InUse {
						t.Errorf("%v is used by %q, unread %q", i.References, i.UsedBy, i.Unread)
					}
				}
			}
			users(r, false)
			checked, err := r.Check(t.Context(), plain)
			must(t, "check", err)
			w, err := r.Withdraw(t.Context(), checked[plain])
			must(t, "withdraw", err)
			h.stop()
			if c.hangs != nil {
				h.serve(t, c.hangs(h.backend))
				defer func(usual time.Duration) { *containerd.SnapshotterTimeout = usual }(*containerd.SnapshotterTimeout)
				*containerd.SnapshotterTimeout = 3 * time.Second
			}
			// Between the list and the last look: whether an image is used there cannot be known.
			if _, err := r.Users(t.Context(), w); !errors.Is(err, inventory.ErrStale) && c.name != "cannot measure" {
				t.Errorf("users, with the snapshotter gone: %v", err)
			}
			must(t, "restore", w.Restore(t.Context()))
			if c.name != "cannot measure" { // its sizes are known already
				users(r, true)
			}
			users(connect(t, h.Node), true)

			checked, err = r.Check(t.Context(), plain)
			must(t, "check", err)
			w, err = r.Withdraw(t.Context(), checked[plain])
			must(t, "withdraw", err)
			if by, err := r.Users(t.Context(), w); err != nil || len(by[0]) > 0 {
				t.Errorf("users of what is withdrawn: %q, %v", by, err)
			}
			must(t, "complete", w.Complete(t.Context(), true))
			if c.hangs != nil {
				h.stop()
			}
			h.serve(t, h.backend)
			must(t, "wait", await.Until(t.Context(), "the snapshotter to answer again", func(ctx context.Context) error {
				inv, err := r.Inventory(ctx)
				if err == nil && len(inv.Broken) > 0 {
					err = fmt.Errorf("broken: %v", inv.Broken)
				}
				return err
			}))
			users(r, false)
			if len(find(t, r, proxied).Layers) != 2 {
				t.Error("the image is not in both snapshotters")
			}
		})
	}
}

// Layers of a second snapshotter on another filesystem, or on one that is not known, free nothing where the
// images are.
func TestLayersOnAnotherFilesystem(t *testing.T) {
	for name, c := range map[string]struct {
		configured func(root string) string
		unread     func(root string) string
	}{
		"another": {func(root string) string { return root }, func(root string) string { return root }},
		"unknown": {func(string) string { return "" }, func(string) string { return "containerd does not report the directory" }},
	} {
		t.Run(name, func(t *testing.T) {
			h, root := startProxiedAs(t, node.V2, c.configured)
			testLayersElsewhere(t, h, c.unread(root))
		})
	}
}

func testLayersElsewhere(t *testing.T, h *proxied, want string) {
	t.Helper()
	h.Import(t, node.CRINamespace, Image{Name: "proxied.test/b:1", Layers: []Layer{{Seed: "proxied", Bytes: 8 << 20}}})
	r := connect(t, h.Node)
	weigh := func() (snapshots int, bytes uint64, unread []string, unwatched map[string]string) {
		_, err := r.Roots(t.Context())
		must(t, "roots", err)
		inv, err := r.Inventory(t.Context())
		must(t, "inventory", err)
		for _, node := range inv.Graph.Nodes {
			if node.Kind == image.NodeSnapshot {
				snapshots++
				bytes += node.Bytes
			}
		}
		return snapshots, bytes, inv.Graph.Unread, inv.Unwatched
	}
	snapshots, bytes, unread, unwatched := weigh()
	if len(unread) > 0 || len(unwatched) > 0 {
		t.Errorf("before: %q, %q", unread, unwatched)
	}
	h.unpack(t, "proxied.test/b:1")
	nowSnapshots, nowBytes, unread, unwatched := weigh()
	if nowSnapshots != snapshots || nowBytes != bytes {
		t.Errorf("%d layers of %d bytes became %d of %d", snapshots, bytes, nowSnapshots, nowBytes)
	}
	if len(unread) != 1 || !strings.Contains(unread[0], want) {
		t.Errorf("unread: %q", unread)
	}
	if len(unwatched) != 1 || !strings.Contains(unwatched["proxy"], want) {
		t.Errorf("unwatched: %q", unwatched)
	}
}
