package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Collect has containerd remove what nothing refers to.
func (n *Node) Collect(ctx context.Context) error {
	in, all := namespaces.WithNamespace(ctx, CRINamespace), n.Client().LeasesService()
	l, err := all.Create(in, leases.WithRandomID())
	if err != nil {
		return err
	}
	return all.Delete(in, l, leases.SynchronousDelete)
}

// ImagesWhole returns an error for each image whose name the CRI has and that lacks a blob or a
// layer. Of images whose import was cut short, whose names are in cut, layers may be missing.
func (n *Node) ImagesWhole(ctx context.Context, cut ...string) error {
	_, _, err := n.wholeImages(ctx, cut)
	return err
}

// wholeImages returns the blobs and the layers of all images as well.
func (n *Node) wholeImages(ctx context.Context, cut []string) (blobs map[digest.Digest]bool, layers map[string]bool, _ error) {
	in, c := namespaces.WithNamespace(ctx, CRINamespace), n.Client()
	records, err := c.ImageService().List(in)
	if err != nil {
		return nil, nil, err
	}
	partly := make(map[digest.Digest]bool)
	for _, r := range records {
		if slices.Contains(cut, r.Name) {
			partly[r.Target.Digest] = true // the CRI has a name of its own for it
		}
	}
	blobs, layers = make(map[digest.Digest]bool), make(map[string]bool)
	var errs []error
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
			errs = append(errs, fmt.Errorf("image %s is there by half: %w", r.Name, err))
		}
	}
	return blobs, layers, errors.Join(errs...)
}

// Whole returns an error for whatever is there by half while no agent runs: what has a name is
// whole, what has none is gone to its last blob and layer, and no lease of an agent's is left.
// cut: see ImagesWhole.
func (n *Node) Whole(ctx context.Context, cut ...string) error {
	if err := n.Collect(ctx); err != nil {
		return err
	}
	in, c := namespaces.WithNamespace(ctx, CRINamespace), n.Client()
	blobs, layers, err := n.wholeImages(ctx, cut)
	errs := []error{err}
	all, err := c.LeasesService().List(in)
	errs = append(errs, err)
	for _, l := range all {
		for label := range l.Labels {
			if strings.HasPrefix(label, "ebb-agent.github.io/") {
				errs = append(errs, fmt.Errorf("lease %s is left: %v", l.ID, l.Labels))
				break
			}
		}
	}
	errs = append(errs, c.ContentStore().Walk(in, func(i content.Info) error {
		if !blobs[i.Digest] {
			errs = append(errs, fmt.Errorf("blob %s is left, of no image: %v", i.Digest, i.Labels))
		}
		return nil
	}))
	parents := make(map[string]string)
	errs = append(errs, c.SnapshotService("overlayfs").Walk(in, func(_ context.Context, i snapshots.Info) error {
		parents[i.Name] = i.Parent
		return nil
	}))
	containers, err := c.ContainerService().List(in)
	errs = append(errs, err)
	for _, one := range containers {
		for key := one.SnapshotKey; key != ""; key = parents[key] {
			layers[key] = true
		}
	}
	for key := range parents {
		if !layers[key] {
			errs = append(errs, fmt.Errorf("snapshot %s is left, of no image and no container", key))
		}
	}
	return errors.Join(errs...)
}
