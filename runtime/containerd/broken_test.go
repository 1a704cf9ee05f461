package containerd_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/node/nodetest"
)

// serveSnapshotter serves a snapshotter as the process of a proxy plugin does, until stop is called.
func serveSnapshotter(t *testing.T, s snapshots.Snapshotter, socket string) (stop func()) {
	t.Helper()
	must(t, "make the socket's directory", os.MkdirAll(filepath.Dir(socket), 0o700))
	l, err := net.Listen("unix", socket)
	must(t, "listen", err)
	server := grpc.NewServer()
	snapshotsapi.RegisterSnapshotsServer(server, snapshotservice.FromSnapshotter(s))
	done := make(chan error)
	go func() { done <- server.Serve(l) }()
	return func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Errorf("serve the snapshotter: %v", err)
		}
	}
}

// hanging is a snapshotter whose backend answers no more.
type hanging struct{ snapshots.Snapshotter }

func (hanging) Stat(ctx context.Context, _ string) (snapshots.Info, error) {
	<-ctx.Done()
	return snapshots.Info{}, ctx.Err()
}

// A snapshotter whose process is down, or hangs, keeps its own images and no others.
func TestBrokenSnapshotter(t *testing.T) {
	for _, c := range []struct {
		name   string
		flavor node.Flavor
		hangs  bool
	}{{"down, " + string(node.Debian), node.Debian, false}, {"down, " + string(node.V2), node.V2, false}, {"hangs", node.V2, true}} {
		t.Run(c.name, func(t *testing.T) {
			dir, err := os.MkdirTemp("/run", "ebb-proxy-")
			must(t, "make a directory", err)
			t.Cleanup(func() { must(t, "remove the directory", os.RemoveAll(dir)) })
			socket := filepath.Join(dir, "s")
			backend, err := native.NewSnapshotter(filepath.Join(dir, "native"))
			must(t, "make the snapshotter", err)
			stop := serveSnapshotter(t, backend, socket)
			n := nodetest.Start(t, node.Config{Containerd: c.flavor, SizeBytes: 512 << 20, Proxy: socket})
			h := &realNode{n, nil, nil}
			plain := h.Import(t, node.CRINamespace, Image{Name: "plain.test/a:1", Layers: []Layer{{Seed: "plain", Bytes: 1 << 20}}})
			proxied := h.Import(t, node.CRINamespace, Image{Name: "proxied.test/b:1", Layers: []Layer{{Seed: "proxied", Bytes: 1 << 20}}})
			in := h.in(t, node.CRINamespace)
			record, err := n.Client().ImageService().Get(in, "proxied.test/b:1")
			must(t, "get image", err)
			must(t, "unpack", client.NewImage(n.Client(), record).Unpack(in, "proxy"))

			r := connect(t, n)
			users := func(r *containerd.Runtime, broken bool) {
				t.Helper()
				inv, err := r.Inventory(t.Context())
				must(t, "inventory", err)
				if (inv.Broken["proxy"] != "") != broken || len(inv.Broken) > 1 {
					t.Errorf("broken: %v", inv.Broken)
				}
				for _, i := range inv.Images {
					if got := slices.Contains(i.UsedBy, "snapshotter proxy, which cannot be read"); got != (broken && i.ID == proxied) || i.InUse {
						t.Errorf("%v is used by %q", i.References, i.UsedBy)
					}
				}
			}
			users(r, false)
			stop()
			if c.hangs {
				stop = serveSnapshotter(t, hanging{backend}, socket)
				defer func(usual time.Duration) { *containerd.SnapshotterTimeout = usual }(*containerd.SnapshotterTimeout)
				*containerd.SnapshotterTimeout = 3 * time.Second
			}
			users(r, true)
			users(connect(t, n), true)

			checked, err := r.Check(t.Context(), plain)
			must(t, "check", err)
			w, err := r.Withdraw(t.Context(), checked[plain])
			must(t, "withdraw", err)
			if by, err := r.Users(t.Context(), w); err != nil || len(by[0]) > 0 {
				t.Errorf("users of what is withdrawn: %q, %v", by, err)
			}
			must(t, "complete", w.Complete(t.Context(), true))
			if c.hangs {
				stop()
			}
			stop = serveSnapshotter(t, backend, socket)
			defer func() { stop() }()
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

// Layers of a second snapshotter on another filesystem free nothing where the images are.
func TestLayersOnAnotherFilesystem(t *testing.T) {
	dir, err := os.MkdirTemp("/run", "ebb-proxy-")
	must(t, "make a directory", err)
	t.Cleanup(func() { must(t, "remove the directory", os.RemoveAll(dir)) })
	socket, root := filepath.Join(dir, "s"), filepath.Join(dir, "native")
	backend, err := native.NewSnapshotter(root)
	must(t, "make the snapshotter", err)
	defer serveSnapshotter(t, backend, socket)()
	n := nodetest.Start(t, node.Config{Containerd: node.V2, SizeBytes: 512 << 20, Proxy: socket, ProxyRoot: root})
	h := &realNode{n, nil, nil}
	h.Import(t, node.CRINamespace, Image{Name: "proxied.test/b:1", Layers: []Layer{{Seed: "proxied", Bytes: 8 << 20}}})
	in := h.in(t, node.CRINamespace)
	r := connect(t, n)
	weigh := func() (snapshots int, bytes uint64, unread []string) {
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
		return snapshots, bytes, inv.Graph.Unread
	}
	snapshots, bytes, unread := weigh()
	if len(unread) > 0 {
		t.Errorf("before: %q", unread)
	}
	record, err := n.Client().ImageService().Get(in, "proxied.test/b:1")
	must(t, "get image", err)
	must(t, "unpack", client.NewImage(n.Client(), record).Unpack(in, "proxy"))
	nowSnapshots, nowBytes, unread := weigh()
	if nowSnapshots != snapshots || nowBytes != bytes {
		t.Errorf("%d layers of %d bytes became %d of %d", snapshots, bytes, nowSnapshots, nowBytes)
	}
	if len(unread) != 1 || !strings.Contains(unread[0], root) {
		t.Errorf("unread: %q", unread)
	}
}
