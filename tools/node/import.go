package node

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ebb-agent/ebb/tools/ociarchive"
)

// CRINamespace is the containerd namespace whose images CRI knows.
const CRINamespace = "k8s.io"

// Import builds an image, imports and unpacks it in a namespace, and returns its ID:
// the digest of its config, as in CRI. In CRI's namespace it returns once CRI knows the
// image.
func (n *Node) Import(ctx context.Context, namespace string, image Image) (string, error) {
	ids, err := n.ImportAll(ctx, namespace, []Image{image})
	if err != nil {
		return "", err
	}
	return ids[0], nil
}

// ImportAll imports many images at once, and returns their IDs in that order. It sends
// one archive that contains each layer once.
func (n *Node) ImportAll(ctx context.Context, namespace string, list []Image) ([]string, error) {
	all := make([]archivable, len(list))
	for i := range list {
		all[i] = list[i]
	}
	return n.importAll(ctx, namespace, all)
}

func (n *Node) importAll(ctx context.Context, namespace string, list []archivable) ([]string, error) {
	begun := time.Now()
	built := make([]v1.Image, len(list))
	ids := make([]string, len(list))
	for i, image := range list {
		img, err := image.build()
		if err != nil {
			return nil, fmt.Errorf("build image %q: %w", image.names()[0], err)
		}
		id, err := img.ConfigName()
		if err != nil {
			return nil, fmt.Errorf("build image %q: %w", image.names()[0], err)
		}
		built[i], ids[i] = img, id.String()
	}
	ctx = namespaces.WithNamespace(ctx, namespace)
	records, err := n.send(ctx, list, built)
	if err != nil {
		return nil, fmt.Errorf("import images: %w", err)
	}
	if err := n.unpack(ctx, records); err != nil {
		return nil, err
	}
	if namespace == CRINamespace {
		for i, image := range list {
			if err := n.awaitCRI(ctx, image.names(), ids[i]); err != nil {
				return nil, err
			}
		}
	}
	n.log.Info("images imported", "namespace", namespace, "images", len(list), "took", time.Since(begun))
	return ids, nil
}

// send streams an archive of the images to containerd. If the disk is full it fails,
// and containerd's garbage collection removes all that is left.
func (n *Node) send(ctx context.Context, list []archivable, built []v1.Image) ([]images.Image, error) {
	r, w := io.Pipe()
	var (
		group   errgroup.Group
		records []images.Image
	)
	group.Go(func() error {
		err := writeArchive(w, list, built)
		w.CloseWithError(err)
		return err
	})
	group.Go(func() (err error) {
		defer func() { r.CloseWithError(err) }()
		records, err = n.containerd.Import(ctx, r)
		return err
	})
	return records, group.Wait()
}

// unpack unpacks each image. Names of one image, and images that differ only in their
// config, share snapshots.
func (n *Node) unpack(ctx context.Context, records []images.Image) error {
	// More in parallel does not help: containerd serialises its metadata transactions.
	const parallel = 4
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, record := range records {
		group.Go(func() error {
			if err := despiteCrash(func() error {
				return client.NewImage(n.containerd, record).Unpack(ctx, n.config.Snapshotter)
			}); err != nil {
				return fmt.Errorf("unpack image %q: %w", record.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// despiteCrash calls snapshot, and once more if a crash of containerd made it fail. A
// containerd that was killed while it made any snapshot leaves that snapshot's
// directory, but not its number in the metadata. The next snapshot gets that number,
// fails, and removes the directory.
func despiteCrash(snapshot func() error) error {
	err := snapshot()
	if err != nil && strings.Contains(err.Error(), "failed to rename") && strings.HasSuffix(err.Error(), "file exists") {
		return snapshot()
	}
	return err
}

// awaitCRI returns once CRI knows the image by all its names. CRI learns of images from
// containerd's events, some time after the import, and offers no notification. If the
// image is removed during the wait, the error is errdefs.ErrNotFound.
func (n *Node) awaitCRI(ctx context.Context, names []string, id string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	unseen := names
	err := wait.PollUntilContextCancel(ctx, 2*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		got, err := n.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: id}})
		if err != nil {
			return false, err
		}
		unseen = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			return slices.Contains(got.GetImage().GetRepoTags(), name)
		})
		if len(unseen) > 0 {
			_, err = n.containerd.ImageService().Get(ctx, unseen[0])
		}
		return len(unseen) == 0, err
	})
	if err != nil {
		return fmt.Errorf("wait for CRI to see image %q: %w", unseen, err)
	}
	return nil
}

// writeArchive writes an OCI image layout as a tar stream. Tags become entries of
// the index with the same manifest.
func writeArchive(w io.Writer, list []archivable, built []v1.Image) error {
	var entries []mutate.IndexAddendum
	for i, img := range built {
		for _, name := range list[i].names() {
			// containerd's own annotation holds a full reference; the OCI one only a
			// tag.
			entries = append(entries, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
				Annotations: map[string]string{images.AnnotationImageName: name},
			}})
		}
	}
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), entries...)
	return ociarchive.Write(w, index, time.Time{})
}
