package main

import (
	"context"
	"time"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/opencontainers/image-spec/identity"

	"github.com/ebb-agent/ebb/tools/node"
)

// mountVolume adds an image to a container as the kubelet's image volumes do: as a view of its top
// layer. No process runs from it. It returns nil if no image is on the node.
func (d *driver) mountVolume(ctx context.Context, container string) (*pulled, error) {
	p, err := d.there(ctx)
	if p == nil {
		return nil, err
	}
	ctx = namespaces.WithNamespace(ctx, node.CRINamespace)
	image, err := d.node.Client().GetImage(ctx, p.Name)
	if err != nil {
		return nil, err
	}
	layers, err := image.RootFS(ctx)
	if err != nil {
		return nil, err
	}
	root := snapshots.WithLabels(map[string]string{"containerd.io/gc.root": time.Now().Format(time.RFC3339)})
	_, err = d.node.Client().SnapshotService(snapshotter).View(ctx, volumeOf(container), identity.ChainID(layers).String(), root)
	if err != nil {
		return nil, err
	}
	d.oracle.Protect(p.id, "it is a volume of "+container, time.Now())
	return p, nil
}

func (d *driver) unmountVolume(ctx context.Context, s stay) error {
	if s.volume == nil {
		return nil
	}
	d.oracle.Release(s.volume.id, "it is a volume of "+s.name, time.Now())
	d.oracle.Used(s.volume.id, time.Time{}, time.Time{}) // no process shows when the use of a volume ends
	return d.node.Client().SnapshotService(snapshotter).Remove(namespaces.WithNamespace(ctx, node.CRINamespace), volumeOf(s.name))
}

func volumeOf(container string) string { return "volume-of-" + container }
