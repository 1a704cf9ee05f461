package e2e

import (
	"context"
	"errors"
	"slices"
	"strings"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/ebb-agent/ebb/tools/node"
)

// collect has containerd remove what nothing refers to.
func (b *fixture) collect() {
	b.Helper()
	in, all := namespaces.WithNamespace(b.ctx, node.CRINamespace), b.node.Client().LeasesService()
	l, err := all.Create(in, leases.WithRandomID())
	b.must(err)
	b.must(all.Delete(in, l, leases.SynchronousDelete))
}

// checkImages looks whether each image that has a name has all its blobs and all its layers,
// the layers of those in cut left out, and returns what all of them have.
func (b *fixture) checkImages(cut ...string) (blobs map[digest.Digest]bool, layers map[string]bool) {
	b.Helper()
	in, c := namespaces.WithNamespace(b.ctx, node.CRINamespace), b.node.Client()
	records, err := c.ImageService().List(in)
	b.must(err)
	partly := make(map[digest.Digest]bool)
	for _, r := range records {
		if slices.ContainsFunc(cut, func(name string) bool { return r.Name == ref(name) }) {
			partly[r.Target.Digest] = true // the CRI has a name of its own for it
		}
	}
	blobs, layers = make(map[digest.Digest]bool), make(map[string]bool)
	for _, r := range records {
		err := images.Walk(in, images.HandlerFunc(func(ctx context.Context, d ocispec.Descriptor) ([]ocispec.Descriptor, error) {
			blobs[d.Digest] = true
			if _, err := c.ContentStore().Info(ctx, d.Digest); err != nil {
				return nil, err
			}
			return images.Children(ctx, c.ContentStore(), d)
		}), r.Target)
		var diffs []digest.Digest
		if err == nil {
			diffs, err = client.NewImage(c, r).RootFS(in)
		}
		for _, chain := range identity.ChainIDs(diffs) {
			layers[chain.String()] = true
			if _, missing := c.SnapshotService("overlayfs").Stat(in, chain.String()); !partly[r.Target.Digest] {
				err = errors.Join(err, missing)
			}
		}
		if _, gone := c.ImageService().Get(in, r.Name); err != nil && !errdefs.IsNotFound(gone) { // containerd ends what a killed agent has asked for
			b.Errorf("image %s is there by half: %v", r.Name, err)
		}
	}
	return blobs, layers
}

// checkWhole looks whether no image is there by half, once no agent runs: what has a name is
// whole, what has none is gone to its last blob and layer, and no lease of an agent's is left.
func (b *fixture) checkWhole(cut ...string) {
	b.Helper()
	b.collect()
	in, c := namespaces.WithNamespace(b.ctx, node.CRINamespace), b.node.Client()
	blobs, layers := b.checkImages(cut...)
	all, err := c.LeasesService().List(in)
	b.must(err)
	for _, l := range all {
		for label := range l.Labels {
			if strings.HasPrefix(label, "ebb-agent.github.io/") {
				b.Errorf("lease %s is left: %v", l.ID, l.Labels)
				break
			}
		}
	}
	b.must(c.ContentStore().Walk(in, func(i content.Info) error {
		if !blobs[i.Digest] {
			b.Errorf("blob %s is left, of no image: %v", i.Digest, i.Labels)
		}
		return nil
	}))
	parents := make(map[string]string)
	b.must(c.SnapshotService("overlayfs").Walk(in, func(_ context.Context, i snapshots.Info) error {
		parents[i.Name] = i.Parent
		return nil
	}))
	containers, err := c.ContainerService().List(in)
	b.must(err)
	for _, one := range containers {
		for key := one.SnapshotKey; key != ""; key = parents[key] {
			layers[key] = true
		}
	}
	for key := range parents {
		if !layers[key] {
			b.Errorf("snapshot %s is left, of no image and no container", key)
		}
	}
	b.Logf("%d blobs and %d snapshots, all of them of images and containers", len(blobs), len(parents))
}
