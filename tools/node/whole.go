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

// Collect runs containerd's garbage collection and waits for it.
func (n *Node) Collect(ctx context.Context) error {
	in, all := namespaces.WithNamespace(ctx, CRINamespace), n.Client().LeasesService()
	l, err := all.Create(in, leases.WithRandomID())
	if err != nil {
		return err
	}
	return all.Delete(in, l, leases.SynchronousDelete)
}

// ImagesWhole returns an error for each image in CRI's namespace that lacks a blob or a layer.
// Images whose names are in cut were not imported completely: they may lack layers.
func (n *Node) ImagesWhole(ctx context.Context, cut ...string) error {
	_, _, err := n.wholeImages(ctx, cut)
	return err
}

// wholeImages does the work of ImagesWhole. It also returns the blobs and the layers of all
// images.
func (n *Node) wholeImages(ctx context.Context, cut []string) (blobs map[digest.Digest]bool, layers map[string]bool, _ error) {
	in, c := namespaces.WithNamespace(ctx, CRINamespace), n.Client()
	records, err := c.ImageService().List(in)
	if err != nil {
		return nil, nil, err
	}
	partly := make(map[digest.Digest]bool)
	for _, r := range records {
		if slices.Contains(cut, r.Name) {
			partly[r.Target.Digest] = true // the CRI has further names for the same image
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
		if _, gone := c.ImageService().Get(in, r.Name); err != nil && !errdefs.IsNotFound(gone) { // containerd completes a removal that a killed agent requested
			errs = append(errs, fmt.Errorf("image %s is there by half: %w", r.Name, err))
		}
	}
	return blobs, layers, errors.Join(errs...)
}

// Whole returns an error for everything that is incomplete while no agent runs. Named images
// must be complete. Of removed images no blob and no layer may be left, and no lease of an
// agent. For cut see ImagesWhole.
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
